"""How the workbench's objects are seen: static faces, and widgets where a kernel or a browser helps."""

from typing import Any

from workbench.views.faces import page, static_html
from workbench.views.steps import stepper_data

__all__ = ["page", "static_html", "stepper_data", "view"]


def view(thing: Any, **options: Any) -> Any:
    """Return a widget for an object; what ``options`` there are depends on the object.

    Raise ImportError, with what to install, where widgets are not installed.
    """
    try:
        from workbench.views.live import live
    except ImportError as error:
        raise ImportError(f"{error}; widgets come with pip install 'tamago-workbench[notebook]'") from None
    return live(thing, **options)
