"""The cost model of a unit and its vector unit: a roofline of each, by the formulas of its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.costs.analytic import Work, work
from workbench.costs.model import CostModel, OpInstance
from workbench.kernels.accelerators.tiling import Tiling
from workbench.kernels.accelerators.unit import Unit
from workbench.ops import TensorType, spec_of
from workbench.ops.im2col import unfolds_nothing


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
