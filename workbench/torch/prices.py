"""Prices of operators in training: the work of the forward pass and of the gradients of all operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.costs import CostModel
from workbench.costs.analytic import AnalyticCost, Work, work
from workbench.costs.model import OpInstance
from workbench.ops import TensorType, Trait, spec_of

#: Operators whose gradient for each operand is as much work as themselves.
_CONTRACTIONS: Final = frozenset({"matmul", "conv2d", "conv_transpose", "attention"})


@dataclass(slots=True)
class TrainingCost(CostModel):
    """A roofline of a training step: every operator once forward, and once backward for each operand.

    The gradient of a product is one product for each operand. The gradient of a slice fills a tensor of the
    whole operand; that of every other operator moves as much as the operator.
    """

    forward: AnalyticCost

    def __init__(self, device: str = "cpu") -> None:
        self.forward = AnalyticCost(device)

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"{self.forward.source}, forward and backward"

    @property
    def device(self) -> str:
        """Return the name of the device."""
        return self.forward.device

    @property
    def analytic(self) -> bool:
        """Return that the figures are those of a roofline."""
        return True

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        ahead = self.forward.price(instances)
        back = [self._backward(i, cost) for i, cost in zip(instances, ahead.tolist(), strict=True)]
        return ahead + np.array(back, dtype=float)

    def _backward(self, instance: OpInstance, forward: float) -> float:
        spec = spec_of(instance.op)
        if Trait.ALIAS in spec.traits or not spec.max_inputs or not forward:
            return 0.0
        if instance.op == "slice":
            (whole,) = instance.inputs
            assert isinstance(whole, TensorType)
            return 1e6 * self.forward.seconds(Work(0.0, whole.nbytes + work(instance).bytes))
        return forward * min(2, len(instance.inputs)) if instance.op in _CONTRACTIONS else forward


def cost_of(training: bool, device: str) -> CostModel:
    """Return the prices of a step: of the forward pass alone unless gradients are asked for."""
    return TrainingCost(device) if training else AnalyticCost(device)
