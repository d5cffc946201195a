"""How the workbench's objects are seen: static faces, and widgets where a kernel or a browser helps."""

from typing import Any

from workbench.views.faces import page, static_html
from workbench.views.rules import table_of
from workbench.views.steps import stepper_data

__all__ = ["page", "static_html", "stepper_data", "view"]


def view(thing: Any) -> Any:
    """Return a widget: a stepper for an object with steps, a browser for rules.

    Raise ImportError, with what to install, where widgets are not installed, and TypeError for an
    object that has no steps.
    """
    from workbench.trace import Trace

    rules = table_of(thing)
    if rules is None and not isinstance(getattr(thing, "trace", thing), Trace):
        raise TypeError(f"{type(thing).__name__} has no steps; it shows itself as it is")
    try:
        from workbench.views.rule_browser import RuleBrowser
        from workbench.views.stepper import Stepper
    except ImportError as error:
        raise ImportError(f"{error}; widgets come with pip install 'tamago-workbench[notebook]'") from None
    return Stepper(thing) if rules is None else RuleBrowser(rules)
