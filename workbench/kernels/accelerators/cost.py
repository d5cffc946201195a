"""Products cut into tiles, the cost model of a unit and its vector unit, and the products of a graph that run on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workbench.costs.analytic import work
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import node_instances
from workbench.graph import Graph, Node
from workbench.kernels.accelerators.operators import unfolds_nothing
from workbench.kernels.accelerators.unit import Unit
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.types import FLOAT_DTYPES
from workbench.support.formatting import thousands


@dataclass(frozen=True, slots=True)
class Tiling:
    """A product of ``batches`` pairs of matrices [rows, inner] and [inner, columns] on a unit.

    Batches that share the stationary operand count as rows of one product.
    """

    unit: Unit
    batches: int
    rows: int
    inner: int
    columns: int

    @classmethod
    def of(cls, unit: Unit, operands: Sequence[TensorType], result: TensorType) -> Tiling:
        """Return the tiling of a ``blocked`` product by the types of its operands and its result."""
        batches = math.prod(result.shape[:-2])
        rows, (inner, columns) = result.shape[-2], operands[1].shape[-2:]
        if math.prod(operands[1].shape[:-2]) == 1:
            batches, rows = 1, batches * rows
        return cls(unit, batches, rows, inner, columns)

    @property
    def across(self) -> int:
        """Return the number of blocks of the inner dimension."""
        return -(-self.inner // self.unit.inner)

    @property
    def beside(self) -> int:
        """Return the number of blocks of the columns."""
        return -(-self.columns // self.unit.columns)

    @property
    def tiles(self) -> int:
        """Return the number of stationary tiles, each of which is loaded once."""
        return self.batches * self.across * self.beside

    @property
    def calls(self) -> int:
        """Return the number of calls."""
        return self.tiles * (-(-self.rows // self.unit.rows) if self.unit.rows else 1)

    @property
    def cycles(self) -> float:
        """Return the cycles of all loads and calls by the unit's formulas."""
        unit = self.unit
        full, rest = divmod(self.rows, unit.rows) if unit.rows else (0, self.rows)
        calls = sum(
            count * unit.call_cycles(rows) for count, rows in ((full, unit.rows), (1, rest)) if count * rows
        )
        return self.tiles * (unit.load_cycles + calls)

    @property
    def products(self) -> int:
        """Return the multiplications that the result needs."""
        return self.batches * self.rows * self.inner * self.columns

    @property
    def capacity(self) -> int:
        """Return the multiplications that the calls do, those with zeros that fill tiles included."""
        fill = -self.rows % self.unit.rows if self.unit.padded_rows else 0
        return self.tiles * (self.rows + fill) * self.unit.peak

    @property
    def waste(self) -> float:
        """Return the part of the multiplications whose factor is a zero that fills a tile."""
        return 1 - self.products / self.capacity

    @property
    def utilisation(self) -> float:
        """Return the multiplications needed as a part of those possible in the cycles of loads and calls."""
        streaming, rows = self.capacity / max(self.cycles, 1e-9), self.unit.rows or 1 << 20
        # The most that a cycle of a full, endless stream can do.
        rate = rows * self.unit.peak / max(self.unit.call_cycles(rows), 1e-9)
        return (1 - self.waste) * streaming / rate

    @property
    def bytes(self) -> float:
        """Return the bytes moved: the rows once per block of columns, stationary tiles and result once."""
        unit, one = self.unit, TensorType
        streamed = one(unit.streamed, (self.batches * self.rows, self.inner)).nbytes * self.beside
        stationary = one(unit.stationary, (self.batches * self.inner, self.columns)).nbytes
        return streamed + stationary + one(unit.result, (self.batches * self.rows, self.columns)).nbytes

    def seconds(self) -> float:
        """Return the seconds by the roofline of the unit: of its cycles and of the bytes, the longer."""
        return max(self.cycles, self.bytes / self.unit.bytes_per_cycle) / (self.unit.clock * 1e6)


@dataclass(frozen=True, slots=True)
class Price:
    """The cycles of one operator: on the unit or the vector unit, and those that memory needs."""

    unit: float
    vector: float
    memory: float

    @property
    def cycles(self) -> float:
        """Return the cycles until the operator is done: arithmetic and memory overlap."""
        return max(self.unit + self.vector, self.memory)


