"""Symbolic dimensions: generic extents that represent any size, and the integers that they encode."""

from workbench.symbolic.generic import Generic, Undecodable

__all__ = ["Generic", "Undecodable"]
