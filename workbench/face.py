"""What public objects show of themselves in a notebook, made when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Container
from importlib import import_module
from pathlib import Path
from typing import Any


class Face:
    """Give an object its static face: plain text, and HTML that needs no script and no network.

    It survives saving, conversion and a notebook that is not trusted. The core stays free of what draws:
    :mod:`workbench.views` is imported when a notebook asks.
    """

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _views().static_html(self)}

    def view(self, **options: Any) -> Any:
        """Return the object as a widget: a stepper where there are steps, a viewer where there are graphs.

        ``options`` are those of the object's view in :mod:`workbench.views.live`. Raise ImportError,
        with what to install, where widgets are not installed.
        """
        return _views().view(self, **options)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the static face as a file of its own that opens without a network."""
        from workbench.files import write_atomic

        write_atomic(Path(path), _views().page(self))


def _views() -> Any:
    # By name: what is shown knows nothing of what shows it, not even to a type checker.
    return import_module("workbench.views")
