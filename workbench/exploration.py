"""Saturate and extract in turn: what an extraction takes says which operators to merge once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.costs import CostModel, chosen_instances, node_costs, price_egraph
from workbench.extraction import EGraph, Solution
from workbench.graph import Graph
from workbench.stages import Clock, Progress
from workbench.trace import Step, StopReason

if TYPE_CHECKING:
    from workbench.saturation import Saturation

#: Times that what was extracted is merged once more, and extracted again.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Extracted:
    """Hold an extraction with the e-graph and the costs it was made of."""

    egraph: EGraph
    costs: np.ndarray
    before: float
    solution: Solution


def extracted(
    graph: Graph,
    egraph: EGraph,
    cost_model: CostModel,
    cheapest: Callable[[EGraph, np.ndarray], Solution],
    clock: Clock,
    tell: Progress,
) -> Extracted:
    """Price an e-graph and extract the cheapest term.

    A measured model estimates what it had no time for; what the solution uses is then measured, and the
    extraction repeated with that.
    """
    measure = getattr(cost_model, "measure", None)
    for _ in range(9):
        tell("pricing", None)
        with clock("pricing"):
            costs = price_egraph(egraph, cost_model)
            before = float(node_costs(graph, cost_model).sum())
        tell("extraction", None)
        with clock("extraction"):
            solution = cheapest(egraph, costs)
        with clock("pricing"):
            if measure is None or not measure(chosen_instances(egraph, solution.choice)):
                break
    return Extracted(egraph, costs, before, solution)


def explore(
    saturation: Saturation,
    cost_model: CostModel,
    cheapest: Callable[[EGraph, np.ndarray], Solution],
    clock: Clock,
    tell: Callable[[str, Any], None],
) -> tuple[Extracted, StopReason]:
    """Run a saturation, extract the cheapest term, merge among what it takes, and so on while that helps.

    Return the best extraction and why the saturation ended. Ctrl-C ends what runs and goes on with what is
    there.
    """
    from workbench.extraction.exact import load_solver

    def stepped(step: Step) -> None:
        tell("saturation", step)

    saturation.start_engine()
    stop = saturation.run(stepped)
    best: Extracted | None = None
    for _ in range(1 + ROUNDS):
        with clock("snapshot"):
            egraph = saturation.egraph()
        with clock("engine"):
            load_solver()
        found = extracted(saturation.graph, egraph, cost_model, cheapest, clock, tell)
        if best is not None and found.solution.cost >= best.solution.cost * (1 - 1e-9):
            break
        best = found
        tell("saturation", None)
        if not saturation.merge_among(np.flatnonzero(best.solution.choice >= 0).tolist(), stepped):
            break
        stop = saturation.stop_reason or stop
    assert best is not None
    return best, stop
