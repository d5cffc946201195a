"""The viewer as a widget: graphs, comparisons, e-graphs; it needs a kernel only to answer questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets

from workbench.views.widget import STATIC, View, script

#: A function that answers a question about a box, as columns and rows under a title.
Answer = Callable[[str], dict[str, Any] | None]
#: A function that returns the data of the picture around an e-class.
Focus = Callable[[int], dict[str, Any]]


class Viewer(View):
    """A widget with panes side by side: pan, zoom, search, facts of a box, and corresponding boxes.

    ``step`` can be linked with a stepper's; ``selected`` is the key of the box selected last. In the kernel,
    ``answer`` returns more about a box, and ``focus`` the picture around an e-class that is not drawn. Saved
    notebooks, and pages without scripts, show the static face. ``face`` makes it if the view has more data
    than the subject's own face.
    """

    module = "viewer"
    _esm = script("viewer")
    _css = STATIC / "viewer.css"
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("", allow_none=True).tag(sync=True)
    answers = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        subject: Any,
        data: dict[str, Any],
        *,
        face: Callable[[], str] | None = None,
        answer: Answer | None = None,
        focus: Focus | None = None,
    ) -> None:
        self._face, self._answer, self._focus = face, answer, focus
        step = max(0, len(data["steps"]) - 1)
        super().__init__(subject, data=data, step=step, answers=answer is not None)
        self.on_msg(self._told)

    def face(self) -> str:
        """Return the static face: the one given, or the subject's own."""
        return super().face() if self._face is None else self._face()

    def _told(self, _widget: Any, content: Any, _buffers: Any) -> None:
        key = content.get("key") if isinstance(content, dict) else None
        if not isinstance(key, str):
            return
        if self._focus is not None and content.get("ask") == "show" and key.startswith("e-class "):
            self.data = self._focus(int(key.removeprefix("e-class ")))
        if self._answer is not None and content.get("ask") == "more":
            told = self._answer(key)
            if told is not None:
                self.send(told | {"key": key})
