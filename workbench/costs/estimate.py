"""Estimates for instances without a measurement: a roofline scaled, per operator, to the measured ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from workbench.costs.analytic import AnalyticCost
from workbench.costs.model import OpInstance


class Calibrated:
    """An analytic model scaled, for each operator, by the median ratio of measured to analytic cost.

    An operator that was never measured gets the median of the other operators' ratios.
    """

    def __init__(self, base: AnalyticCost) -> None:
        self.base = base
        self._ratios: dict[str, float] = {}
        self._overall = 1.0

    def fit(self, known: Iterable[tuple[OpInstance, float]]) -> None:
        """Fit the ratios to measured instances and their costs in microseconds, replacing earlier ratios."""
        pairs = list(known)
        analytic = self.base.price([i for i, _ in pairs])
        ratios: dict[str, list[float]] = {}
        for (instance, cost), estimate in zip(pairs, analytic.tolist(), strict=True):
            if estimate > 0:
                ratios.setdefault(instance.op, []).append(cost / estimate)
        self._ratios = {op: float(np.median(values)) for op, values in ratios.items()}
        self._overall = float(np.median(list(self._ratios.values()))) if self._ratios else 1.0

    def estimate(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the estimated costs in microseconds."""
        scale = np.array([self._ratios.get(i.op, self._overall) for i in instances], dtype=float)
        return self.base.price(instances) * scale
