"""Blocked products written out: calls of a unit (an operator of its own), slices, zeros that fill, sums and joins.

So written, a graph is the unit's program: running it plays the unit, and its calls are the unit's work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.graph import Builder, Graph, Node, evaluate
from workbench.kernels.accelerators.operators import DOMAIN, call_text, degree, widened
from workbench.kernels.accelerators.unit import Unit
from workbench.ops import OpSpec, TensorType, Trait
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


def _evaluate(unit: Unit, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = widened(xs[0], unit.streamed, unit.accumulator)
    found = np.matmul(x, widened(xs[1], unit.stationary, unit.accumulator)).astype(x.dtype, copy=False)
    return found if len(xs) < 3 else found + xs[2]


def _flops(unit: Unit, attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return 2.0 * out.elements * unit.inner


def _export(unit: Unit, e: Emitter, xs: Sequence[str], attrs: Attrs, *types: object) -> str:
    name, text = call_text(unit.attrs, e.opset)
    e.function(text)
    y = e.node(f"{DOMAIN}::{name}", xs[:2])
    return y if len(xs) < 3 else e.node("Add", [y, xs[2]])


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
        (2, 3),
        rule,
        partial(_evaluate, unit),
        (),
        partial(_flops, unit),
        Trait.OWN | Trait.PRODUCT | Trait.LINEAR,
        partial(_export, unit),
        exact=ExactForm(POLYNOMIAL.needs, degree=degree, bound=None),
        doc=f"one call of the unit: {unit.doc or unit.name}",
        module=__name__,
    )
    replace(spec)
    return spec


def unroll(graph: Graph, unit: Unit) -> Graph:
    """Return a graph in which every product cut for a unit is written out, call by call.

    This is the literal form: ``pad`` to whole tiles, ``slice`` of rows and tiles, one operator in the name of
    the unit for each call, ``add`` over the blocks of the inner dimension, ``concat`` of columns and rows,
    and ``slice`` of the filled part. Other nodes stay as they are.
    """
    return _unrolled(graph, unit, {}, share=True)


def _unrolled(graph: Graph, unit: Unit, counts: dict[int, Counts], *, share: bool) -> Graph:
    """Return a graph written out; ``counts`` receives the work of the unit for every product."""
    unit_operator(unit)

    def written(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if node.op != "blocked" or not unit.runs(node.named_attrs()):
            return None
        before = len(builder.nodes)
        made = _Nest(builder, unit, node.named_attrs()).write(inputs, node.tensor.shape)
        counts[i] = Counts.of(unit, builder.nodes[before:])
        return made

    return graph.copied(written, share=share)


@dataclass(frozen=True, slots=True)
class Counts:
    """The work of a unit: loads of stationary tiles, calls, rows multiplied, multiplications, cycles."""

    loads: int
    calls: int
    rows: int
    products: int
    cycles: float

    @classmethod
    def of(cls, unit: Unit, nodes: Sequence[Node]) -> Counts:
        """Return the work of the unit's calls among nodes; each tile is loaded once."""
        calls = [node for node in nodes if node.op == unit.name]
        rows = [node.tensor.shape[0] for node in calls]
        loads = len({node.inputs[1] for node in calls})
        cycles = loads * unit.load_cycles + sum(map(unit.call_cycles, rows))
        return cls(loads, len(calls), sum(rows), sum(rows) * unit.peak, cycles)


def simulate(
    graph: Graph, unit: Unit, inputs: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[int, Counts]]:
    """Run a graph on inputs by name with its blocked products written out, call by call.

    Return the outputs by name, and the unit's work for every product, by its place in the graph. Products cut for
    another unit run by their semantics.
    """
    counts: dict[int, Counts] = {}
    literal = _unrolled(graph, unit, counts, share=False)  # equal products are done one by one
    return evaluate(literal, inputs), counts


