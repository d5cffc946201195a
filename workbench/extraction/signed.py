"""Negative costs: subtracted if every selection has them, otherwise left to a method that takes them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import Problem, check_costs, make_problem, tree_costs
from workbench.extraction.reduce.must import must_sets


@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """Shifted costs: the cost of every selection by them, plus ``offset``, is its true cost.

    ``core`` is None if no cost is negative any more. Otherwise it is the problem with all its choices, as an
    e-class with a term that costs nothing need not take it. No selection costs less than nothing in it.
    """

    costs: np.ndarray
    offset: float = 0.0
    core: Problem | None = None


def signed(egraph: EGraph, costs: np.ndarray, until: float = math.inf) -> Signed:
    """Return costs of which every selection costs 0 or more.

    A negative cost is a gain that an extraction makes when a root needs the e-node. Costs of an e-class that
    every selection contains are raised by a constant. If other e-classes offer a gain, all such gains
    together are added to the first root, which every selection pays once.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node; an infinite cost excludes the e-node.
        until: Deadline of ``time.perf_counter`` for the e-classes that every selection contains; after it
            only the roots count as such.

    Raises:
        NoExtraction: For costs that are not numbers, minus infinity, or a root without a finite term.
    """
    values = check_costs(egraph, costs, negative=True)
    if not (values < 0).any():
        return Signed(values)
    raised = np.maximum(values, 0.0)
    problem = make_problem(egraph, raised, *tree_costs(egraph, raised, until), fix_free=False)
    at = np.array(problem.nodes, dtype=np.int64)
    result = raised.copy()  # e-nodes that no selection can take gain nothing
    result[at] = values[at]
    members = problem.members()
    least = {c: min(float(result[problem.nodes[i]]) for i in m) for c, m in members.items()}
    must = must_sets(problem, until)
    needed = set(problem.roots) if must is None else must.needed()
    offset = []
    for c in sorted(needed):
        if least[c] < 0.0:
            offset.append(least[c])
            nodes = [problem.nodes[i] for i in members[c]]
            result[nodes] -= least[c]
    gains = [-value for c, value in least.items() if value < 0.0 and c not in needed]
    if not gains:
        return Signed(result, math.fsum(offset))
    root = problem.roots[0]
    result[[problem.nodes[i] for i in members[root]]] += math.fsum(gains)
    core = replace(problem, cost=result[at].tolist())
    return Signed(result, math.fsum(offset) - math.fsum(gains), core)
