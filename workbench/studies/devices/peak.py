"""The limits of this machine, measured once: its rate of multiplications and its bandwidths."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs.analytic import Device
from workbench.support.disk_cache import remembered
from workbench.support.machine import machine, microseconds

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: Changed whenever the way of measuring changes, so that older figures are not taken.
PROTOCOL: Final = "2"

#: Extents of the square products that are timed; the fastest counts.
PRODUCTS: Final = (384, 768, 1152)
#: Bytes of the arrays that are copied, within the caches of a core (the fastest counts: some sizes put both arrays
#: into the same lines of a cache) and beyond the last one.
CACHED: Final = (3 << 13, 5 << 14, 5 << 16)
FAR: Final = 1 << 28
#: Seconds for each figure.
SECONDS: Final = 0.4


@dataclass(frozen=True, slots=True)
class Peak:
    """The limits of a number of cores: FLOP/s of products in float32, B/s from a core's caches and from memory.

    ``load`` is the machine's when they were measured: other work on its cores makes the figures too low. The
    bandwidths are those of one core, multiplied by ``threads``: several cores that share a bus have less, so
    that what is computed from them stays a lower bound on times.
    """

    machine: str
    threads: int
    flops: float
    cache_bandwidth: float
    bandwidth: float
    load: float = 0.0

    @property
    def quiet(self) -> bool:
        """Return whether no other work took the cores when the figures were measured."""
        return self.load <= self.threads + 0.5

    def __str__(self) -> str:
        cores = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return (
            f"{self.machine}, {cores}: {self.flops / 1e9:.1f} Gflop/s, {self.cache_bandwidth / 1e9:.0f} GB/s from the "
            f"caches, {self.bandwidth / 1e9:.1f} GB/s from memory"
            + ("" if self.quiet else f", measured at a load of {self.load:.1f}, too low")
        )

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return asdict(self)

    def device(self) -> Device:
        """Return the limits as a device of :class:`~workbench.costs.analytic.AnalyticCost`: nothing is faster.

        An operator takes no time to start, and all that it moves comes from the caches. Narrow floats may
        have units of 16 times the rate; double precision has half the rate.
        """
        rate = self.cache_bandwidth
        return Device("limit", self.flops, rate, 0.0, 16 * self.flops, self.flops / 2, efficiency=1.0)


class _Busy(Exception):
    """Raised with figures of a busy machine, which are not kept for long."""


def peak(threads: int = 1, *, anew: bool = False) -> Peak:
    """Return the limits of this machine, measured in about three seconds and kept in the cache.

    Figures that were measured while other work took the cores are kept until the hour ends.

    Args:
        threads: The number of threads of a run.
        anew: Whether figures of a busy machine are measured again at once.

    Raises:
        ValueError: If the number of threads is not between 1 and that of the processors.
    """
    most = os.cpu_count() or 1
    if not 1 <= threads <= most:
        raise ValueError(f"threads must be from 1 to {most}, the number of processors here, got {threads}")
    name = machine()

    key, hour = [name, str(threads), PROTOCOL], str(int(time.time() // 3600))

    def measured() -> tuple[float, ...]:
        load = os.getloadavg()[0]
        cached = max(map(_copied, CACHED))
        flops = max(_multiplied(n, threads) for n in PRODUCTS)
        return flops, threads * cached, threads * _copied(FAR), load

    def quiet() -> tuple[float, ...]:
        found = measured() if anew else remembered("peak", [*key, hour], measured)
        if not Peak(name, threads, *found).quiet:
            raise _Busy(found)
        return found

    try:
        return Peak(name, threads, *remembered("peak", key, quiet))
    except _Busy as busy:
        return Peak(name, threads, *busy.args[0])


def _least(run: Callable[[], float]) -> float:
    """Return the least figure of runs within the seconds of one figure, at least five."""
    until, least, count = time.perf_counter() + SECONDS, run(), 1
    while count < 5 or time.perf_counter() < until:
        least, count = min(least, run()), count + 1
    return least


def _multiplied(n: int, threads: int) -> float:
    """Return the FLOP/s of a product of square matrices, the second constant, in ONNX Runtime."""
    from workbench.devices.ort_sessions import Loaded
    from workbench.graph import Builder

    random, b = np.random.default_rng(0), Builder("product")
    x = b.input("x", (n, n))
    graph = b.graph({"y": b.op("matmul", x, b.weight(data=random.random((n, n), "f4")))})

    def feeds(session: InferenceSession) -> Mapping[str, Any]:
        return {"x": random.random((n, n), "f4")}

    return 2e6 * n**3 / _least(Loaded(graph, feeds, threads))


def _copied(size: int) -> float:
    """Return the B/s at which one core reads and writes arrays of a size."""
    source = np.ones(size // 4, "f4")
    target = np.zeros_like(source)
    times = max(1, (1 << 24) // size)
    return 2e6 * size / _least(lambda: microseconds(lambda: np.copyto(target, source), 1, times))
