"""Operators of graphs in index notation: one line each, tested against its specification.

An operator of another name, or of another number of operands, runs by the other runtime. An attribute of the
declaration has the name of the operator's attribute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from workbench.composites.composite import Composite
from workbench.composites.define import known
from workbench.composites.index import ExtentName
from workbench.composites.parsing import parse
from workbench.ops import Trait, spec_of

_ONE, _TWO = "x{T}[~] -> y{T}[~]", "x{T}[~], z{T}[~] -> y{T}[~]"
_D: Final = ExtentName("D")
_ROW: Final = "x{T}[~ D] -> y{T}[~]"

#: The declaration and the equations by the operator's name and number of operands.
DEFINITIONS: Final[Mapping[tuple[str, int], tuple[str, str]]] = {
    ("add", 2): (_TWO, "y = x + z"),
    ("sub", 2): (_TWO, "y = x - z"),
    ("mul", 2): (_TWO, "y = x * z"),
    ("div", 2): (_TWO, "y = x / z"),
    ("max", 2): (_TWO, "y = max(x, z)"),
    ("min", 2): (_TWO, "y = min(x, z)"),
    ("pow", 2): (_TWO, "y = x ^ z"),
    ("relu", 1): (_ONE, "y = max(x, 0)"),
    ("leakyrelu", 1): (_ONE, "y = where(x >= 0, x, alpha * x)"),
    ("sigmoid", 1): (_ONE, "y = 1 / (1 + exp(-x))"),
    ("tanh", 1): (_ONE, "y = tanh(x)"),
    ("erf", 1): (_ONE, "y = erf(x)"),
    ("exp", 1): (_ONE, "y = exp(x)"),
    ("log", 1): (_ONE, "y = log(x)"),
    ("sqrt", 1): (_ONE, "y = sqrt(x)"),
    ("neg", 1): (_ONE, "y = -x"),
    ("abs", 1): (_ONE, "y = abs(x)"),
    ("reciprocal", 1): (_ONE, "y = 1 / x"),
    ("clip", 1): (_ONE, "y = min(max(x, low), high)"),
    ("gelu", 1): (_ONE, f"y = x * (0.5 * (1 + erf(x * {math.sqrt(0.5)!r})))"),
    ("swish", 1): (_ONE, "y = x / (1 + exp(-(alpha * x)))"),
    ("hardswish", 1): (_ONE, "y = x * min(max(x + 3, 0), 6) / 6"),
    ("softmax", 1): (
        "x{T}[~ D] -> y{T}[~ D]",
        "y[~ d] = exp(x[~ d] - max(e) x[~ e]) * (1 / sum(f) exp(x[~ f] - max(e) x[~ e]))",
    ),
    ("layernorm", 2): (
        "x{T}[~ D], s{T}[~ D] -> y{T}[~ D]",
        "m[~] = mean(e) x[~ e]; v[~] = mean(f) (x[~ f] - m[~])^2; "
        "y[~ d] = (x[~ d] - m[~]) * (1 / sqrt(v[~] + eps)) * s[~ d]",
    ),
    ("layernorm", 3): (
        "x{T}[~ D], s{T}[~ D], b{T}[~ D] -> y{T}[~ D]",
        "m[~] = mean(e) x[~ e]; v[~] = mean(f) (x[~ f] - m[~])^2; "
        "y[~ d] = (x[~ d] - m[~]) * (1 / sqrt(v[~] + eps)) * s[~ d] + b[~ d]",
    ),
    ("rmsnorm", 2): (
        "x{T}[~ D], s{T}[~ D] -> y{T}[~ D]",
        "q[~] = mean(e) x[~ e]^2; y[~ d] = x[~ d] * (1 / sqrt(q[~] + eps)) * s[~ d]",
    ),
    ("reduce_sum", 1): (_ROW, "y[~] = sum(e) x[~ e]"),
    ("reduce_mean", 1): (_ROW, "y[~] = mean(e) x[~ e]"),
    ("reduce_max", 1): (_ROW, "y[~] = max(e) x[~ e]"),
}

_GELU_TANH: Final = f"y = x * (0.5 * (1 + tanh({math.sqrt(2 / math.pi)!r} * (x + 0.044715 * (x * x * x)))))"


def definition(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return an operator in index notation, or None if it has none.

    Args:
        op: The operator's name.
        operands: The number of its operands.
        attrs: Its attributes: numbers become the defaults of the composite's.
    """
    if Trait.CARRIED in spec_of(op).traits:
        return declared(op)
    return _built_in(op, operands, attrs)


def declared(op: str) -> Composite | None:
    """Return a declared composite if it computes single elements, or rows of an extent called D; or None."""
    found = known().get(op)
    if found is None or any(a.whole for a in found.attributes):
        return None
    tensors = (*found.inputs, *found.outputs)
    plain = all(t.dims in ((), (_D,)) and t.dtype == "T" for t in tensors)
    return found if plain and all(e.leading for e in found.equations) else None


@cache
def _built_in(op: str, operands: int, attrs: tuple[tuple[str, Any], ...]) -> Composite | None:
    found = DEFINITIONS.get((op, operands))
    given = dict(attrs)
    if found is None:
        return None
    signature, body = found
    if given.get("tanh"):
        body = _GELU_TANH
    numbers = {name: float(v) for name, v in given.items() if isinstance(v, float) and name in body}
    return parse(op, signature, body, composites=None, doc="", **numbers)
