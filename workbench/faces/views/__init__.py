"""Views of the workbench's objects: static faces, and widgets for notebooks and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.faces.views.static_html import page, static_html
from workbench.faces.views.steps import stepper_data

if TYPE_CHECKING:
    from workbench.faces.views.bench import Lab
    from workbench.faces.views.controls import Controls
    from workbench.faces.views.widgets import View
    from workbench.frontends.model import ModelLike

__all__ = ["lab", "page", "static_html", "stepper_data", "view", "whole_page"]


_INSTALL = "for widgets, pip install 'tamago-workbench[notebook]'"


def view(thing: object, **options: Any) -> View | Controls:
    """Return a widget for an object; the valid ``options`` depend on the object.

    Raise ImportError, with the packages to install, if widgets are not installed.
    """
    try:
        from workbench.faces.views.live import live
    except ImportError as error:
        raise ImportError(f"{error}; {_INSTALL}") from None
    return live(thing, **options)


def lab(model: ModelLike, *, rules: str = "default", cost: str = "analytic") -> Lab:
    """Return the whole bench for a model as one widget; see :class:`~workbench.faces.views.bench.Lab`.

    Raise ValueError if the model cannot be read, and ImportError, with the packages to install, if widgets are
    not installed.
    """
    try:
        from workbench.faces.views.bench import Lab
    except ImportError as error:
        raise ImportError(f"{error}; {_INSTALL}") from None
    return Lab(model, rules=rules, cost=cost)


def whole_page(thing: object, **options: Any) -> str:
    """Return an object as a page that stands alone: its view, or its static face if widgets are not installed."""
    try:
        return view(thing, **options).page()
    except ImportError:
        return page(thing)
