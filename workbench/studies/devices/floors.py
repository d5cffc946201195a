"""How far a result is from its limits: the least cost in the e-graph, by its prices and by the machine's own peak."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs.analytic import AnalyticCost, Device, work
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import egraph_instances_by_node, price_egraph
from workbench.devices.timing import rounds
from workbench.ops import TensorType, Trait, spec_of
from workbench.support.disk_cache import remembered
from workbench.support.formatting import microseconds as in_words
from workbench.support.machine import machine, microseconds

if TYPE_CHECKING:
    import pandas as pd
    from onnxruntime import InferenceSession

    from workbench.egraph import EGraph
    from workbench.optimizer.result import Optimized

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
    """Return the limits of this machine for a run on some threads, measured in three seconds and kept in the cache.

    Figures that were measured while other work took the cores are kept until the hour ends; with ``anew`` they are
    measured again at once. Raise ValueError if the number of threads is not between 1 and that of the processors.
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
    return min(rounds([run], seconds=SECONDS, most=1_000_000)[0])


def _multiplied(n: int, threads: int) -> float:
    """Return the FLOP/s of a product of square matrices, the second constant, in ONNX Runtime."""
    from workbench.devices.targets import Loaded
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


# -- floors -----------------------------------------------------------------------------------------------
#: Ratios up to which a result counts as the best: less is rounding.
SAME: Final = 1.0005


@dataclass(slots=True)
class ArithmeticCost(CostModel):
    """A cost model that prices the multiplications and additions of products at a machine's peak, and nothing else.

    Whatever else an operator does may run inside a product's kernel. A product of a convolution with its padding
    does not count, and neither does anything in narrow floats or integers, of which the peak is not known.
    """

    peak: Peak

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"products at the peak of {self.peak.machine}"

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the least time of each instance's products, in microseconds."""
        device = self.peak.device()
        return np.array([1e6 * products(i) / device.peak(work(i).dtype) for i in instances])


def products(instance: OpInstance) -> float:
    """Return the FLOP of an instance's products in float32 or float64, without those of padding.

    >>> x, w = TensorType("float32", (1, 8, 5, 5)), TensorType("float32", (8, 8, 3, 3))
    >>> same = OpInstance("conv2d", ((1, 1), (1, 1, 1, 1), (1, 1), 1, "none"), (x, w), x, (False, True))
    >>> products(same) == 2 * 8 * 8 * (5 + 4 + 4) ** 2
    True
    """
    spec, out = spec_of(instance.op), instance.type
    if Trait.PRODUCT not in spec.traits or not isinstance(out, TensorType):
        return 0.0
    if out.dtype not in ("float32", "float64"):
        return 0.0
    flops = work(instance).flops
    if instance.op != "conv2d":
        return flops
    attrs, (x, w) = spec.unpack(instance.attrs), instance.inputs[:2]
    assert isinstance(x, TensorType)
    assert isinstance(w, TensorType)
    for axis, before in ((-2, attrs["pads"][0]), (-1, attrs["pads"][1])):
        taps = np.arange(w.shape[axis]) * attrs["dilations"][axis]
        place = np.arange(out.shape[axis])[:, None] * attrs["strides"][axis] - before + taps
        inside = (place >= 0) & (place < x.shape[axis])
        flops *= inside.sum() / inside.size
    return float(flops)


@dataclass(frozen=True, slots=True)
class Floor:
    """The least cost in µs by a cost model: none in the ``scope`` is below ``bound``, and one of ``cost`` was found."""

    source: str
    cost: float
    bound: float
    scope: str


