"""Widgets: viewer, stepper, browsers of rules and runs, static faces."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anywidget
import traitlets

from workbench.faces.views.egraphs import Known, Part, attribute_texts, egraph_data, egraph_html
from workbench.faces.views.markup import EXPORT, live_page, paragraph, static_text
from workbench.faces.views.rules import rules_data
from workbench.faces.views.runs import first_choice, runs_data, runs_page, runs_script, runs_style
from workbench.faces.views.static_html import static_html
from workbench.faces.views.steps import stepper_data, uncounted
from workbench.run.stepper import Stepwise
from workbench.studies.analysis.rule_activity import RuleTable, used_by_step
from workbench.studies.experiments.stored_runs import StoredRuns
from workbench.support.files import write_atomic

if TYPE_CHECKING:
    from workbench.extraction.result import Solution

#: The modules of a view before its own, if it has any, in the order in which they are joined.
PARTS: Final = {"viewer": ("table", "export", "minimap", "pane")}


def script(name: str) -> str:
    """Return the JavaScript of a view: the functions shared by all views, its parts, and its own module."""
    return static_text(*(f"{part}.js" for part in ("dom", "theme", *PARTS.get(name, ()), name)))


def style(name: str) -> str:
    """Return the style sheet of a view: the colours shared by all views, and its own."""
    return static_text("theme.css", f"{name}.css")


class Faced:
    """A widget with a static face, which notebooks keep for pages without widgets."""

    def face(self) -> str:
        """Return the static face for pages without scripts."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)  # type: ignore[misc]  # a widget's
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return dict(data) | {"text/plain": repr(self), "text/html": self.face()}, metadata


class View(Faced, anywidget.AnyWidget):  # type: ignore[misc]
    """A widget for a subject: live in a notebook, and its static face on pages without scripts.

    It contains all its data and works without a kernel. ``module`` is the stem of the files in
    :data:`~workbench.faces.views.markup.STATIC` that draw it.
    """

    module: ClassVar[str]

    def face(self) -> str:
        """Return the static face for pages without scripts."""
        return static_html(self._subject)

    def __init__(self, subject: Any, **state: Any) -> None:
        self._subject = subject
        super().__init__(**state)

    def __repr__(self) -> str:
        return repr(self._subject)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the view as one file that opens from disk, without a kernel or network access."""
        write_atomic(path, self.page())

    def page(self) -> str:
        """Return the view as a complete page, with its static face for browsers without scripts."""
        own = set(self.class_traits(sync=True)) - set(View.class_traits(sync=True))
        kept = {k: v for k, v in self.get_state(own).items() if not k.startswith("_")}
        state = json.dumps(kept | {"answers": False, "draws": False}).replace("<", "\\u003c")
        module = script(self.module)
        assert EXPORT in module
        drawn = f"{static_text('page.js')}\n{module.replace(EXPORT, '')}"
        name = type(self._subject).__name__
        return live_page(name, style(self.module), self.face(), drawn, f"new Model({state})")


class Still(View):
    """A widget that shows an object's static face."""

    module = "static"
    _esm = script("static")
    _css = style("static")
    html = traitlets.Unicode("").tag(sync=True)

    def __init__(self, subject: Any) -> None:
        super().__init__(subject, html=static_html(subject))


class Viewer(View):
    """A widget with panes side by side: pan, zoom, search, facts of a box, and corresponding boxes.

    ``step`` can be linked with a stepper's; ``selected`` is the key of the box selected last. ``data`` are the
    panes and everything else that is drawn.
    """

    module = "viewer"
    _esm = script("viewer")
    _css = style("viewer")
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("", allow_none=True).tag(sync=True)
    answers = traitlets.Bool(False).tag(sync=True)
    draws = traitlets.Bool(False).tag(sync=True)

    def __init__(self, subject: Any, data: dict[str, Any], **state: Any) -> None:
        super().__init__(subject, data=data, step=max(0, len(data["steps"]) - 1), **state)


