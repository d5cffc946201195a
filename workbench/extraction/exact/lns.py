"""Large-neighbourhood search: solve one neighbourhood of the best selection after another.

Local search changes a few choices at a time. A solver decides hundreds at once, also on cycles. The size of a
neighbourhood follows from the proofs that the solver finishes in a short time.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Final

from workbench.extraction.exact.cycle_constraints import unfounded
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.neighbourhood import Surroundings, freed
from workbench.extraction.exact.types import Hear, Solved, Tell, selection_cost
from workbench.extraction.greedy.dag import TOLERANCE, settle
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.reduce.presolve import presolve

#: Candidates of the first neighbourhood, and their least and largest number.
START_SIZE: Final = 120
MIN_SIZE: Final = 30
MAX_SIZE: Final = 4_000
#: Seconds for one neighbourhood. The size shrinks by the first factor if they do not suffice; otherwise it grows.
NEIGHBOURHOOD_SECONDS: Final = 0.5
SHRINK_FACTOR: Final = 0.85
GROWTH_FACTOR: Final = 1.05
#: Share of these seconds that the solver may take for the size to grow.
GROWTH_TIME_SHARE: Final = 0.3
#: Every second neighbourhood is solved with costs changed by this share, so that equal selections take turns.
COST_NOISE: Final = 1e-3


def solve_lns(
    problem: Problem,
    start: Mapping[int, int],
    seconds: float,
    *,
    tell: Tell = lambda picked, bound, cuts: None,
    hear: Hear = lambda: None,
    turns: int | None = None,
    seed: int = 0,
) -> Solved:
    """Improve an acyclic selection, neighbourhood by neighbourhood, until time is up.

    Args:
        problem: The problem.
        start: An acyclic selection (e-class → candidate).
        seconds: Time limit.
        tell: Callback for better selections.
        hear: Callback that returns better selections of other solvers.
        turns: Number of neighbourhoods, or None for no limit but time.
        seed: Seed of the random choices.

    Returns:
        The best selection. It is proved if a neighbourhood was the whole problem and was solved.
    """
    until = time.perf_counter() + seconds
    rng = random.Random(seed)
    surroundings = Surroundings.of(problem)
    component = components(problem)
    choices = {c for c, m in enumerate(surroundings.members) if len(m) > 1}
    picked, cost = dict(start), selection_cost(problem, start)
    others: list[int] = []
    size = float(START_SIZE)
    turn = 0
    while turns is None or turn < turns:
        if time.perf_counter() > until:
            break
        turn += 1
        heard = hear()
        if heard is not None and selection_cost(problem, heard) < cost:
            picked, cost, others = dict(heard), selection_cost(problem, heard), []
        if not others:
            picked = _needed(problem, picked)
            others = _others(problem, picked)
        built = [c for c in picked if c in choices]
        if not built:
            return Solved(picked, 0.0, proved=False)
        free = surroundings.draw(built, int(size), rng)
        small = freed(problem, picked, others, free, component)
        whole = free >= choices
        if turn % 2 == 0 and not whole:
            small = replace(small, cost=[c * (1 + COST_NOISE * rng.random()) for c in small.cost])
        began = time.perf_counter()
        found, proved = _solved(problem, small, picked, min(until, began + NEIGHBOURHOOD_SECONDS))
        spent = time.perf_counter() - began
        if found is not None:
            better = picked | found
            price = selection_cost(problem, better)
            if price <= cost * (1 + TOLERANCE) and not unfounded(problem, better):
                if price < cost * (1 - TOLERANCE):
                    cost, others = price, []
                    tell(_needed(problem, better), 0.0, 0)
                picked = _needed(problem, better)
        if proved and whole:
            return Solved(_needed(problem, picked), cost, proved=True)
        if not proved:
            size = max(MIN_SIZE, size * SHRINK_FACTOR)
        elif spent < GROWTH_TIME_SHARE * NEIGHBOURHOOD_SECONDS:
            size = min(MAX_SIZE, size * GROWTH_FACTOR)
    return Solved(_needed(problem, picked), 0.0, proved=False)


def _solved(
    problem: Problem, small: Problem, picked: Mapping[int, int], until: float
) -> tuple[dict[int, int] | None, bool]:
    """Return a better selection of a neighbourhood, or None, and whether that is proved to be the best.

    Both selections map e-classes of the whole problem to its candidates.
    """
    kept = set(picked.values())
    start = _within(small, kept)
    cost = selection_cost(small, start)
    if cost == math.inf or not small.roots:
        return None, False
    reduced, _ = presolve(small, cost, until=until)
    chosen = list(reduced.fixed.values())
    if reduced.roots:
        seconds = until - time.perf_counter()
        if seconds <= 0:
            return None, False
        begin = _within(reduced, kept)
        known = selection_cost(reduced, begin) < math.inf and not unfounded(reduced, begin)
        found = solve_highs(reduced, must_sets(reduced, until), begin if known else None, seconds)
        if found.picked is None:
            return None, found.proved
        chosen += [reduced.nodes[k] for k in found.picked.values()]
        proved = found.proved
    else:
        proved = True
    return {problem.eclass[i]: i for i in chosen}, proved


def _within(small: Problem, kept: Set[int]) -> dict[int, int]:
    """Return the candidates of a problem that a selection takes, by e-class."""
    return {c: k for k, (c, i) in enumerate(zip(small.eclass, small.nodes, strict=True)) if i in kept}


def _needed(problem: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return the part of a selection that the roots need."""
    needed: dict[int, int] = {}
    stack = list(problem.roots)
    while stack:
        c = stack.pop()
        if c not in needed:
            needed[c] = picked[c]
            stack += problem.children[picked[c]]
    return needed


def _others(problem: Problem, picked: Mapping[int, int]) -> list[int]:
    """Return for every e-class the candidate that adds the least to a selection, -1 if there is none."""
    price = list(problem.cost)
    for i in picked.values():
        price[i] = 0.0
    return list(settle(problem, price).choice)