@dataclass(frozen=True, slots=True)
class Floors:
    """A result's cost and time, next to the least that its e-graph and this machine allow.

    Times are in microseconds. ``cost`` and ``prices`` are by the result's own cost model. ``arithmetic`` counts
    products at the machine's peak alone. ``roofline`` counts arithmetic at the peak or moved bytes at the caches'
    bandwidth, whichever takes longer, operator by operator; a kernel of several operators may be below it.
    ``time`` is the measured median of what the result writes, None if it was not timed as a whole. ``points`` are the
    operators of ``before`` and ``after``: FLOP, bytes moved, microseconds by the prices.
    """

    cost: float
    prices: Floor
    peak: Peak
    arithmetic: Floor
    roofline: Floor
    time: float | None
    points: tuple[tuple[str, str, float, float, float], ...]

    @property
    def factor(self) -> float:
        """Return the factor by which nothing in the e-graph is faster, by the prices."""
        return self.cost / self.prices.bound if self.prices.bound > 0 else 1.0

    def __str__(self) -> str:
        scope = "" if self.prices.scope == "e-graph" else f", in its {self.prices.scope}"
        said = (
            "by these prices it is the fastest that these laws make"
            if self.factor < SAME
            else f"by these prices nothing that these laws make is more than {self.factor:.4g} times as fast"
        )
        if not self.arithmetic.bound:
            return f"{said}{scope}; no product of floats is in all of these graphs"
        least = in_words(self.arithmetic.bound)
        end = f", and the result runs in {in_words(self.time)}" if self.time else ""
        if not self.peak.quiet:
            end += (
                f" (the peak was measured at a load of {self.peak.load:.1f}: a quiet machine may need less)"
            )
        rate = f"{self.peak.flops / 1e9:.0f} Gflop/s"
        reached = self.time == self.arithmetic.bound
        at = f"at {rate}, which the result reaches," if reached else f"at its measured peak of {rate}"
        return f"{said}{scope}; {at} this machine needs at least {least} for the products of any of these graphs{end}"

    def frame(self) -> pd.DataFrame:
        """Return the operators, one row each: graph, operator, FLOP, bytes, least and priced microseconds."""
        import pandas as pd

        rows = pd.DataFrame(self.points, columns=["graph", "operator", "flop", "bytes", "cost"])
        least = np.maximum(rows["flop"] / self.peak.flops, rows["bytes"] / self.peak.cache_bandwidth)
        return rows.assign(least=1e6 * least)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        figures = {"sentence": str(self), "cost": self.cost, "time": self.time}
        parts = ("peak", "prices", "arithmetic", "roofline")
        return figures | {name: asdict(getattr(self, name)) for name in parts}


def floors(result: Optimized, *, seconds: float = 4.0, threads: int = 1) -> Floors:
    """Return how far a result is from the least that its e-graph and this machine allow.

    The machine's peak is measured once (:func:`peak`); a result that is faster than that allows raises it. Both floors
    of the machine are the proven bounds of extractions that take at most ``seconds`` together; if the time is too
    short they are lower than the least cost, never higher. ``threads`` is the number of threads whose peak counts.
    """
    found, egraph, solution = peak(threads), result.egraph, result.solution
    own = Floor(result.cost_source, solution.cost, min(solution.bound, result.cost_after), solution.scope)
    measured, time = result.measured, None
    if measured is not None and measured.decided and not measured.failure and not measured.places:
        time = measured.original.median
        if measured.winner is not None and measured.winner not in measured.alike:
            time = measured.candidates[measured.winner].median
    arithmetic = _floor(egraph, ArithmeticCost(found), seconds / 2)
    if time and time < arithmetic.bound:  # the machine is faster now than when its peak was measured
        found = replace(found, flops=found.flops * arithmetic.bound / time)
        arithmetic = replace(arithmetic, cost=arithmetic.cost * time / arithmetic.bound, bound=time)
    taken = egraph.original if result.graph is result.original else solution.choice
    return Floors(
        result.cost_after,
        own,
        found,
        arithmetic,
        _floor(egraph, AnalyticCost(found.device()), seconds / 2),
        time or None,  # nothing is timed if the runtime makes the same kernels of both
        (*_points("before", result, egraph.original), *_points("after", result, taken)),
    )


def _floor(egraph: EGraph, model: CostModel, seconds: float) -> Floor:
    from workbench.extraction import extract

    found = extract(egraph, price_egraph(egraph, model), seconds=seconds)
    return Floor(model.source, found.cost, found.bound, found.scope)


def _points(
    graph: str, result: Optimized, nodes: np.ndarray
) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield the operators that run among e-nodes, with FLOP, bytes and price."""
    chosen = sorted({int(i) for i in nodes if i >= 0})
    for i, instance in egraph_instances_by_node(result.egraph, chosen).items():
        done = work(instance)
        if not done.free:
            yield graph, instance.op, done.flops, done.bytes, float(result.costs[i])
