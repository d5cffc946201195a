"""Symbolic dimensions: generic extents that stand for any size, and what they mean elsewhere."""

from workbench.symbolic.expressions import Expression
from workbench.symbolic.generic import Generic, Undecodable

__all__ = ["Expression", "Generic", "Undecodable"]
