"""One call of a unit as an operator of graphs, in the name of the unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.accelerators.unit import Unit
from workbench.ops import Attr, OpSpec, TensorType, Trait
from workbench.ops.blocked import DOMAIN, call_text, widened
from workbench.ops.exact import POLYNOMIAL, ExactForm
from workbench.ops.onnx_form import Emitter
from workbench.ops.registry import known, replace
from workbench.ops.typing import Attrs, N, T, Typing


@dataclass(frozen=True, slots=True)
class _Rule:
    """The type rule: rows [rows, inner] and a tile [inner, columns], both of the unit's own extents."""

    unit: Unit

    def __call__(self, t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
        x, w = xs
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
        return t.with_dtype(t.with_dim(x, -1, unit.columns), unit.accumulator)


@dataclass(frozen=True, slots=True)
class _Semantics:
    unit: Unit

    def __call__(self, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        unit = self.unit
        x = widened(xs[0], unit.streamed, unit.accumulator)
        return np.matmul(x, widened(xs[1], unit.stationary, unit.accumulator)).astype(x.dtype, copy=False)


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
        return e.node(f"{DOMAIN}::{name}", xs)


def unit_operator(unit: Unit) -> OpSpec:
    """Register one call of a unit as an operator in its name, unless it is there already; return it.

    The operands are rows [rows, inner] and a tile [inner, columns]; the result is in the accumulator's
    element type. Raise ValueError if the name is that of a built-in operator.
    """
    rule = _Rule(unit)
    found = known(unit.name)
    if found is not None and found.infer == rule:
        return found
    spec = OpSpec(
        unit.name,
        2,
        2,
        rule,
        _Semantics(unit),
        _NO_ATTRS,
        _Flops(unit),
        Trait.OWN | Trait.PRODUCT | Trait.LINEAR,
        _Export(unit),
        exact=ExactForm(POLYNOMIAL.needs, degree=sum, bound=None),
        doc=f"one call of the unit: {unit.doc or unit.name}",
        module=__name__,
    )
    replace(spec)
    return spec


_NO_ATTRS: tuple[Attr, ...] = ()
