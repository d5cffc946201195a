"""The notebook representation of public objects, made on demand."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.support.wings import offered

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

#: What people look for under another name: the call that does it.
_CALLED: Final = {
    "draw": "view(), or to_svg() of a graph",
    "plot": "view(), or a function of workbench.faces.plots",
    "report": "save_html(path)",
    "show": "view()",
    "to_dict": "summary()",
    "to_html": "save_html(path)",
    "to_json": "summary(), or workbench.egraph.save_json of an e-graph",
}


class Face:
    """A static notebook representation: plain text, and HTML that needs no script and no network.

    It survives saving, conversion and notebooks that are not trusted. The core does not depend on drawing
    code: a notebook that asks for a representation gets it from the wing of faces.
    """

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": offered("static_html")(self)}

    def __getattr__(self, name: str) -> Any:
        hint = f" (try {_CALLED[name]})" if name in _CALLED else ""
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self
        )

    def view(self, **options: Any) -> DOMWidget:
        """Return the object as a widget: a stepper with its controls for stepwise objects, a viewer for graphs.

        ``options`` are those of the object's view in :mod:`workbench.faces.views.live`. Raise ImportError, which
        names the packages to install, if widgets are not available.
        """
        return offered("view")(self, **options)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the static representation to a self-contained HTML file."""
        from workbench.support.files import write_atomic

        write_atomic(Path(path), offered("page")(self))
