"""Equality saturation on egglog, stepwise and under hard limits.

The engine's process imports this package before it can answer: what it does not need is imported when it
is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.saturation.saturation import Limits, Saturation

__all__ = ["Limits", "Saturation"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.saturation import saturation

    return getattr(saturation, name)
