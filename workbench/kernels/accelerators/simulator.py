"""A unit played step by step: it loads tiles, multiplies rows, adds, and counts its steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.graph import Graph
from workbench.graph.evaluate import values
from workbench.kernels.accelerators.unit import Unit
from workbench.ops import TensorType
from workbench.ops.activations import activate


@dataclass(slots=True)
class Counts:
    """The work of a unit: loads of stationary tiles, calls, rows multiplied, multiplications, cycles."""

    loads: int = 0
    calls: int = 0
    rows: int = 0
    products: int = 0
    cycles: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.loads + other.loads,
            self.calls + other.calls,
            self.rows + other.rows,
            self.products + other.products,
            self.cycles + other.cycles,
        )


@dataclass(slots=True)
class Machine:
    """A unit with its one stationary tile; it refuses operands of other extents than its own."""

    unit: Unit
    counts: Counts = field(default_factory=Counts)
    tile: np.ndarray | None = None

    def load(self, tile: np.ndarray) -> None:
        """Make a tile [inner, columns] stationary."""
        if tile.shape != (self.unit.inner, self.unit.columns):
            raise ValueError(
                f"a tile of {self.unit.name} must be [{self.unit.inner}, {self.unit.columns}], "
                f"got {list(tile.shape)}"
            )
        self.tile = tile
        self.counts.loads += 1
        self.counts.cycles += self.unit.load_cycles

    def call(self, rows: np.ndarray) -> np.ndarray:
        """Multiply rows [rows, inner] by the stationary tile."""
        unit, most = self.unit, self.unit.rows or rows.shape[0]
        fits = rows.shape[0] == most if unit.padded_rows else rows.shape[0] <= most
        if self.tile is None or rows.shape[1] != unit.inner or not fits:
            raise ValueError(
                f"a call of {unit.name} must have a loaded tile and at most {most} rows of {unit.inner}, "
                f"got {list(rows.shape)}"
            )
        self.counts.calls += 1
        self.counts.rows += rows.shape[0]
        self.counts.products += rows.shape[0] * unit.peak
        self.counts.cycles += unit.call_cycles(rows.shape[0])
        return rows @ self.tile

    def multiply(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Multiply two matrices tile by tile, filled with zeros to whole tiles."""
        unit = self.unit
        (rows, inner), columns = left.shape, right.shape[1]
        step = unit.rows or rows
        below = -rows % step if unit.padded_rows else 0
        across, beside = -inner % unit.inner, -columns % unit.columns
        left = np.pad(left, ((0, below), (0, across)))
        right = np.pad(right, ((0, across), (0, beside)))
        total = np.zeros((left.shape[0], right.shape[1]), dtype=left.dtype)
        for n, k in itertools.product(
            range(0, right.shape[1], unit.columns), range(0, right.shape[0], unit.inner)
        ):
            self.load(right[k : k + unit.inner, n : n + unit.columns])
            for m in range(0, left.shape[0], step):
                turn = left[m : m + step, k : k + unit.inner]
                total[m : m + step, n : n + unit.columns] += self.call(turn)
        return total[:rows, :columns]


def simulate_product(
    unit: Unit, operands: Sequence[np.ndarray], act: str = "none"
) -> tuple[np.ndarray, Counts]:
    """Return the result of a ``blocked`` product and the unit's work for it.

    Arrays of the unit's element types are added in its accumulator's type, others in their own.
    """
    machine = Machine(unit)
    left, right, *bias = operands
    declared = (str(left.dtype), str(right.dtype)) == (unit.streamed, unit.stationary)
    if declared:
        kind = TensorType(unit.accumulator, ()).numpy_dtype()
        left, right = left.astype(kind), right.astype(kind)
    batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*batches, *left.shape[-2:]))
    rows, columns = left.shape[-2], right.shape[-1]
    if math.prod(right.shape[:-2]) == 1:
        whole = machine.multiply(left.reshape(-1, left.shape[-1]), right.reshape(right.shape[-2:]))
    else:
        right = np.broadcast_to(right, (*batches, *right.shape[-2:]))
        pairs = (machine.multiply(left[i], right[i]) for i in np.ndindex(*batches))
        whole = np.stack(list(pairs))
    out = whole.reshape(*batches, rows, columns)
    if bias:
        out = out + bias[0].astype(out.dtype)
    out = activate(out, act)
    return (out.astype(TensorType(unit.result, ()).numpy_dtype()) if declared else out), machine.counts


def simulate(
    graph: Graph, unit: Unit, inputs: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[int, Counts]]:
    """Run a graph with its blocked products played on a unit.

    Args:
        graph: The graph.
        unit: The unit; products cut for another unit run by their semantics.
        inputs: The arrays of all inputs by name.

    Returns:
        The outputs by name, and the unit's work for every product, by its place in the graph.
    """
    known: dict[int, np.ndarray] = {}
    counts: dict[int, Counts] = {}
    wanted = {
        j
        for i, node in enumerate(graph.nodes)
        if node.op == "blocked" and unit.runs(node.named_attrs())
        for j in (i, *node.inputs)
    }
    wanted |= set(graph.output_ids)
    for i, value in values(graph, inputs):
        node = graph.nodes[i]
        if i not in wanted:
            continue
        known[i] = value
        if node.op == "blocked" and unit.runs(node.named_attrs()):
            operands = [known[j] for j in node.inputs]
            known[i], counts[i] = simulate_product(unit, operands, node.attr("act"))
            np.copyto(value, known[i])  # later operators read the unit's result
    return {name: known[i] for name, i in graph.outputs}, counts
