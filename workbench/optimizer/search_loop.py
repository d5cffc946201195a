"""Alternate saturation and extraction: the operators of an extraction are merged once more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.costs import CostModel, node_costs, price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import deciding_instances
from workbench.egraph import EGraph
from workbench.extraction import Solution
from workbench.extraction.exact.types import Effort
from workbench.extraction.tie_breaking import gathered
from workbench.graph import Graph
from workbench.run.stages import Stages
from workbench.run.trace import StepKind, StopReason

if TYPE_CHECKING:
    from workbench.saturation import Saturation

#: Times that the extracted operators are merged once more, and a graph is extracted again.
ROUNDS = 3

#: Least seconds of an extraction, even if others have used up the time.
_LEAST = 0.1

#: Default effort of one of several extractions by measured costs: they are repeated as more operators are
#: measured, and figures of timings scatter by more than this gap. The limit on nodes ends a solve at the same
#: point on every machine; HURRY, in seconds, only stops solves that would take far too long.
QUICK = Effort(gap=0.005, nodes=100)
HURRY = 10.0


def hurried(cheapest: Callable[..., Solution]) -> Callable[..., Solution]:
    """Return an extraction of the effort :data:`QUICK`, which has at most :data:`HURRY` seconds."""

    def quick(egraph: EGraph, costs: np.ndarray, *, seconds: float) -> Solution:
        return cheapest(egraph, costs, seconds=min(seconds, HURRY), effort=QUICK)

    return quick


@dataclass(frozen=True, slots=True)
class Extracted:
    """An extraction with the e-graph and the costs that it was made from."""

    egraph: EGraph
    costs: np.ndarray
    before: float
    solution: Solution


def explore(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seconds: float,
    stages: Stages,
) -> tuple[Extracted, StopReason]:
    """Run a saturation, then extract the cheapest term and merge its operators as long as that helps.

    Ctrl-C ends the running step; the result so far is kept.

    Args:
        saturation: The saturation to run.
        cost_model: The source of costs.
        cheapest: The extraction, called as ``cheapest(egraph, costs, seconds=…)``.
        seconds: The time limit of all extractions together.
        stages: Reports and times the stages.

    Returns:
        The best extraction, and the reason for the end of the saturation.
    """
    from workbench.extraction.exact.solve import begin_loading

    saturation.engine.meanwhile.append(begin_loading)
    saturation.start_engine()
    stop = saturation.run(lambda step: stages.tell("saturation", step))
    began = stages.seconds.get("extraction", 0.0)
    roofline = cost_model if cost_model.analytic else cost_model.with_model(AnalyticCost())
    _merging_greedily(saturation, roofline, seconds / 4, stages)
    if not cost_model.analytic:
        # The operators that a roofline chooses are merged once more, too. Its prices cost nothing, and
        # merges of operators that other costs do not choose are not found otherwise.
        _merging(saturation, roofline, cheapest, seconds / 4, stages)
    spent = stages.seconds.get("extraction", 0.0) - began
    best = _merging(saturation, cost_model, cheapest, seconds - spent, stages)
    return best, saturation.stop_reason or stop


def _merging_greedily(saturation: Saturation, cost_model: CostModel, seconds: float, stages: Stages) -> None:
    """Merge the operators of greedy extractions in turn, as long as each is cheaper than the one before.

    An optimum is one of many terms of nearly equal cost, and a greedy one may have more operators to merge.
    """
    from workbench.extraction.extract import Extraction

    until = time.perf_counter() + seconds
    best = math.inf
    for _ in range(ROUNDS):
        left = until - time.perf_counter()
        if saturation.stop_reason is not StopReason.SATURATED or left <= 0:
            break
        with stages("snapshot", quiet=True):
            egraph = saturation.egraph()
        with stages("pricing", quiet=True):
            costs = price_egraph(egraph, cost_model)
        with stages("extraction", quiet=True):
            extraction = Extraction(egraph, costs, "dag", seconds=left)
            for step in extraction:
                if step.kind is StepKind.DAG:
                    break
            solution = extraction.solution
        if solution is None or solution.cost >= best * (1 - 1e-9):
            break
        best = solution.cost
        taken = np.flatnonzero(gathered(egraph, costs, solution.choice) >= 0).tolist()
        if not saturation.merge_among(taken):
            break


def _merging(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seconds: float,
    stages: Stages,
) -> Extracted:
    """Extract and merge the extracted operators in turn; return the best extraction."""
    from workbench.extraction.exact.solve import load_solver

    began = stages.seconds.get("extraction", 0.0)

    def left() -> float:
        return seconds - (stages.seconds.get("extraction", 0.0) - began)

    best: Extracted | None = None
    for _ in range(1 + ROUNDS):
        with stages("snapshot", quiet=True):
            egraph = saturation.egraph()
        with stages("engine", quiet=True):
            load_solver()
        found = _extracted(saturation.graph, egraph, cost_model, cheapest, left, stages)
        if best is not None and found.solution.cost >= best.solution.cost * (1 - 1e-9):
            break
        best = found
        stages.tell("saturation")
        taken = np.flatnonzero(gathered(egraph, best.costs, best.solution.choice) >= 0).tolist()
        if left() <= 0 or not saturation.merge_among(taken, lambda step: stages.tell("saturation", step)):
            break
    assert best is not None
    return best


def _extracted(
    graph: Graph,
    egraph: EGraph,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    left: Callable[[], float],
    stages: Stages,
) -> Extracted:
    """Price an e-graph and extract the cheapest term in the seconds that are ``left``.

    A measured model estimates operators that it has not run. If solution and graph differ in such operators,
    they are measured, and the extraction is repeated.
    """
    for _ in range(9):
        with stages("pricing"):
            costs = cost_model.settle(egraph, price_egraph(egraph, cost_model))
            before = float(node_costs(graph, cost_model).sum())
        with stages("extraction"):
            solution = cheapest(egraph, costs, seconds=max(_LEAST, left()))
        with stages("pricing", quiet=True):
            if not cost_model.measured:
                break
            if not cost_model.measure(deciding_instances(graph, egraph, solution.choice)):
                break
    return Extracted(egraph, costs, before, solution)