class _Nest:
    """The writer of one product's loop nest into a graph."""

    def __init__(self, b: Builder, unit: Unit, attrs: dict[str, Any]) -> None:
        self.b, self.unit, self.attrs = b, unit, attrs

    def write(self, operands: Sequence[int], shape: tuple[int, ...]) -> int:
        """Write the product of these operands, whose result has this shape; return its value."""
        b = self.b
        left, right, *bias = operands
        rows, inner = b.type(left).shape[-2:]
        columns = shape[-1]
        left = self._shaped(left, (*shape[:-2], rows, inner))
        if math.prod(b.type(right).shape[:-2]) == 1:
            whole = self._reshaped(left, (math.prod(shape[:-2]) * rows, inner))
            made = self._matrix(whole, self._reshaped(right, (inner, columns)))
        else:
            right = self._shaped(right, (*shape[:-2], inner, columns))
            parts = [
                self._matrix(self._entry(left, index), self._entry(right, index))
                for index in itertools.product(*map(range, shape[:-2]))
            ]
            made = self._joined(parts, -2)
        made = self._reshaped(made, shape)
        if bias:
            made = b.op("add", made, self._cast(bias[0], self.unit.accumulator))
        if self.attrs["act"] != "none":
            made = b.op(self.attrs["act"], made)
        return self._cast(made, self.attrs["result"])

    def _matrix(self, left: int, right: int) -> int:
        """Write the product of two matrices."""
        b, unit = self.b, self.unit
        (rows, inner), columns = b.type(left).shape, b.type(right).shape[1]
        right_fill, inner_fill = -columns % unit.columns, -inner % unit.inner
        left = self._filled(left, 0, inner_fill)
        right = self._filled(right, inner_fill, right_fill)
        beside = []
        for n in range(0, columns + right_fill, unit.columns):
            column = self._cut(right, -1, n, n + unit.columns)
            total: int | None = None
            for k in range(0, inner + inner_fill, unit.inner):
                tile = self._cut(column, -2, k, k + unit.inner)
                block = self._cut(left, -1, k, k + unit.inner)
                # Whole numbers are added in the accumulators, which no operator does.
                part = self._calls(block, tile, rows, total if unit.whole else None)
                total = part if total is None or unit.whole else b.op("add", total, part)
            assert total is not None
            beside.append(total)
        return self._cut(self._joined(beside, -1), -1, 0, columns)

    def _calls(self, block: int, tile: int, rows: int, sums: int | None = None) -> int:
        """Write the calls that multiply a block of rows by one stationary tile, and add to earlier sums."""
        step = self.unit.rows or rows
        fill = -rows % step if self.unit.padded_rows else 0
        block = self._filled(block, fill, 0)
        sums = None if sums is None else self._filled(sums, fill, 0)
        parts = []
        for m in range(0, rows + fill, step):
            last = min(m + step, rows + fill)
            so_far = [] if sums is None else [self._cut(sums, -2, m, last)]
            parts.append(self.b.op(self.unit.name, self._cut(block, -2, m, last), tile, *so_far))
        return self._cut(self._joined(parts, -2), -2, 0, rows)

    # -- operators that do nothing are left out -----------------------------------------------------------
    def _filled(self, x: int, below: int, right: int) -> int:
        if not below and not right:
            return x
        if not self.unit.whole:
            return self.b.op("pad", x, pads=(0, 0, below, right))
        for axis, count in ((-2, below), (-1, right)):
            if count:
                kind = self.b.type(x)
                shape = (count, kind.shape[1]) if axis == -2 else (kind.shape[0], count)
                zeros = self.b.weight(data=np.zeros(shape, dtype=kind.numpy_dtype()))
                x = self.b.op("concat", x, zeros, axis=axis)
        return x

    def _cut(self, x: int, axis: int, start: int, stop: int) -> int:
        whole = (start, stop) == (0, self.b.type(x).shape[axis])
        return x if whole else self.b.op("slice", x, axis=axis, start=start, stop=stop)

    def _joined(self, parts: Sequence[int], axis: int) -> int:
        return parts[0] if len(parts) == 1 else self.b.op("concat", *parts, axis=axis)

    def _reshaped(self, x: int, shape: Sequence[int]) -> int:
        return x if self.b.type(x).shape == tuple(shape) else self.b.op("reshape", x, shape=tuple(shape))

    def _shaped(self, x: int, shape: Sequence[int]) -> int:
        same = self.b.type(x).elements == math.prod(shape)
        return self._reshaped(x, shape) if same else self.b.op("expand", x, shape=tuple(shape))

    def _entry(self, x: int, index: Sequence[int]) -> int:
        """Write the matrix of one batch."""
        for axis, at in enumerate(index):
            x = self._cut(x, axis - len(index) - 2, at, at + 1)
        return self._reshaped(x, self.b.type(x).shape[-2:])

    def _cast(self, x: int, dtype: str) -> int:
        return x if self.b.type(x).dtype == dtype else self.b.op("cast", x, to=dtype)
