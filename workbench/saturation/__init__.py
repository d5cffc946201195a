"""Equality saturation on egglog, stepwise and under hard limits."""

from workbench.saturation.saturation import Limits, Saturation

__all__ = ["Limits", "Saturation"]
