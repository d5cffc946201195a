"""The base of the workbench's widgets: a static face that is saved, and export as a page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget

from workbench.faces.views.markup import page_of

STATIC: Final = Path(__file__).parents[2] / "static"


#: The modules of a view before its own, if it has any, in the order in which they are joined.
PARTS: Final = {"viewer": ("table", "export", "minimap", "pane")}


def script(name: str) -> str:
    """Return the JavaScript of a view: the functions shared by all views, its parts, and its own module."""
    return "".join(
        (STATIC / f"{part}.js").read_text(encoding="utf-8")
        for part in ("dom", "theme", *PARTS.get(name, ()), name)
    )


def style(name: str) -> str:
    """Return the style sheet of a view: the colours shared by all views, and its own."""
    return "".join((STATIC / f"{part}.css").read_text(encoding="utf-8") for part in ("theme", name))


_EXPORT: Final = "export default { render };"


class View(anywidget.AnyWidget):  # type: ignore[misc]
    """A widget for a subject: live in a notebook, and its static face on pages without scripts.

    ``module`` is the stem of the files in :data:`STATIC` that draw it.
    """

    module: ClassVar[str]

    def face(self) -> str:
        """Return the static face for pages without scripts."""
        from workbench.faces.views.faces import static_html

        return static_html(self._subject)

    def __init__(self, subject: Any, **state: Any) -> None:
        self._subject = subject
        super().__init__(**state)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        face = {"text/plain": repr(self), "text/html": self.face()}
        return dict(data) | face, metadata

    def __repr__(self) -> str:
        return repr(self._subject)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the view as one file that opens from disk, without a kernel or network access."""
        from workbench.support.files import write_atomic

        write_atomic(Path(path), self.page())

    def page(self) -> str:
        """Return the view as a complete page, with its static face for browsers without scripts."""
        own = set(self.class_traits(sync=True)) - set(View.class_traits(sync=True))
        kept = {k: v for k, v in self.get_state(own).items() if not k.startswith("_")}
        state = json.dumps(kept | {"live": False, "answers": False, "draws": False}).replace("<", "\\u003c")
        module = script(self.module)
        assert _EXPORT in module
        shim = (STATIC / "page.js").read_text(encoding="utf-8")
        body = (
            f'<style>{style(self.module)}</style><div id="view"></div><noscript>{self.face()}</noscript>\n'
            f'<script type="module">{shim}\n{module.replace(_EXPORT, "")}\n'
            f'render({{ model: new Model({state}), el: document.getElementById("view") }});</script>'
        )
        return page_of(type(self._subject).__name__, body)
