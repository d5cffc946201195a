"""Products cut into tiles, and the cost model of a unit and its vector unit: a roofline of each, by its file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.costs.analytic import Work, work
from workbench.costs.model import CostModel, OpInstance
from workbench.kernels.accelerators.im2col import unfolds_nothing
from workbench.kernels.accelerators.unit import Unit
from workbench.ops import TensorType, spec_of


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
        per = 1 if not self.unit.rows else -(-self.rows // self.unit.rows)
        return self.tiles * per

    @property
    def cycles(self) -> float:
        """Return the cycles of all loads and calls by the unit's formulas."""
        if not self.unit.rows:
            calls = self.unit.call_cycles(self.rows)
        else:
            full, rest = divmod(self.rows, self.unit.rows)
            calls = full * self.unit.call_cycles(self.unit.rows) + (
                self.unit.call_cycles(rest) if rest else 0
            )
        return self.tiles * (self.unit.load_cycles + calls)

    @property
    def products(self) -> int:
        """Return the multiplications that the result needs."""
        return self.batches * self.rows * self.inner * self.columns

    @property
    def capacity(self) -> int:
        """Return the multiplications that the calls do, those with zeros that fill tiles included."""
        rows = self.rows
        if self.unit.padded_rows:
            rows = -(-rows // self.unit.rows) * self.unit.rows
        return self.tiles * rows * self.unit.peak

    @property
    def waste(self) -> float:
        """Return the part of the multiplications whose factor is a zero that fills a tile."""
        return 1 - self.products / self.capacity

    @property
    def utilisation(self) -> float:
        """Return the multiplications needed as a part of those possible in the cycles of loads and calls."""
        streaming = self.capacity / max(self.cycles, 1e-9)
        return (1 - self.waste) * streaming / self._rate()

    def _rate(self) -> float:
        """Return the most multiplications that a cycle of a full, endless stream can do."""
        if self.unit.rows:
            return self.unit.rows * self.unit.peak / max(self.unit.call_cycles(self.unit.rows), 1e-9)
        many = 1 << 20
        return many * self.unit.peak / max(self.unit.call_cycles(many), 1e-9)

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


_FREE = Price(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class AcceleratorCost(CostModel):
    """A cost model by the formulas of a unit's file.

    A product cut for this unit takes the cycles of its loads and calls, everything else those of the vector
    unit; neither is faster than memory. Views, and parts that the unit addresses in place, are free.
    """

    unit: Unit

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"formulas of the accelerator {self.unit.name}"

    @property
    def device(self) -> str:
        """Return the name of the unit."""
        return self.unit.name

    @property
    def analytic(self) -> bool:
        """Return that no figure is measured."""
        return True

    @property
    def accelerator(self) -> Unit:
        """Return the unit."""
        return self.unit

    def cycles(self, instance: OpInstance) -> Price:
        """Return the cycles of an operator instance."""
        unit, spec = self.unit, spec_of(instance.op)
        attrs = spec.unpack(instance.attrs)
        if instance.op == "blocked":
            kinds = [k for k in instance.inputs if isinstance(k, TensorType)]
            assert isinstance(instance.type, TensorType)
            if unit.runs(attrs):
                tiling = Tiling.of(unit, kinds, instance.type)
                return Price(tiling.cycles, 0.0, tiling.bytes / unit.bytes_per_cycle)
        if instance.op == unit.name:  # one call of a program that is written out
            assert isinstance(instance.type, TensorType)
            return Price(unit.load_cycles + unit.call_cycles(instance.type.shape[0]), 0.0, 0.0)
        if instance.op == "transpose" and unit.strided:
            return _FREE
        if instance.op == "unfold" and (unit.unfolds or unfolds_nothing(attrs)):
            return _FREE
        return self._vector(work(instance))

    def _vector(self, done: Work) -> Price:
        if done.free:
            return _FREE
        # A multiplication and the addition after it are one operation of a lane.
        arithmetic = self.unit.issue + done.flops / (2 * self.unit.lanes)
        return Price(0.0, arithmetic, done.bytes / self.unit.bytes_per_cycle)

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        return np.array([self.cycles(i).cycles / self.unit.clock for i in instances], dtype=float)
