"""Operators of graphs in index notation, as clusters need them.

An operator that is a function or a reduction of index notation is that one. Any other is split by laws
(:mod:`workbench.kernels.codegen.decompose`), and an operator that no law splits runs by the other runtime. A cluster
takes an operator with all of its parts: what is left of a norm without its mean is no operator that the other
runtime could run faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from workbench.kernels.codegen.decompose import FUNCTION_OF, REDUCTION_OF, split
from workbench.kernels.composites.composite import Composite, Equation, Tensor
from workbench.kernels.composites.define import known
from workbench.kernels.composites.index import ExtentName
from workbench.kernels.composites.parsing import parse
from workbench.kernels.composites.primitives import FUNCTIONS
from workbench.kernels.composites.scalar import Apply, Read
from workbench.ops import Trait, spec_of

_D: Final = ExtentName("D")


def definition(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return an operator in index notation, or None if it has none.

    Args:
        op: The operator's name.
        operands: The number of its operands.
        attrs: Its attributes by name.
    """
    if Trait.CARRIED in spec_of(op).traits:
        return declared(op)
    return _function(op, operands) or _reduction(op) or split(op, operands, attrs)


def declared(op: str) -> Composite | None:
    """Return a declared composite if it computes single elements, or rows of an extent called D; or None."""
    found = known().get(op)
    if found is None or any(a.whole for a in found.attributes):
        return None
    tensors = (*found.inputs, *found.outputs)
    plain = all(t.dims in ((), (_D,)) and t.dtype == "T" for t in tensors)
    return found if plain and all(e.leading for e in found.equations) else None


@cache
def _function(op: str, operands: int) -> Composite | None:
    function = FUNCTION_OF.get(op)
    if function is None or FUNCTIONS[function].arity != operands:
        return None
    inputs = tuple(Tensor(f"x{k}", "T", True, ()) for k in range(operands))
    value = Apply(function, tuple(Read(t.name, True, ()) for t in inputs))
    output = Tensor("y", "T", True, ())
    return Composite(op, inputs, (output,), (), (Equation("y", True, (), value),))


@cache
def _reduction(op: str) -> Composite | None:
    found = REDUCTION_OF.get(op)
    text = f"y[~] = {found}(e) x[~ e]"
    return parse(op, "x{T}[~ D] -> y{T}[~]", text, composites=None, doc="") if found else None
