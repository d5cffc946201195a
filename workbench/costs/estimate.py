"""Estimate what was not measured: a roofline scaled, operator by operator, to what was."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workbench.costs.analytic import AnalyticCost
from workbench.costs.model import OpInstance


class Calibrated:
    """Scale an analytic model by the median ratio of measured to analytic cost of each operator."""

    def __init__(self, base: AnalyticCost) -> None:
        self.base = base
        self._ratios: dict[str, float] = {}
        self._overall = 1.0

    def fit(self, known: Iterable[tuple[OpInstance, float]]) -> None:
        """Fit the ratios to measured instances."""
        pairs = list(known)
        analytic = self.base.price([i for i, _ in pairs])
        ratios: dict[str, list[float]] = {}
        for (instance, cost), estimate in zip(pairs, analytic, strict=True):
            if estimate > 0:
                ratios.setdefault(instance.op, []).append(cost / estimate)
        self._ratios = {op: float(np.median(values)) for op, values in ratios.items()}
        if self._ratios:
            self._overall = float(np.median(list(self._ratios.values())))

    def estimate(self, instance: OpInstance) -> float:
        """Return the estimated cost in microseconds."""
        return float(self.base.price([instance])[0]) * self._ratios.get(instance.op, self._overall)