@dataclass(frozen=True)
class AcceleratorCost(CostModel):
    """A cost model by the formulas of a unit's file.

    A product cut for this unit takes the cycles of its loads and calls, everything else those of the vector
    unit; neither is faster than memory. Views, and parts that the unit addresses in place, are free.
    """

    unit: Unit
    analytic = True

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"formulas of the accelerator {self.unit.name}"

    @property
    def device(self) -> str:
        """Return the name of the unit."""
        return self.unit.name

    @property
    def accelerator(self) -> Unit:
        """Return the unit."""
        return self.unit

    def cycles(self, instance: OpInstance) -> Price:
        """Return the cycles of an operator instance."""
        unit, attrs = self.unit, spec_of(instance.op).unpack(instance.attrs)
        kinds = [k for k in (*instance.inputs, instance.type) if isinstance(k, TensorType)]
        if instance.op == "blocked" and unit.runs(attrs):
            tiling = Tiling.of(unit, kinds[:-1], kinds[-1])
            return Price(tiling.cycles, 0.0, tiling.bytes / unit.bytes_per_cycle)
        if instance.op == unit.name:  # one call of a program that is written out
            return Price(unit.load_cycles + unit.call_cycles(kinds[-1].shape[0]), 0.0, 0.0)
        done, unfolds = work(instance), instance.op == "unfold" and (unit.unfolds or unfolds_nothing(attrs))
        if done.free or unfolds or (instance.op == "transpose" and unit.strided):
            return Price(0.0, 0.0, 0.0)
        # A multiplication and the addition after it are one operation of a lane.
        return Price(0.0, unit.issue + done.flops / (2 * unit.lanes), done.bytes / unit.bytes_per_cycle)

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        return np.array([self.cycles(i).cycles / self.unit.clock for i in instances], dtype=float)


# -- placement --------------------------------------------------------------------------------------------
#: The operators that multiply matrices or windows.
PRODUCTS = with_trait(Trait.PRODUCT)
#: The figures of a product in a summary.
_FIGURES = ("batches", "rows", "inner", "columns", "tiles", "calls", "cycles", "utilisation", "waste")


@dataclass(frozen=True, slots=True)
class Layer:
    """A product on the unit.

    ``node`` is its place in the graph, ``stays`` the operand that is stationary: ``weight``, ``image`` or
    ``other`` if neither operand is a weight.
    """

    node: int
    stays: str
    tiling: Tiling
    price: Price

    @property
    def name(self) -> str:
        """Return the extents of the product: batches, rows, inner extent and columns."""
        t = self.tiling
        batches = f"{t.batches} × " if t.batches > 1 else ""
        return f"{batches}{t.rows} × {t.inner} × {t.columns}"


@dataclass(frozen=True, slots=True)
class Left:
    """Products of one kind that the vector unit does: how many, their multiplications, and the reason."""

    what: str
    count: int
    products: int
    reason: str

    def __str__(self) -> str:
        return f"{self.count} {self.what} ({thousands(self.products)} multiplications): {self.reason}"


