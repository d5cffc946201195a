"""Definitions of operators: the element of its result at an index, as a comprehension over its operands.

A definition reads operands at integer expressions of the index, and no more: sums, largest elements, guards
for borders and pointwise functions make the rest. Types come from the operators' own type rules.
``tests/laws/theorems/test_definitions.py`` compares every definition with the operator's reference semantics.
"""

from workbench.laws.theorems import elements, functions, windows
from workbench.laws.theorems.applications import DEFINITIONS, Call, Tensor

#: The modules that fill the tables of definitions and of the laws of functions.
FAMILIES = (elements, functions, windows)

__all__ = ["DEFINITIONS", "FAMILIES", "Call", "Tensor"]
