"""The viewer as a widget: graphs, comparisons, e-graphs; it needs a kernel only to answer questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets

from workbench.faces.views.subgraph import Part
from workbench.faces.views.widget import View, script, style

#: A function that answers a question about a box, as columns and rows under a title.
Answer = Callable[[str], dict[str, Any] | None]
#: A function that returns the data of the picture of a part of an e-graph.
Draw = Callable[[Part], dict[str, Any]]


class Viewer(View):
    """A widget with panes side by side: pan, zoom, search, facts of a box, and corresponding boxes.

    ``step`` can be linked with a stepper's; ``selected`` is the key of the box selected last. In the kernel,
    ``answer`` returns more about a box, and ``draw`` the picture of another part, from ``part`` on. Saved
    notebooks, and pages without scripts, show the static face. ``face`` makes it if the view has more data
    than the subject's own face.

    Args:
        subject: The object that is shown.
        data: The panes and everything else that is drawn.
        face: A function that makes the static face; by default the subject's own.
        answer: A function that returns more about a box.
        draw: A function that returns the picture of another part.
        part: The part that is shown first.
    """

    module = "viewer"
    _esm = script("viewer")
    _css = style("viewer")
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("", allow_none=True).tag(sync=True)
    answers = traitlets.Bool(False).tag(sync=True)
    draws = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        subject: Any,
        data: dict[str, Any],
        *,
        face: Callable[[], str] | None = None,
        answer: Answer | None = None,
        draw: Draw | None = None,
        part: Part | None = None,
    ) -> None:
        self._face, self._answer, self._draw = face, answer, draw
        self._first = self._part = part or Part()
        step = max(0, len(data["steps"]) - 1)
        super().__init__(subject, data=data, step=step, answers=answer is not None, draws=draw is not None)
        self.on_msg(self._told)

    def face(self) -> str:
        """Return the static face: the one given, or the subject's own."""
        return super().face() if self._face is None else self._face()

    def _told(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if not isinstance(content, dict) or not isinstance(content.get("ask"), str):
            return
        key = content.get("key")
        try:
            if content["ask"] == "more":
                told = self._answer(key) if self._answer is not None and isinstance(key, str) else None
                if told is not None:
                    self.send(told | {"key": key})
            else:
                self._move(content["ask"], _eclass(key), content.get("hops"))
        except Exception as error:
            # Nobody else would hear of it: the page waits for an answer.
            self.send({"key": key, "failed": f"{type(error).__name__}: {error}"})

    def _move(self, ask: str, eclass: int | None, hops: Any) -> None:
        """Draw another part: the first one, around an e-class, or with an e-class opened in place."""
        if self._draw is None or (eclass is None and ask != "whole"):
            return
        if ask == "whole" or eclass is None:
            part = self._first
        elif ask == "show":
            part = self._first.around(eclass)
        elif ask == "around" and isinstance(hops, int) and hops > 0:
            part = self._first.around(eclass, hops)
        elif ask == "open":
            part = self._part.with_opened(eclass)
        else:
            return
        data = self._draw(part)
        self._part = part
        self.data = data | {"anchor": "" if eclass is None else f"e-class {eclass}", "drawn": self._count()}

    def _count(self) -> int:
        """Return a number that differs from that of the last picture, so that an equal one is sent too."""
        return int(self.data.get("drawn", 0)) + 1


def _eclass(key: Any) -> int | None:
    """Return the number in a key such as ``e-class 5``, or None."""
    number = key.removeprefix("e-class ") if isinstance(key, str) and key.startswith("e-class ") else ""
    return int(number) if number.isdigit() else None
