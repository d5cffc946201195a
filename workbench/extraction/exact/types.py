"""The interface of the solvers: the job, the messages during a run, and the answer."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must
from workbench.extraction.result import Ending

#: A bound meets a cost when they differ by at most this share of the cost beyond the part that all selections
#: pay.
GAP_TOLERANCE: Final = 1e-9

#: Callback by which a solver reports progress: a selection (e-class → candidate) or None, a lower bound, and
#: the number of loop formulas in use.
Tell = Callable[[Mapping[int, int] | None, float, int], None]
#: Callback by which a solver asks for a better selection found by another solver; None if there is none.
Hear = Callable[[], Mapping[int, int] | None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a solution is proved.

    ``gap`` is the share of the cost by which the bound may stay below it. With ``nodes`` no part takes more
    nodes of branch and bound, and no solver runs in a process of its own, so that the result does not depend
    on time.
    """

    gap: float = 0.0
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Solved:
    """The answer of a solver: a selection (None if there is no better one), a bound, whether it is proved.

    ``endings`` are the reasons for which it ended early.
    """

    picked: dict[int, int] | None
    bound: float
    proved: bool
    endings: tuple[Ending, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The input of a solver: problem, must-sets, start selection, seconds, forbidden sets of candidates.

    A selection must leave out at least ``apart`` candidates of each forbidden set.
    """

    problem: Problem
    must: Must | None
    start: dict[int, int] | None
    seconds: float
    forbidden: tuple[tuple[int, ...], ...] = ()
    apart: int = 1


def selection_cost(problem: Problem, picked: Mapping[int, int]) -> float:
    """Return the cost of a selection (e-class → candidate); inf if a needed e-class has no candidate."""
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


def met(cost: float, bound: float, paid: float = 0.0) -> bool:
    """Return whether a bound proves a cost optimal.

    ``paid`` is the part of the cost that every selection pays: the two must meet without it, as one
    expensive e-node that is always there would hide all differences.
    """
    rounding = 4 * sys.float_info.epsilon * abs(cost)
    return cost < math.inf and cost - bound <= max(GAP_TOLERANCE * abs(cost - paid), rounding)
