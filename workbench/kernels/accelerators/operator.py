"""One call of a unit as an operator of graphs, in the name of the unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.kernels.accelerators.unit import Unit
from workbench.ops import OpSpec, TensorType, Trait
from workbench.ops.blocked import DOMAIN, call_text, widened
from workbench.ops.exact import POLYNOMIAL, ExactForm
from workbench.ops.onnx_form import Emitter
from workbench.ops.registry import known, replace
from workbench.ops.typing import Attrs, N, T, Typing


@dataclass(frozen=True, slots=True)
class _Rule:
    """The type rule: rows [rows, inner] and a tile [inner, columns] of the unit's own extents, and sums."""

    unit: Unit

    def __call__(self, t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
        x, w = xs[:2]
        unit = self.unit
        t.require_same(t.with_dtype(x, unit.streamed), x, "the rows have the unit's element type")
        t.require_same(t.with_dtype(w, unit.stationary), w, "the tile has the unit's element type")
        t.require(t.rank(x) == 2, "the rows must be a matrix")
        t.require(t.rank(w) == 2, "the tile must be a matrix")
        t.require(t.dim(x, -1) == unit.inner, f"a row of {unit.name} must have {unit.inner} elements")
        t.require(t.dim(w, -2) == unit.inner, f"a tile of {unit.name} must have {unit.inner} rows")
        t.require(t.dim(w, -1) == unit.columns, f"a tile of {unit.name} must have {unit.columns} columns")
        if unit.rows:
            t.require(t.dim(x, -2) <= unit.rows, f"a call of {unit.name} takes at most {unit.rows} rows")
        out = t.with_dtype(t.with_dim(x, -1, unit.columns), unit.accumulator)
        if len(xs) == 3:
            t.require_same(xs[2], out, "the sums so far have the type of the result")
        return out


@dataclass(frozen=True, slots=True)
class _Semantics:
    unit: Unit

    def __call__(self, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        unit = self.unit
        x = widened(xs[0], unit.streamed, unit.accumulator)
        found = np.matmul(x, widened(xs[1], unit.stationary, unit.accumulator)).astype(x.dtype, copy=False)
        return found if len(xs) < 3 else found + xs[2]


@dataclass(frozen=True, slots=True)
class _Flops:
    unit: Unit

    def __call__(self, attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
        return 2.0 * out.elements * self.unit.inner


@dataclass(frozen=True, slots=True)
class _Export:
    unit: Unit

    def __call__(
        self, e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
    ) -> str:
        name, text = call_text(self.unit.attrs, e.opset)
        e.function(text)
        y = e.node(f"{DOMAIN}::{name}", xs[:2])
        return y if len(xs) < 3 else e.node("Add", [y, xs[2]])


def _degree(degrees: Sequence[int]) -> int:
    return max(sum(degrees[:2]), *degrees)


def unit_operator(unit: Unit) -> OpSpec:
    """Register one call of a unit as an operator in its name, unless it is there already; return it.

    The operands are rows [rows, inner], a tile [inner, columns] and, if any, the sums so far, to which the
    products are added. The result is in the accumulator's element type. Raise ValueError if the name is that
    of a built-in operator.
    """
    rule = _Rule(unit)
    found = known(unit.name)
    if found is not None and found.infer == rule:
        return found
    spec = OpSpec(
        unit.name,
        2,
        3,
        rule,
        _Semantics(unit),
        (),
        _Flops(unit),
        Trait.OWN | Trait.PRODUCT | Trait.LINEAR,
        _Export(unit),
        exact=ExactForm(POLYNOMIAL.needs, degree=_degree, bound=None),
        doc=f"one call of the unit: {unit.doc or unit.name}",
        module=__name__,
    )
    replace(spec)
    return spec