class EGraphViewer(Viewer):
    """A viewer of an e-graph, which begins with a part of it.

    In the kernel it draws other parts, and with costs and a ``solution`` it says what the alternatives of an
    e-class cost.
    """

    def __init__(self, known: Known, part: Part, solution: Solution | None) -> None:
        self._known, self._solution = known, solution
        self._first = self._part = part
        priced = known.costs is not None and solution is not None
        super().__init__(known.egraph, egraph_data(known, part), answers=priced, draws=True)
        self.on_msg(self._told)

    def face(self) -> str:
        """Return the static face, with the costs and the extraction."""
        return egraph_html(self._known)

    def _told(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict) or not isinstance(content.get("ask"), str):
            return
        key = content.get("key")
        try:
            if content["ask"] != "more":
                self._move(content["ask"], _eclass(key), content.get("hops"))
            elif isinstance(key, str) and (told := self._alternatives(key)) is not None:
                self.send(told | {"key": key})
        except Exception as error:
            # Nobody else would hear of it: the page waits for an answer.
            self.send({"key": key, "failed": f"{type(error).__name__}: {error}"})

    def _move(self, ask: str, eclass: int | None, hops: Any) -> None:
        """Draw another part: the first one, around an e-class, or with an e-class opened in place."""
        if ask == "whole":
            part = self._first
        elif eclass is None:
            return
        elif ask == "show":
            part = self._first.around(eclass)
        elif ask == "around" and isinstance(hops, int) and hops > 0:
            part = self._first.around(eclass, hops)
        elif ask == "open":
            part = self._part.with_opened(eclass)
        else:
            return
        data, anchor = egraph_data(self._known, part), "" if eclass is None else f"e-class {eclass}"
        self._part = part
        # A picture that is equal to the last one is sent, too, because its number differs.
        self.data = data | {"anchor": anchor, "drawn": int(self.data.get("drawn", 0)) + 1}

    def _alternatives(self, key: str) -> dict[str, Any] | None:
        """Return the costs of the alternatives of an e-class, or of that of an e-node; None for another key."""
        from workbench.extraction.alternatives import alternatives

        known, egraph, costs = self._known, self._known.egraph, self._known.costs
        c = int(egraph.eclass[int(key)]) if key.isdigit() else _eclass(key)
        if c is None or costs is None or self._solution is None:
            return None

        def price(value: float, bound: float) -> str:
            if math.isfinite(value):
                return known.price(value)
            return "none found in time" if math.isfinite(bound) else "impossible: cyclic"

        rows = [
            [
                a.node,
                ", ".join([a.op, *attribute_texts(a.op, egraph.attrs[a.node])]),
                price(a.cost, a.bound),
                known.price(a.bound) if math.isfinite(a.bound) else "",
                f"+{known.price(max(0.0, a.more))}" if math.isfinite(a.more) and not a.taken else "",
                "taken" if a.taken else "",
            ]
            for a in alternatives(egraph, costs, c, best=self._solution, seconds=5.0)
        ]
        names = ["e-node", "operator", "whole costs", "at least", "more than best", ""]
        return {"title": f"Alternatives of e-class {egraph.class_name(c)}", "columns": names, "rows": rows}


def _eclass(key: Any) -> int | None:
    """Return the number in a key such as ``e-class 5``, or None."""
    found = re.fullmatch(r"e-class (\d+)", key) if isinstance(key, str) else None
    return None if found is None else int(found[1])


class RuleBrowser(View):
    """A widget for the rules of a table and their activity in a run, if there is one.

    ``selected`` is the name of the rule on the card, ``query`` the text that rows must contain, ``verdict``
    one of the verdicts or ``""``, and ``activity`` is ``"fired"``, ``"idle"``, ``"best"`` or ``""``. All of
    them can be read and set.
    """

    module = "rules"
    _esm = script("rules")
    _css = style("rules")

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)
    verdict = traitlets.Unicode("").tag(sync=True)
    activity = traitlets.Unicode("").tag(sync=True)

    def __init__(self, rules: RuleTable) -> None:
        first = (rules.fired or rules.rows)[:1]
        super().__init__(rules, data=rules_data(rules), selected=first[0].rule.name if first else "")

    def __repr__(self) -> str:
        return f"RuleBrowser at {self.selected or 'no rule'}: {self._subject!r}"


class RunsBrowser(View):
    """A widget for stored runs.

    ``chosen`` lists the series that are shown, each as ``"STUDY / METHOD"``. ``across`` and ``up`` are the
    figures of the axes (``up`` may be ``"network"``), ``first`` and ``second`` the series to compare, and
    ``selected`` is the number of the run on the card. All of them can be read and set.
    """

    module = "runs"
    _esm = runs_script()
    _css = runs_style()

    data = traitlets.Dict().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)
    across = traitlets.Unicode("").tag(sync=True)
    up = traitlets.Unicode("network").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
    first = traitlets.Unicode("").tag(sync=True)
    second = traitlets.Unicode("").tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)

    def __init__(self, stored: StoredRuns, study: str = "") -> None:
        if study:
            stored.only(study)
        data = runs_data(stored)
        super().__init__(stored, data=data, **first_choice(data, study))

    def page(self) -> str:
        """Return the view as a complete page."""
        return runs_page(self._subject)

    def __repr__(self) -> str:
        shown: list[Any] = self.chosen
        return f"RunsBrowser of {', '.join(shown) or 'nothing'}: {self._subject!r}"


