"""Equality saturation on egglog, stepwise and under hard limits.

The engine's process imports this package before it can answer, so names are imported on first use.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.saturation.limits import Limits as Limits
    from workbench.saturation.saturation import Saturation as Saturation

__getattr__, __all__ = door(__name__, {"limits": "Limits", "saturation": "Saturation"})
