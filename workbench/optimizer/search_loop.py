"""Alternate saturation and extraction: the operators of an extraction are merged once more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.costs import CostModel, node_costs, price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import deciding_instances
from workbench.egraph import EGraph
from workbench.extraction import Solution
from workbench.extraction.exact.types import Effort
from workbench.extraction.tie_breaking import gathered
from workbench.run.progress import Stages
from workbench.run.trace import StepKind, StopReason, Trace

if TYPE_CHECKING:
    from workbench.optimizer.job import Job
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


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A saturation that ended, with the best extraction from its e-graph.

    ``costs`` are those of the e-graph's e-nodes, ``before`` is the cost of the original, in microseconds.
    ``e_nodes`` and ``e_classes`` count those of the engine.
    """

    egraph: EGraph
    costs: np.ndarray
    before: float
    solution: Solution
    trace: Trace
    stop: StopReason | None
    e_nodes: int
    e_classes: int

    @property
    def gains(self) -> bool:
        """Return whether the extraction is cheaper than the original."""
        return self.solution.cost < self.before * (1 - 1e-9)


def saturate(job: Job) -> Run:
    """Saturate, price and extract in turn, as :func:`explore`."""
    from workbench.extraction.exact.solve import begin_loading
    from workbench.saturation import Saturation

    settings, stages = job.settings, job.stages
    background = [begin_loading] if job.early is None else [job.early.begin, begin_loading]
    stages.tell("saturation")
    with Saturation(
        job.model.searched,
        job.rules,
        settings.limits(),
        profile=settings.profile,
        keep=0,
        background=background,
    ) as saturation:
        run = explore(saturation, job.pricer, job.extractor(), job.extraction_seconds, stages)
        stages.add("engine", saturation.engine_seconds)
        stages.add("saturation", saturation.seconds)
    return run


def explore(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    seconds: float,
    stages: Stages,
) -> Run:
    """Run a saturation, then extract the cheapest term and merge its operators as long as that helps.

    Ctrl-C ends the running step; the result so far is kept.

    Args:
        saturation: The saturation to run.
        cost_model: The source of costs.
        cheapest: The extraction, called as ``cheapest(egraph, costs, seconds=…)``.
        seconds: The time limit of all extractions together.
        stages: Reports and times the stages.
    """
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
    return replace(
        best,
        stop=saturation.stop_reason or stop,
        e_nodes=saturation.e_nodes,
        e_classes=saturation.e_classes,
    )


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
) -> Run:
    """Extract and merge the extracted operators in turn; return the best extraction."""
    from workbench.extraction.exact.solve import load_solver

    began = stages.seconds.get("extraction", 0.0)

    def left() -> float:
        return seconds - (stages.seconds.get("extraction", 0.0) - began)

    best: Run | None = None
    for _ in range(1 + ROUNDS):
        with stages("snapshot", quiet=True):
            egraph = saturation.egraph()
        with stages("engine", quiet=True):
            load_solver()
        found = _extracted(saturation, egraph, cost_model, cheapest, left, stages)
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
    saturation: Saturation,
    egraph: EGraph,
    cost_model: CostModel,
    cheapest: Callable[..., Solution],
    left: Callable[[], float],
    stages: Stages,
) -> Run:
    """Price an e-graph and extract the cheapest term in the seconds that are ``left``.

    A measured model estimates operators that it has not run. If solution and graph differ in such operators,
    they are measured, and the extraction is repeated.
    """
    graph = saturation.graph
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
    return Run(
        egraph,
        costs,
        before,
        solution,
        saturation.trace,
        saturation.stop_reason,
        saturation.e_nodes,
        saturation.e_classes,
    )
