"""A measured cost model that measures only instances that can change a decision."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import instances_of
from workbench.graph import Graph

if TYPE_CHECKING:
    from workbench.costs.measured import MeasuredCost

#: The default limit on the seconds spent measuring for one model.
SECONDS: Final = 4.0

#: For each operator of the model, the ``_PROBES`` instances with the largest estimates are measured first;
#: the roofline that estimates the others is fitted to them. This uses at most ``_PART`` of the seconds.
_PROBES, _PART = 2, 0.25


class Economical(CostModel):
    """A measured cost model whose prices are estimates until :meth:`measure` is called for them.

    The estimates are a roofline scaled to the figures known for this machine: the cached ones, and a few
    probes of the model passed to :meth:`bind`. ``seconds`` limits all measuring for one model.
    """

    def __init__(self, model: MeasuredCost, seconds: float | None = None) -> None:
        self.model = model
        self.seconds = model.budget if seconds is None else seconds
        self._spent_before = model.seconds
        self._probes: list[OpInstance] = []

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return self.model.source

    @property
    def device(self) -> str:
        """Return the device that the figures are of."""
        return self.model.device

    @property
    def left(self) -> float:
        """Return the seconds that may still be spent on measuring for the current model."""
        return max(0.0, self.seconds - (self.model.seconds - self._spent_before))

    def bind(self, graph: Graph) -> None:
        """Set the current model, which gets ``seconds`` of its own, and choose its probes."""
        self.model.bind(graph)
        self._spent_before = self.model.seconds
        instances = instances_of(graph)
        missing = {id(instance) for instance in self.model.unknown(instances)}
        prices = self.model.known(instances).tolist() if missing else []
        order = sorted(zip(instances, prices, strict=False), key=lambda pair: (pair[0].op, -pair[1]))
        self._probes = [  # a known price is a probe too, so a second call measures none
            instance
            for _, same in groupby(order, key=lambda pair: pair[0].op)
            for instance in [one for one, _ in same][:_PROBES]
            if id(instance) in missing
        ]
        self.model.bind(graph)  # reset the source, which counts the instances priced since the last bind

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measured or estimated."""
        if self._probes:
            probes, self._probes = self._probes, []
            self.model.measure(probes, seconds=_PART * self.left)
        return self.model.known(instances)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances while seconds are left; return the number of new measurements."""
        return self.model.measure(instances, seconds=self.left) if self.left > 0 else 0


def economical(model: CostModel, *, named: object = None) -> CostModel:
    """Return a cost model that measures only on request; return other models than measured ones unchanged.

    The limit for one model is :data:`SECONDS`, or the model's own budget if the caller passed the model as an
    object, in which case ``named`` is that same object.
    """
    from workbench.costs.measured import MeasuredCost

    if not isinstance(model, MeasuredCost):
        return model
    return Economical(model, None if named is model else SECONDS)
