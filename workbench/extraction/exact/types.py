"""The interface of the solvers: the job, the reports during a run, the best selection so far, and the answer."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must
from workbench.extraction.result import Ending

#: A bound meets a cost when they differ by at most this share of the cost beyond what all selections pay.
GAP_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a solution is proved.

    ``gap`` is the share of the cost by which the bound may stay below it. With ``nodes`` no part takes more
    nodes of branch and bound, all other work is limited by counts, too, and no solver runs in a process of its own:
    the result is the same on every machine unless time is up.
    """

    gap: float = 0.0
    nodes: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The input of a solver.

    ``must`` are the must-sets of the problem if they are known, ``start`` a selection to begin with (e-class →
    candidate), ``seconds`` the time limit. A selection must leave out at least ``apart`` candidates of each set
    of candidates in ``forbidden``.
    """

    problem: Problem
    must: Must | None
    start: Mapping[int, int] | None
    seconds: float
    forbidden: tuple[tuple[int, ...], ...] = ()
    apart: int = 1


#: A solver's report: a selection (e-class → candidate) or None, a lower bound, and the number of formulas.
Tell = Callable[[Mapping[int, int] | None, float, int], None]


def silent(picked: Mapping[int, int] | None, bound: float, formulas: int) -> None:
    """Ignore a report."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The answer of a solver: a selection (None without a better one), a bound, whether it is proved.

    ``endings`` are the reasons for which it ended early; ``cuts`` counts the loop formulas that solvers in processes
    of their own work with.
    """

    picked: dict[int, int] | None
    bound: float
    proved: bool = False
    endings: tuple[Ending, ...] = ()
    cuts: int = 0


@dataclass(slots=True, eq=False)
class Best:
    """The best selection and bound that threads of a solver report; ``formulas`` counts the loop formulas in use."""

    problem: Problem
    tell: Tell = silent
    picked: dict[int, int] | None = None
    cost: float = math.inf
    bound: float = 0.0
    formulas: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, job: Job, tell: Tell = silent) -> Best:
        """Return the start selection of a job, if it has a complete one."""
        found = cls(job.problem, tell)
        if job.start is not None and (cost := job.problem.cost_of(job.start)) < math.inf:
            found.picked, found.cost = dict(job.start), cost
        return found

    @property
    def met(self) -> bool:
        """Return whether the bound proves the selection optimal."""
        return met(self.cost, self.bound)

    def offer(self, picked: Mapping[int, int]) -> bool:
        """Keep a selection if it is acyclic and cheaper; return whether it is."""
        with self.lock:
            cost = self.problem.cost_of(picked)
            if cost >= self.cost or self.problem.loops(picked):
                return False
            self.picked, self.cost = dict(picked), cost
            self.tell(self.picked, self.bound, self.formulas)
            return True

    def raise_bound(self, bound: float) -> None:
        """Keep a lower bound if it is higher."""
        if math.isfinite(bound) and bound > self.bound:
            with self.lock:
                self.bound = bound
                self.tell(None, bound, self.formulas)


def met(cost: float, bound: float, paid: float = 0.0) -> bool:
    """Return whether a bound proves a cost optimal.

    ``paid`` is the part of the cost that every selection pays: the two must meet without it, as one
    expensive e-node that is always there would hide all differences.
    """
    rounding = 4 * sys.float_info.epsilon * abs(cost)
    return cost < math.inf and cost - bound <= max(GAP_TOLERANCE * abs(cost - paid), rounding)
