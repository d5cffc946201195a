"""Figures of the papers on TASO and Tensat, for comparison with measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Published:
    """The headline figures of a network: optimisation seconds and speed-up in percent."""

    taso_seconds: float
    tensat_seconds: float
    taso_speedup: float
    tensat_speedup: float


SOURCE: Final = "Tensat (MLSys 2021), headline table, NVIDIA T4"

PUBLISHED: Final[dict[str, Published]] = {
    "bert": Published(13.6, 1.4, 8.5, 9.2),
    "resnext50": Published(25.3, 0.7, 5.5, 8.8),
    "nasneta": Published(1226, 10.6, 1.9, 7.3),
    "nasrnn": Published(177.3, 0.5, 45.4, 68.9),
    "inceptionv3": Published(68.6, 5.1, 6.3, 10.0),
    "squeezenet": Published(16.4, 0.3, 6.7, 24.5),
    "vgg19": Published(8.9, 0.4, 8.9, 8.9),
}