class Stepper(View):
    """A widget for a stepwise object or a trace: slider, keys, play, linked plots.

    ``step`` is the shown step; it can be read and set. A run that is started here goes on in a thread; meanwhile
    the object must not be stepped elsewhere. A saturation also answers questions: why a term is not in its
    e-graph. The stepper of a result counts the e-nodes that the result uses, by rule.
    """

    module = "stepper"
    _esm = script("stepper")
    _css = style("stepper")

    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    answers = traitlets.Bool(False).tag(sync=True)
    answer = traitlets.Unicode("").tag(sync=True)

    def __init__(self, subject: Any, title: str = "") -> None:
        from workbench.optimizer.result import Optimized

        self._name = title
        self._pausing = False
        self._used = used_by_step(subject) if isinstance(subject, Optimized) else None
        self._trace = getattr(subject, "trace", subject)
        super().__init__(subject, data=stepper_data(self._trace, title, used=self._used), step=0)
        self.on_msg(self._told)
        self._watch()

    def follow(self, subject: Stepwise) -> None:
        """Show another object that can take steps, from its beginning."""
        self._subject, self._trace = subject, subject.trace
        self.answer = ""
        self.step = 0
        self._watch()
        self.refresh()

    def _watch(self) -> None:
        self.answers = hasattr(self._subject, "why_not")
        self._say()
        if isinstance(self._subject, Stepwise):
            self._subject.watch(self.refresh)

    @property
    def unfinished(self) -> bool:
        """Return whether a step is left to take."""
        return isinstance(self._subject, Stepwise) and self._subject.unfinished

    # -- running ------------------------------------------------------------------------------------
    def start(self) -> None:
        """Step in a separate thread until the run is finished or paused."""
        if self.unfinished and not self.running:
            self.running, self._pausing = True, False
            self._say()
            self._subject.start(None, self._ended)

    def pause(self, *, wait: bool = False) -> None:
        """Stop after the current step; with ``wait``, return only after it. The object keeps its results."""
        if self.running:
            self._pausing = True
            self._say()
            self._subject.stop(wait=wait)

    def advance(self) -> None:
        """Take one step, unless a run is going on or no step is left."""
        if self.unfinished and not self.running:
            with contextlib.suppress(StopIteration):
                self._subject.step()
            self.refresh()

    def _ended(self) -> None:
        """Let a saturation count which rule made which e-nodes: steps of a large e-graph lack the counts."""
        read = getattr(self._subject, "egraph", None)
        if callable(read) and uncounted(self._trace):
            self.status = "counting the e-nodes of every rule"
            with contextlib.suppress(OSError, RuntimeError, MemoryError):  # the counts stay out
                read()
        self.running = False
        self.refresh()

    def _say(self) -> None:
        """Show whether the run continues, and the reason if it does not."""
        if not isinstance(self._subject, Stepwise):
            return
        reason = self._subject.stop_reason
        if self.running:
            taken = len(self._trace)
            busy = f"running: {taken} steps taken" if taken else "running: the first step takes longest"
            self.status = "pausing after the current step" if self._pausing else busy
        elif not self.unfinished:
            self.status = f"stopped because: {reason.value}" if reason is not None else ""
        elif len(self._trace) <= 1:
            self.status = "not started"
        else:
            self.status = "paused; start continues"

    def refresh(self) -> None:
        """Show new steps of the trace; if the last step was shown, move to the new last one."""
        follows = self.step >= len(self.data["steps"]) - 1
        self.data = stepper_data(self._trace, self._name, going=self.running, used=self._used)
        self._say()
        if follows:
            self.step = max(0, len(self.data["steps"]) - 1)

    # -- questions ------------------------------------------------------------------------------------
    def ask(self, question: str) -> None:
        """Show why a term or a rule's result is not in the e-graph of a saturation.

        ``a == b`` asks why two terms are not equal. If they are, the chain of rules between them is shown.
        """
        self.answer = ""
        target, compared, other = (part.strip() for part in question.partition("=="))
        try:
            if self.running:
                raise ValueError("a question can be asked when the run is paused or stopped")
            if compared and not (target and other):
                raise ValueError(f"== must be between two terms, got {question.strip()!r}")
            told = self._subject.why_not(target, equals=other or None)
            explained = (
                static_html(self._subject.explain(target, other)) if told.represented and other else ""
            )
            self.answer = static_html(told) + explained
        except (ValueError, LookupError) as error:
            self.answer = paragraph(str(error))

    def _told(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        if message.get("command") == "ask" and self.answers:
            self.ask(str(message.get("question", "")))

    def __repr__(self) -> str:
        return f"Stepper at step {self.step} of {len(self.data['steps'])}: {self._subject!r}"
