"""What else an extraction could be: the k best distinct ones, and what an e-class costs otherwise."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.extraction.egraph import EGraph
from workbench.extraction.exact import solve_whole
from workbench.extraction.extract import extract
from workbench.extraction.greedy import greedy_dag
from workbench.extraction.loops import unfounded
from workbench.extraction.must import must_sets
from workbench.extraction.presolve import drop_circular, drop_expensive, drop_useless, presolve, pull_up
from workbench.extraction.problem import (
    Problem,
    check_costs,
    complete,
    dag_cost,
    is_acyclic,
    make_problem,
    tree_costs,
)
from workbench.extraction.solution import Solution, Status
from workbench.extraction.solving import selection_cost

#: Solutions of at most so many times the least cost are looked at first; all of them at last.
REACH: Final = (1.02, 1.2, math.inf)

#: Reductions that keep every solution up to the cost given, not only one of the best.
_KEEPING: Final = (drop_useless, pull_up, drop_circular, drop_expensive)


def k_best(egraph: EGraph, costs: np.ndarray, k: int, *, seconds: float = 60.0) -> list[Solution]:
    """Return the ``k`` cheapest distinct extractions, cheapest first, fewer where there are no more.

    Two are distinct when they take different e-nodes in an e-class that costs something; choices
    between terms that cost nothing are not told apart. Each is found by forbidding those before it;
    ``seconds`` bound the whole. A solution that is not ``OPTIMAL`` may have been undercut by one that
    was not found.
    """
    if k < 1:
        raise ValueError(f"k is at least 1, not {k}")
    values = check_costs(egraph, costs)
    until = time.perf_counter() + seconds
    best, choice = tree_costs(egraph, values)
    problem = make_problem(egraph, values, best, choice)
    first = extract(egraph, costs, seconds=seconds)
    found = [first]
    for reach in REACH if problem.roots else ():
        most = first.cost * reach
        reduced, _ = presolve(problem, most, until=until, reductions=_KEEPING)
        found = _next_best(egraph, values, reduced, first, k, until)
        if (len(found) == k and found[-1].cost <= most) or time.perf_counter() > until:
            break
    return found


def _next_best(
    egraph: EGraph, costs: np.ndarray, problem: Problem, first: Solution, k: int, until: float
) -> list[Solution]:
    """Return the best selections of a problem one after another, ``first`` among them."""
    must = must_sets(problem, until)
    place = {node: i for i, node in enumerate(problem.nodes)}
    picked = {c: place[i] for c in problem.members() if (i := int(first.choice[c])) in place}
    rest = {c: place[i] for c, i in greedy_dag(problem, until).items()}
    found = [first]
    forbidden = [_taken(problem.roots, problem.children, picked)]
    while len(found) < k and time.perf_counter() < until:
        start = _neighbour(problem, picked, rest, forbidden, until)
        solved = solve_whole(problem, must, until - time.perf_counter(), tuple(forbidden), start)
        if solved.picked is None:
            break
        selection = complete(egraph, problem, {c: problem.nodes[i] for c, i in solved.picked.items()})
        assert is_acyclic(egraph, selection)
        cost = dag_cost(selection, costs)
        status = Status.OPTIMAL if solved.proved else Status.FEASIBLE
        bound = cost if solved.proved else min(cost, max(solved.bound, found[-1].bound))
        found.append(Solution(selection, cost, bound, status, "exact", notes=solved.notes))
        picked = solved.picked
        forbidden.append(_taken(problem.roots, problem.children, picked))
    return found


def _neighbour(
    problem: Problem,
    picked: dict[int, int],
    rest: dict[int, int],
    forbidden: Sequence[tuple[int, ...]],
    until: float,
) -> dict[int, int] | None:
    """Return the cheapest selection that differs from another in one e-class, to begin with.

    ``rest`` has a candidate for the e-classes that the other does not build.
    """
    members = problem.members()
    known = set(forbidden)
    best, least = None, math.inf
    taken = set(_taken(problem.roots, problem.children, picked))
    for c in [c for c, i in picked.items() if i in taken]:
        if time.perf_counter() > until:
            break
        for i in members[c]:
            swapped = rest | picked | {c: i}
            if i == picked[c] or selection_cost(problem, swapped) >= least or unfounded(problem, swapped):
                continue
            if _taken(problem.roots, problem.children, swapped) not in known:
                best, least = swapped, selection_cost(problem, swapped)
    return best


def _taken(
    roots: tuple[int, ...], children: list[tuple[int, ...]], picked: dict[int, int]
) -> tuple[int, ...]:
    """Return the candidates of a selection below the roots."""
    seen: dict[int, int] = {}
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c not in seen:
            seen[c] = picked[c]
            stack += children[picked[c]]
    return tuple(sorted(seen.values()))


@dataclass(frozen=True, slots=True)
class Alternative:
    """Hold what the whole extraction costs when an e-class takes one of its e-nodes.

    ``cost`` is the best found, ``bound`` what it costs at least, both infinite where no acyclic
    selection takes the e-node; ``more`` is the difference from the best extraction, ``taken`` says
    that this is the e-node which that one takes.
    """

    node: int
    op: str
    cost: float
    bound: float
    more: float
    taken: bool


def alternatives(
    egraph: EGraph,
    costs: np.ndarray,
    eclass: int,
    *,
    best: Solution | None = None,
    method: str = "exact",
    seconds: float = 10.0,
) -> list[Alternative]:
    """Return what the extraction would cost with each e-node of an e-class, cheapest first.

    The e-class is built in all of them, whether the best extraction needs it or not. ``seconds`` bound
    the whole. Raise IndexError where there is no such e-class.
    """
    if not 0 <= eclass < egraph.n_classes:
        raise IndexError(f"e-classes are numbered 0 to {egraph.n_classes - 1}, not {eclass}")
    values = check_costs(egraph, costs)
    known = best if best is not None else extract(egraph, values, method, seconds=seconds)
    members = np.flatnonzero(egraph.eclass == eclass).tolist()
    wider = replace(egraph, roots=tuple(dict.fromkeys((*egraph.roots, eclass))))
    found = []
    for node in members:
        only = values.copy()
        only[[m for m in members if m != node]] = math.inf
        cost = bound = math.inf
        tree, _ = tree_costs(wider, only)
        if all(math.isfinite(tree[r]) for r in wider.roots):
            solution = extract(wider, only, method, seconds=seconds / len(members))
            cost, bound = solution.cost, solution.bound
        taken = int(known.choice[eclass]) == node
        found.append(Alternative(node, egraph.ops[node], cost, bound, cost - known.cost, taken))
    return sorted(found, key=lambda a: (a.cost, a.node))
