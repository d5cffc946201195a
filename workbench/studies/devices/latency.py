"""Figures of timed graphs: medians, speed-ups over a reference in the same rounds, and differences of outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.devices.timing import paired_speedup


def latency_figures(samples: Sequence[float], reference: Sequence[float] | None) -> dict[str, Any]:
    """Return the median and quartiles of samples, and the speed-up over a reference in the same rounds."""
    low, median, high = np.percentile(samples, [25, 50, 75]).tolist()
    row = {"median_us": median, "quartiles_us": [low, high], "rounds": len(samples)}
    if reference is None:
        return row
    speedup, interval = paired_speedup(reference, samples)
    return row | {"speedup": speedup, "interval": list(interval)}


def difference(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Return the largest difference as a fraction of the largest output; inf if NaNs or infinities differ."""
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if x.shape != y.shape or not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return math.inf
        finite = np.isfinite(x)
        if finite.any():
            worst = max(worst, float(np.abs(x - y)[finite].max() / max(1e-30, np.abs(x[finite]).max())))
    return worst