@dataclass(frozen=True)
class Placement:
    """A graph on a unit and the vector unit next to it: its products by layer, and the rest."""

    unit: Unit
    layers: tuple[Layer, ...]
    left: tuple[Left, ...]
    vector: float
    moved: float

    def __repr__(self) -> str:
        return f"Placement on {self.unit.name}: {'; '.join(self.lines())}"

    @cached_property
    def tiles(self) -> int:
        """Return the number of stationary tiles."""
        return sum(layer.tiling.tiles for layer in self.layers)

    @cached_property
    def calls(self) -> int:
        """Return the number of calls of the unit."""
        return sum(layer.tiling.calls for layer in self.layers)

    @cached_property
    def cycles(self) -> float:
        """Return the cycles of the unit's loads and calls."""
        return sum(layer.tiling.cycles for layer in self.layers)

    @cached_property
    def utilisation(self) -> float:
        """Return the multiplications needed as a part of those possible in the unit's cycles."""
        if not self.layers:
            return 0.0
        return sum(layer.tiling.utilisation * layer.tiling.cycles for layer in self.layers) / self.cycles

    @cached_property
    def waste(self) -> float:
        """Return the part of the unit's multiplications whose factor is a zero that fills a tile."""
        capacity = sum(layer.tiling.capacity for layer in self.layers)
        return 1 - sum(layer.tiling.products for layer in self.layers) / capacity if capacity else 0.0

    @cached_property
    def share(self) -> float:
        """Return the part of all multiplications of products that the unit does."""
        here = sum(layer.tiling.products for layer in self.layers)
        whole = here + sum(left.products for left in self.left)
        return here / whole if whole else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "unit": self.unit.name,
            **{n: getattr(self, n) for n in ("tiles", "calls", "cycles", "utilisation", "waste", "share")},
            "vector_cycles": self.vector,
            "memory_cycles": self.moved,
            "layers": [
                {"stays": layer.stays, **{name: getattr(layer.tiling, name) for name in _FIGURES}}
                for layer in self.layers
            ],
            "left": [asdict(left) for left in self.left],
        }

    def lines(self) -> list[str]:
        """Return the figures as sentences."""
        found = [f"no product runs on {self.unit.name}"]
        if self.layers:
            found = [
                f"{len(self.layers)} products on {self.unit.name}: {thousands(self.tiles)} tiles, "
                f"{thousands(self.calls)} calls, {thousands(round(self.cycles))} cycles, "
                f"{self.utilisation:.1%} of its multipliers used, {self.waste:.1%} of its multiplications "
                "with zeros that fill tiles",
                f"{self.share:.1%} of the multiplications of products run on the unit",
            ]
        found.append(
            f"the vector unit computes {thousands(round(self.vector))} cycles; memory moves data in "
            f"{thousands(round(self.moved))} cycles"
        )
        return found + [f"left to the vector unit: {left}" for left in self.left]


def placement(graph: Graph, unit: Unit) -> Placement:
    """Return which products of a graph run on a unit and which are left to the vector unit."""
    cost = AcceleratorCost(unit)
    layers: list[Layer] = []
    left: dict[tuple[str, str], list[int]] = {}
    vector = moved = 0.0
    for i, instance in node_instances(graph).items():
        node = graph.nodes[i]
        price = cost.cycles(instance)
        vector += price.vector
        moved += price.memory
        kinds = [k for k in instance.inputs if isinstance(k, TensorType)]
        if node.op == "blocked" and unit.runs(node.named_attrs()):
            stays = "weight" if instance.constant[1] else "image" if instance.constant[0] else "other"
            layers.append(Layer(i, stays, Tiling.of(unit, kinds, node.tensor), price))
        elif node.op in PRODUCTS and price.cycles:
            count = round(spec_of(node.op).flops(node.named_attrs(), kinds, node.tensor) / 2)
            grouped = node.named_attrs().get("groups", 1) > 1
            how = ("depthwise " if kinds[1].shape[1] == 1 else "grouped ") if grouped else ""
            left.setdefault((how + node.op, _reason(unit, node, kinds)), []).append(count)
    rest = [Left(what, len(found), sum(found), reason) for (what, reason), found in left.items()]
    rest.sort(key=lambda one: -one.products)
    return Placement(unit, tuple(layers), tuple(rest), vector, moved)


def _reason(unit: Unit, node: Node, kinds: list[TensorType]) -> str:
    """Return why a product is not on the unit."""
    wanted = unit.streamed if unit.streamed == unit.stationary else f"{unit.streamed} and {unit.stationary}"
    if any(kind.dtype not in (unit.streamed, unit.stationary) for kind in kinds[:2]):
        return f"its operands are {kinds[0].dtype}, {unit.name} multiplies {wanted}"
    inner = kinds[0].shape[-1] if node.op == "matmul" else math.prod(kinds[1].shape[1:])
    if unit.longest is not None and inner > unit.longest:
        return f"{thousands(inner)} products do not fit the {unit.accumulator} accumulator"
    if node.op not in ("matmul", "conv2d") or any(kind.dtype not in FLOAT_DTYPES for kind in kinds):
        return "no rule puts this operator on a unit"
    return "by the formulas it takes the vector unit no longer"
