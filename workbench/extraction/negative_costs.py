"""Negative costs: subtracted if every selection has them, otherwise left to a method that takes them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import Problem, Terms, check_costs, whole_table
from workbench.extraction.reduce.dominators import must_sets


@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """Shifted costs: the cost of every selection by them, plus ``offset``, is its true cost.

    ``core`` is None if no cost is negative any more. Otherwise it returns the problem with all its choices,
    as an e-class with a term that costs nothing need not take it. No selection costs less than nothing in it.
    ``terms`` are then the least tree terms of the e-nodes without their gains.
    """

    costs: np.ndarray
    offset: float = 0.0
    core: Callable[[], Problem] | None = None
    terms: Terms | None = None


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
    terms = Terms.of(egraph, raised, until)
    finite = np.isfinite(np.asarray(terms.best))
    usable = np.flatnonzero(whole_table(egraph, raised).all_children(finite) & np.isfinite(raised))
    result = raised.copy()  # e-nodes that no selection can take gain nothing
    result[usable] = values[usable]
    cheapest = np.full(egraph.n_classes, math.inf)
    np.minimum.at(cheapest, egraph.eclass[usable], result[usable])
    needed = set(egraph.roots)
    problem: Problem | None = None
    if time.perf_counter() <= until:
        problem = terms.problem(fix_free=False)
        must = must_sets(problem, until)
        needed |= set() if must is None else must.needed()
    always = np.zeros(egraph.n_classes)
    inner = sorted(needed)
    always[inner] = np.minimum(cheapest[inner], 0.0)
    result[usable] -= always[egraph.eclass[usable]]
    cheapest -= always
    gains = -np.minimum(cheapest, 0.0)
    if problem is not None:
        # E-classes that the roots do not reach gain nothing either.
        inside = np.zeros(egraph.n_classes, dtype=bool)
        inside[problem.eclass] = True
        gains[~inside] = 0.0
    if not gains.any():
        return Signed(np.maximum(result, 0.0), math.fsum(always.tolist()))
    total = math.fsum(gains.tolist())
    result[usable[egraph.eclass[usable] == egraph.roots[0]]] += total

    def core() -> Problem:
        whole = terms.problem(fix_free=False) if problem is None else problem
        return replace(whole, cost=result[np.array(whole.nodes, dtype=np.int64)].tolist())

    return Signed(result, math.fsum(always.tolist()) - total, core, replace(terms, costs=result))
