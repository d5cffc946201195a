"""How far a result is from its limits: the least cost in the e-graph, by its prices and by the machine's own peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.costs.analytic import AnalyticCost, work
from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import egraph_instances_by_node, price_egraph
from workbench.ops import TensorType, Trait, spec_of
from workbench.support.formatting import microseconds

if TYPE_CHECKING:
    import pandas as pd

    from workbench.egraph import EGraph
    from workbench.optimizer.result import Optimized
    from workbench.studies.devices.peak import Peak

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

    @property
    def device(self) -> str:
        """Return the name of the machine."""
        return self.peak.machine

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
    """The least cost of any graph of an e-graph by a cost model, in microseconds.

    No graph in the ``scope`` costs less than ``bound``; ``cost`` is that of the cheapest graph found.
    """

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
        least = microseconds(self.arithmetic.bound)
        end = f", and the result runs in {microseconds(self.time)}" if self.time else ""
        if not self.peak.quiet:
            end += (
                f" (the peak was measured at a load of {self.peak.load:.1f}: a quiet machine may need less)"
            )
        return (
            f"{said}{scope}; at its measured peak of {self.peak.flops / 1e9:.0f} Gflop/s this machine needs at least "
            f"{least} for the products of any of these graphs{end}"
        )

    def frame(self) -> pd.DataFrame:
        """Return the operators, one row each: graph, operator, FLOP, bytes, least and priced microseconds."""
        import pandas as pd

        rows = pd.DataFrame(self.points, columns=["graph", "operator", "flop", "bytes", "cost"])
        least = np.maximum(rows["flop"] / self.peak.flops, rows["bytes"] / self.peak.cache_bandwidth)
        return rows.assign(least=1e6 * least)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "sentence": str(self),
            "cost": self.cost,
            "time": self.time,
            "peak": self.peak.summary(),
            "prices": asdict(self.prices),
            "arithmetic": asdict(self.arithmetic),
            "roofline": asdict(self.roofline),
        }


def floors(result: Optimized, *, seconds: float = 4.0, threads: int = 1) -> Floors:
    """Return how far a result is from the least that its e-graph and this machine allow.

    The machine's peak is measured once (:func:`workbench.studies.devices.peak.peak`). Both floors of the machine
    are the proven bounds of extractions that take at most ``seconds`` together; if the time is too short they are
    lower than the least cost, never higher.

    Args:
        result: The result of :func:`workbench.optimize`.
        seconds: Limit on the two extractions.
        threads: The number of threads whose peak counts.
    """
    from workbench.studies.devices.peak import peak

    found, egraph, solution = peak(threads), result.egraph, result.solution
    own = Floor(result.cost_source, solution.cost, min(solution.bound, result.cost_after), solution.scope)
    measured, time = result.measured, None
    if measured is not None and measured.decided and not measured.failure and not measured.places:
        time = measured.original.median
        if measured.winner is not None and measured.winner not in measured.alike:
            time = measured.candidates[measured.winner].median
    taken = egraph.original if result.graph is result.original else solution.choice
    return Floors(
        result.cost_after,
        own,
        found,
        _floor(egraph, ArithmeticCost(found), seconds / 2),
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
