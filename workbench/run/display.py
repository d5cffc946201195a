"""The notebook representation of public objects, made on demand."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.support.wings import offered

if TYPE_CHECKING:
    from anywidget import AnyWidget


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

    def view(self, **options: Any) -> AnyWidget:
        """Return the object as a widget: a stepper for stepwise objects, a viewer for graphs.

        ``options`` are those of the object's view in :mod:`workbench.faces.views.widgets`. Raise ImportError, which
        names the packages to install, if widgets are not available.
        """
        widget: AnyWidget = offered("view")(self, **options)
        return widget

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the static representation to a self-contained HTML file."""
        from workbench.support.files import write_atomic

        write_atomic(Path(path), offered("page")(self))
