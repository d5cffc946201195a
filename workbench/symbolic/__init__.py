"""Symbolic dimensions: generic extents that represent any size, and the expressions that they encode."""

from workbench.symbolic.expressions import Expression
from workbench.symbolic.generic import Generic, Undecodable

__all__ = ["Expression", "Generic", "Undecodable"]
