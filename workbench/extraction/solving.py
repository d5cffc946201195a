"""What a solver is asked, what it tells while it runs, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.extraction.must import Must
from workbench.extraction.problem import Problem

#: A bound meets a cost when they differ by less than this share.
MET: Final = 1e-9

#: What a solver tells while it runs: a selection (e-class → candidate) or None, a bound, and how many
#: loop formulas it works with.
Tell = Callable[[Mapping[int, int] | None, float, int], None]
#: What it is told: a better selection that another solver found, or None.
Hear = Callable[[], Mapping[int, int] | None]


@dataclass(frozen=True, slots=True)
class Solved:
    """Hold what a solver found: a selection (None where nothing better), a bound, whether it is proved."""

    picked: dict[int, int] | None
    bound: float
    proved: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Hold what a solver is asked: a problem, its must-sets, a selection to begin with, seconds."""

    problem: Problem
    must: Must | None
    start: dict[int, int] | None
    seconds: float
    forbidden: tuple[tuple[int, ...], ...] = ()


def selection_cost(problem: Problem, picked: Mapping[int, int]) -> float:
    """Return what a selection (e-class → candidate) costs, infinite where it lacks something."""
    seen: set[int] = set()
    stack = list(problem.roots)
    costs = []
    while stack:
        c = stack.pop()
        if c in seen:
            continue
        seen.add(c)
        i = picked.get(c, -1)
        if i < 0:
            return math.inf
        costs.append(problem.cost[i])
        stack += problem.children[i]
    return math.fsum(costs)


def met(cost: float, bound: float) -> bool:
    """Say whether a bound proves a cost optimal."""
    return cost < math.inf and cost - bound <= MET * abs(cost)
