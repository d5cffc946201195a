"""Saturate and extract in turn: what an extraction takes says which operators to merge once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.costs import CostModel, node_costs, price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import deciding_instances
from workbench.extraction import EGraph, Solution
from workbench.graph import Graph
from workbench.stages import Clock, Progress
from workbench.trace import StopReason

if TYPE_CHECKING:
    from workbench.saturation import Saturation

#: Times that what was extracted is merged once more, and extracted again.
ROUNDS = 3

#: An extraction has at least so many seconds, when others have used up theirs.
_LEAST = 0.1


#: Seconds that one of several extractions by measured costs has where nobody says how many: they are
#: repeated as more is measured, and a proof by figures that scatter is worth no more.
HURRY = 1.5


def hurried(cheapest: Callable[..., Solution]) -> Callable[..., Solution]:
    """Return an extraction that has at most :data:`HURRY` seconds."""

    def quick(egraph: EGraph, costs: np.ndarray, *, seconds: float) -> Solution:
        return cheapest(egraph, costs, seconds=min(seconds, HURRY))

    return quick


@dataclass(frozen=True, slots=True)
class Extracted:
    """Hold an extraction with the e-graph and the costs it was made of."""

    egraph: EGraph
    costs: np.ndarray
    before: float
    solution: Solution


def explore(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seconds: float,
    clock: Clock,
    tell: Progress,
) -> tuple[Extracted, StopReason]:
    """Run a saturation, extract the cheapest term, merge among what it takes, and so on while that helps.

    ``cheapest(egraph, costs, seconds=…)`` extracts; all extractions together take ``seconds``. Return the
    best extraction and why the saturation ended. Ctrl-C ends what runs and goes on with what is there.
    """
    from workbench.extraction.exact import begin_loading

    begin_loading()
    saturation.start_engine()
    stop = saturation.run(lambda step: tell("saturation", step))
    began = clock.seconds.get("extraction", 0.0)
    if not isinstance(getattr(cost_model, "inner", cost_model), AnalyticCost):
        # What a roofline would take is merged once more, too: it costs nothing to price, and what an
        # extraction by other costs leaves out is not found from there.
        like = getattr(cost_model, "with_model", lambda model: model)
        _merging(saturation, like(AnalyticCost()), cheapest, seconds / 4, clock, tell)
    spent = clock.seconds.get("extraction", 0.0) - began
    best = _merging(saturation, cost_model, cheapest, seconds - spent, clock, tell)
    return best, saturation.stop_reason or stop


def _merging(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seconds: float,
    clock: Clock,
    tell: Progress,
) -> Extracted:
    """Extract and merge among what is extracted in turn; return the best extraction."""
    from workbench.extraction.exact import load_solver

    began = clock.seconds.get("extraction", 0.0)

    def left() -> float:
        return seconds - (clock.seconds.get("extraction", 0.0) - began)

    best: Extracted | None = None
    for _ in range(1 + ROUNDS):
        with clock("snapshot"):
            egraph = saturation.egraph()
        with clock("engine"):
            load_solver()
        found = _extracted(saturation.graph, egraph, cost_model, cheapest, left, clock, tell)
        if best is not None and found.solution.cost >= best.solution.cost * (1 - 1e-9):
            break
        best = found
        tell("saturation", None)
        taken = np.flatnonzero(best.solution.choice >= 0).tolist()
        if left() <= 0 or not saturation.merge_among(taken, lambda step: tell("saturation", step)):
            break
    assert best is not None
    return best


def _extracted(
    graph: Graph,
    egraph: EGraph,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    left: Callable[[], float],
    clock: Clock,
    tell: Progress,
) -> Extracted:
    """Price an e-graph and extract the cheapest term in the seconds that are ``left``.

    A measured model estimates what it has not run. Where the solution and the graph differ, the operators
    are then measured, and the extraction is repeated with that.
    """
    measure, settle = getattr(cost_model, "measure", None), getattr(cost_model, "settle", None)
    for _ in range(9):
        tell("pricing", None)
        with clock("pricing"):
            costs = price_egraph(egraph, cost_model)
            if settle is not None:
                costs = settle(egraph, costs)
            before = float(node_costs(graph, cost_model).sum())
        tell("extraction", None)
        with clock("extraction"):
            solution = cheapest(egraph, costs, seconds=max(_LEAST, left()))
        with clock("pricing"):
            if measure is None or not measure(deciding_instances(graph, egraph, solution.choice)):
                break
    return Extracted(egraph, costs, before, solution)
