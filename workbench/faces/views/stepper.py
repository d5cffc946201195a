"""The stepper as a widget: it shows a trace step by step, and continues a run that is not finished."""

from __future__ import annotations

import contextlib
from typing import Any

import traitlets

from workbench.faces.views.faces import static_html
from workbench.faces.views.markup import paragraph
from workbench.faces.views.steps import stepper_data, uncounted
from workbench.faces.views.widget import View, script, style
from workbench.run.stepper import Stepwise


class Stepper(View):
    """A widget for a stepwise object or a trace: slider, keys, play, linked plots; start, pause and stop.

    ``step`` is the shown step; it can be read and set. The widget contains all data, so that stepping works
    without a kernel. A run continues in a thread; meanwhile the object must not be stepped elsewhere. A
    saturation also answers questions: why a term is not in its e-graph. A page without widgets shows the
    object's static face instead.
    """

    module = "stepper"
    _esm = script("stepper")
    _css = style("stepper")

    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    answers = traitlets.Bool(False).tag(sync=True)
    answer = traitlets.Unicode("").tag(sync=True)

    def __init__(self, subject: Any, title: str = "") -> None:
        self._trace = getattr(subject, "trace", subject)
        self._name = title
        self._asked = ""
        super().__init__(subject, data=stepper_data(self._trace, title), step=0)
        self.live = self._unfinished()
        self.answers = hasattr(subject, "why_not")
        self._say()
        self.on_msg(self._told)

    def _unfinished(self) -> bool:
        return isinstance(self._subject, Stepwise) and self._subject.unfinished

    # -- running ------------------------------------------------------------------------------------
    def start(self) -> None:
        """Step in a separate thread until the run is finished, paused or stopped."""
        if self._unfinished() and not self.running:
            self.running = True
            self._asked = ""
            self._say()
            self._subject.start(lambda step: self.refresh(), self._ended)

    def pause(self, *, wait: bool = False) -> None:
        """Stop after the current step; with ``wait``, return only after it."""
        if self.running:
            self._asked = self._asked or "pause"
            self._say()
            self._subject.stop(wait=wait)

    def stop(self, *, wait: bool = False) -> None:
        """Stop permanently after the current step; the object keeps its results."""
        self._asked = "stop"
        self.pause(wait=wait)
        self.live = False
        self._say()

    def _ended(self) -> None:
        self._attribute()
        self.running = False
        self.live = self.live and self._unfinished()
        self.refresh()
        self._say()

    def _attribute(self) -> None:
        """Let a saturation count which rule made which e-nodes; steps of a large e-graph lack the counts."""
        read = getattr(self._subject, "egraph", None)
        if callable(read) and uncounted(self._trace):
            self.status = "counting the e-nodes of every rule"
            with contextlib.suppress(OSError, RuntimeError, MemoryError):  # the counts stay out
                read()

    def _say(self) -> None:
        """Return in words whether the run continues, and the reason if it does not."""
        if not isinstance(self._subject, Stepwise):
            return
        reason = self._subject.stop_reason
        if self.running:
            after = {"pause": "pausing", "stop": "stopping"}.get(self._asked)
            taken = len(self._trace)
            busy = f"running: {taken} steps taken" if taken else "running: the first step takes longest"
            self.status = f"{after} after the current step" if after else busy
        elif not self._unfinished():
            self.status = f"stopped because: {reason.value}" if reason is not None else ""
        elif self._asked == "stop":
            self.status = "stopped because: the stop button was pressed; the results are kept"
        elif len(self._trace) <= 1:
            self.status = "not started"
        else:
            self.status = "paused; start continues"

    def refresh(self) -> None:
        """Show new steps of the trace; if the last step was shown, move to the new last one."""
        last = len(self.data["steps"]) - 1
        follows = self.step >= last
        self.data = stepper_data(self._trace, self._name, going=self.running)
        self._say()
        if follows:
            self.step = max(0, len(self.data["steps"]) - 1)

    # -- questions ------------------------------------------------------------------------------------
    def ask(self, question: str) -> None:
        """Show why a term or a rule's result is not in the e-graph of a saturation.

        ``a == b`` asks why two terms are not equal. If they are, the chain of rules between them is shown.
        """
        self.answer = ""
        if self.running:
            self.answer = paragraph("a question can be asked when the run is paused or stopped")
            return
        try:
            self.answer = self._answered(question)
        except (ValueError, LookupError) as error:
            self.answer = paragraph(str(error))

    def _answered(self, question: str) -> str:
        target, compared, other = (part.strip() for part in question.partition("=="))
        if compared and not (target and other):
            raise ValueError(f"== must be between two terms, got {question.strip()!r}")
        told = self._subject.why_not(target, equals=other or None)
        explained = static_html(self._subject.explain(target, other)) if told.represented and other else ""
        return static_html(told) + explained

    def _told(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("command") == "ask" and self.answers:
            self.ask(str(message.get("question", "")))
            return
        command = {"start": self.start, "pause": self.pause, "stop": self.stop}.get(
            message.get("command", "")
        )
        if command is not None:
            command()

    def __repr__(self) -> str:
        return f"Stepper at step {self.step} of {len(self.data['steps'])}: {self._subject!r}"
