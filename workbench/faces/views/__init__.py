"""Views of the workbench's objects: static faces, and widgets for notebooks and browsers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.faces.views.static_html import page, static_html
from workbench.faces.views.steps import stepper_data

if TYPE_CHECKING:
    from workbench.faces.views.bench import Lab
    from workbench.faces.views.live import Controls
    from workbench.faces.views.widgets import View
    from workbench.frontends.model import ModelLike

__all__ = ["lab", "page", "static_html", "stepper_data", "view", "whole_page"]


def _with_widgets(module: str) -> Any:
    try:
        return import_module(f"workbench.faces.views.{module}")
    except ImportError as error:
        install = "for widgets, pip install 'tamago-workbench[notebook]'"
        raise ImportError(f"{error}; {install}") from None


def view(thing: object, **options: Any) -> View | Controls:
    """Return a widget for an object; the valid ``options`` depend on the object.

    Raise ImportError, with the packages to install, if widgets are not installed.
    """
    made: View | Controls = _with_widgets("live").live(thing, **options)
    return made


def lab(model: ModelLike, *, rules: str = "default", cost: str = "analytic") -> Lab:
    """Return the whole bench for a model as one widget; see :class:`~workbench.faces.views.bench.Lab`.

    Raise ValueError if the model cannot be read, and ImportError, with the packages to install, if widgets are
    not installed.
    """
    made: Lab = _with_widgets("bench").Lab(model, rules=rules, cost=cost)
    return made


def whole_page(thing: object, **options: Any) -> str:
    """Return an object as a page that stands alone: its view, or its static face if widgets are not installed."""
    try:
        return view(thing, **options).page()
    except ImportError:
        return page(thing)
