"""Equality saturation on egglog, stepwise and under hard limits.

The engine's process imports this package before it can answer, so names are imported on first use.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.saturation.limits import Limits
    from workbench.saturation.saturation import Saturation

__all__ = ["Limits", "Saturation"]

__getattr__ = lazy_names(__name__, {"Limits": ".limits", "Saturation": ".saturation"})
