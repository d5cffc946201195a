"""Alternatives to an extraction: the k best distinct ones, and the cost of each choice in an e-class."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.solve import solve_whole
from workbench.extraction.exact.types import Job
from workbench.extraction.extract import extract
from workbench.extraction.greedy.dag import greedy
from workbench.extraction.problem import Problem, Terms, check_costs, dag_cost, tree_costs
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.reduce.presolve import (
    drop_circular,
    drop_expensive,
    drop_useless,
    presolve,
    pull_up,
)
from workbench.extraction.result import Solution, Status

#: Solutions within these multiples of the least cost are searched first; the last multiple admits all.
REACH: Final = (1.02, 1.2, math.inf)

#: Reductions that keep every solution up to the given cost, not only one of the best.
_KEEPING: Final = (drop_useless, pull_up, drop_circular, drop_expensive)
#: Those of them that do not merge e-nodes, so that a distance counts e-nodes of the e-graph.
_COUNTING: Final = (drop_useless, drop_circular, drop_expensive)


def k_best(
    egraph: EGraph,
    costs: np.ndarray,
    k: int,
    *,
    seconds: float = 60.0,
    first: Solution | None = None,
    distance: int = 1,
) -> list[Solution]:
    """Return the ``k`` cheapest distinct extractions, cheapest first, or all of them if there are fewer.

    Two extractions are distinct when they choose different e-nodes in an e-class that costs something;
    choices between terms that cost nothing are not distinguished. Each extraction is found by forbidding
    all earlier ones. If a solution is not ``OPTIMAL``, a cheaper one may have been missed. Raise ValueError if
    ``k`` or ``distance`` is less than 1.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more.
        k: Number of extractions, at least 1.
        seconds: Time limit for all of them together.
        first: The best extraction, if it is already known.
        distance: The number of e-nodes of every earlier extraction that a later one must not contain, at
            least 1. With more than 1 the extractions are diverse: each is the cheapest that is so far from
            all earlier ones.
    """
    for name, count in (("k", k), ("the distance", distance)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    values = check_costs(egraph, costs)
    until = time.perf_counter() + seconds
    terms = Terms.of(egraph, values)
    known = extract(egraph, costs, seconds=seconds) if first is None else first
    found = [known]
    reductions = _KEEPING if distance == 1 else _COUNTING
    for fix_free in (True, False):
        problem = terms.problem() if fix_free else _one_free_term(terms)
        for reach in REACH if problem.roots else ():
            most = known.cost * reach if reach < math.inf else math.inf
            reduced, _ = presolve(problem, most, until=until, reductions=reductions)
            found = _next_best(values, reduced, known, k, until, distance)
            if (len(found) == k and found[-1].cost <= most) or time.perf_counter() > until:
                break
        if len(found) == k or time.perf_counter() > until:
            break
    return sorted(found, key=lambda s: s.cost)


def _one_free_term(terms: Terms) -> Problem:
    """Return a problem with the chosen free term of each e-class and all terms that may cost something.

    The free terms of an e-class from which such a term can be reached all stay: they break different cycles.
    """
    problem = terms.problem(fix_free=False)
    above = problem.above(i for i, cost in enumerate(problem.cost) if cost > 0.0)
    paying = {problem.eclass[i] for i in above}
    alive = [
        node == terms.choice[c] or terms.best[c] > 0.0 or c in paying
        for node, c in zip(problem.nodes, problem.eclass, strict=True)
    ]
    return problem.keep(alive)


def _next_best(
    costs: np.ndarray, problem: Problem, first: Solution, k: int, until: float, distance: int
) -> list[Solution]:
    """Return up to ``k`` cheapest selections of a problem in order of cost, starting with ``first``."""
    must = must_sets(problem, until)
    place = {node: i for i, node in enumerate(problem.nodes)}
    picked = {c: place[i] for c in problem.members() if (i := int(first.choice[c])) in place}
    rest = {c: place[i] for c, i in greedy(problem, until).items()}
    if problem.cost_of(picked) == math.inf:
        picked = rest  # the first takes another free term
    found = [first]
    forbidden = [_used(problem, picked)]
    known = {_paid(problem, forbidden[0])}
    while len(found) < k and time.perf_counter() < until:
        start = _neighbour(problem, picked, rest, forbidden, until) if distance == 1 else None
        left = until - time.perf_counter()
        solved = solve_whole(Job(problem, must, start, left, tuple(forbidden), distance))
        if solved.picked is None:
            break
        picked = solved.picked
        forbidden.append(_used(problem, picked))
        if (paid := _paid(problem, forbidden[-1])) in known:
            continue  # it differs in free terms only
        known.add(paid)
        selection = problem.selection(problem.taken(picked))
        cost = dag_cost(selection, costs)
        status = Status.OPTIMAL if solved.proved else Status.FEASIBLE
        bound = cost if solved.proved else min(cost, max(solved.bound, found[-1].bound))
        found.append(Solution(selection, cost, bound, status, "exact", endings=solved.endings))
    return found


def _used(problem: Problem, picked: Mapping[int, int]) -> tuple[int, ...]:
    """Return the candidates that a selection uses below the roots, sorted."""
    return tuple(sorted(problem.needed(picked).values()))


def _paid(problem: Problem, taken: Sequence[int]) -> frozenset[int]:
    """Return those candidates of a selection whose terms cost something."""
    return frozenset(problem.above((i for i in taken if problem.cost[i] > 0.0), set(taken)))


def _neighbour(
    problem: Problem,
    picked: dict[int, int],
    rest: dict[int, int],
    forbidden: Sequence[tuple[int, ...]],
    until: float,
) -> dict[int, int] | None:
    """Return a start for the solver: the cheapest selection that differs from ``picked`` in one e-class.

    ``rest`` supplies a candidate for every e-class that ``picked`` does not build. Selections in
    ``forbidden`` and cyclic ones are skipped; the result is None if nothing is left.
    """
    members, known, used = problem.members(), set(forbidden), problem.needed(picked)
    best, least = None, math.inf
    for c in [c for c in picked if c in used]:
        if time.perf_counter() > until:
            break
        for i in members[c]:
            swapped = rest | picked | {c: i}
            if i == picked[c] or problem.cost_of(swapped) >= least or problem.loops(swapped):
                continue
            if _used(problem, swapped) not in known:
                best, least = swapped, problem.cost_of(swapped)
    return best


@dataclass(frozen=True, slots=True)
class Alternative:
    """The cost of the whole extraction if an e-class takes one particular e-node.

    ``cost`` is the best cost found and ``bound`` a lower bound on it; both are infinite if no acyclic
    selection takes the e-node. ``more`` is the extra cost over the best extraction. ``taken`` is
    whether the best extraction uses this e-node.
    """

    node: int
    op: str
    cost: float
    bound: float
    more: float
    taken: bool


def alternatives(
    egraph: EGraph, costs: np.ndarray, eclass: int, *, best: Solution | None = None, seconds: float = 10.0
) -> list[Alternative]:
    """Return the cost of the extraction with each e-node of an e-class, cheapest first.

    Every alternative builds the e-class, even if the best extraction does not. Raise IndexError if there is none.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more.
        eclass: The number of the e-class.
        best: The best extraction, if it is already known.
        seconds: Time limit for all alternatives together.
    """
    if not 0 <= eclass < egraph.n_classes:
        raise IndexError(f"the e-class must be a number from 0 to {egraph.n_classes - 1}, got {eclass}")
    values = check_costs(egraph, costs)
    known = best if best is not None else extract(egraph, values, seconds=seconds)
    members = np.flatnonzero(egraph.eclass == eclass).tolist()
    wider = replace(egraph, roots=tuple(dict.fromkeys((*egraph.roots, eclass))))
    found = []
    for node in members:
        taken = int(known.choice[eclass]) == node  # the best extraction builds the e-class with this e-node
        cost, bound = (known.cost, known.bound) if taken else (math.inf, math.inf)
        only = values.copy()
        only[[m for m in members if m != node]] = math.inf
        tree = [] if taken else tree_costs(wider, only)[0]
        if not taken and all(math.isfinite(tree[r]) for r in wider.roots):
            solution = extract(wider, only, seconds=seconds / len(members))
            cost, bound = solution.cost, solution.bound
        found.append(Alternative(node, egraph.ops[node], cost, bound, cost - known.cost, taken))
    return sorted(found, key=lambda a: (a.cost, a.node))
