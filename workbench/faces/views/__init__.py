"""Views of the workbench's objects: static faces, and widgets for notebooks and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.faces.views.static_html import page, static_html
from workbench.faces.views.steps import stepper_data

if TYPE_CHECKING:
    from workbench.faces.views.widgets import View

__all__ = ["page", "static_html", "stepper_data", "view", "whole_page"]


def view(thing: object, **options: Any) -> View:
    """Return a widget for an object; the valid ``options`` depend on the object.

    Raise ImportError, with the packages to install, if widgets are not installed.
    """
    try:
        from workbench.faces.views.widgets import live
    except ImportError as error:
        raise ImportError(f"{error}; for widgets, pip install 'tamago-workbench[notebook]'") from None
    return live(thing, **options)


def whole_page(thing: object, **options: Any) -> str:
    """Return an object as a page that stands alone: its view, or its static face if widgets are not installed."""
    try:
        return view(thing, **options).page()
    except ImportError:
        return page(thing)
