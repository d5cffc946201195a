"""A measured cost model that measures only what can change a decision."""

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

#: Seconds that measuring takes for one model, at most, where nothing else is said.
SECONDS: Final = 4.0

#: Of each operator that the model runs, so many instances are measured first, those that take longest: the
#: roofline that the others are estimated by is fitted to them. They take this part of the seconds at most.
_PROBES, _PART = 2, 0.25


class Economical:
    """A measured cost model whose prices are estimates until :meth:`measure` is asked for them.

    The estimates are a roofline scaled to what is known of this machine: what is cached, and a few probes
    of the model that :meth:`bind` named. ``seconds`` bound all measuring for one model.
    """

    def __init__(self, measured: MeasuredCost, seconds: float | None = None) -> None:
        self.measured = measured
        self.seconds = measured.budget if seconds is None else seconds
        self._spent_before = measured.seconds
        self._probes: list[OpInstance] = []

    @property
    def source(self) -> str:
        """Say what the figures are."""
        return self.measured.source

    @property
    def left(self) -> float:
        """Return the seconds that may still be spent on measuring for the model at hand."""
        return max(0.0, self.seconds - (self.measured.seconds - self._spent_before))

    def bind(self, graph: Graph) -> None:
        """Name the model at hand: it has ``seconds`` of its own."""
        self.measured.bind(graph)
        self._spent_before = self.measured.seconds
        missing = self.measured.unknown(instances_of(graph))
        estimated = self.measured.known(missing).tolist() if missing else []
        order = sorted(zip(missing, estimated, strict=True), key=lambda pair: (pair[0].op, -pair[1]))
        self._probes = [
            instance
            for _, same in groupby(order, key=lambda pair: pair[0].op)
            for instance, _ in list(same)[:_PROBES]
        ]
        self.measured.bind(graph)  # the source counts what was priced since

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds, measured or estimated."""
        if self._probes:
            probes, self._probes = self._probes, []
            self.measured.measure(probes, seconds=_PART * self.left)
        return self.measured.known(instances)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances while there are seconds left; return how many were new."""
        return self.measured.measure(instances, seconds=self.left) if self.left > 0 else 0


def economical(model: CostModel, *, named: object = None) -> CostModel:
    """Return a cost model that measures nothing but what it is asked to; others than measured ones stay.

    It has :data:`SECONDS` for one model, or its own budget where it was given and not just ``named``.
    """
    from workbench.costs.measured import MeasuredCost

    if not isinstance(model, MeasuredCost):
        return model
    return Economical(model, None if named is model else SECONDS)
