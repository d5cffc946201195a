"""Probing: rule candidates out that the relaxation cannot take below the incumbent's cost.

The sets that are tried hold candidates of one e-class. If one of them must be taken, the others of the
e-class cannot be, and the relaxation's value rises. If it rises above the incumbent's cost, no better
selection takes any candidate of the set. This rules out far more than reduced costs do. Each set costs a
linear program.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Sets tried before probing may end, and the candidates to be ruled out for each set tried if it is to go on.
TRIAL_SETS: Final = 12
MIN_DROP_RATE: Final = 0.5
#: The share of the time left that an unsuccessful trial may take by default.
TRIAL_TIME_SHARE: Final = 0.05
#: Pivots of the simplex method for a set; if they do not suffice, its candidates stay.
MAX_PIVOTS: Final = 200
#: Candidates with smaller shares in the relaxation's solution are probed together with their siblings.
ZERO_TOLERANCE: Final = 1e-6
#: The part of the incumbent's cost that must be exceeded, as the relaxation is solved with rounding.
COST_TOLERANCE: Final = 1e-6


@dataclass(slots=True, eq=False)
class Probing:
    """A relaxation that has been solved, and what probing has to know about it.

    ``members`` are the candidates of each e-class, ``column`` is the column of each, and ``lower`` the lower
    bounds of all columns. ``alive`` tells which candidates are not ruled out. ``most`` is the incumbent's
    cost in the unit of the relaxation; it may fall during a run. ``share`` is the share of the time that an
    unsuccessful trial may take.
    """

    solver: Any
    members: dict[int, list[int]]
    column: dict[int, int]
    lower: Sequence[float]
    alive: list[bool]
    most: float
    share: float = TRIAL_TIME_SHARE
    tried: int = 0
    dropped: int = 0

    @property
    def fruitful(self) -> bool:
        """Return whether as many candidates were ruled out as the sets tried are worth."""
        return self.dropped > 0 and self.dropped >= MIN_DROP_RATE * self.tried

    def run(self, x: Sequence[float], least: Sequence[float], until: float) -> Iterator[tuple[int, ...]]:
        """Rule candidates out while it pays; yield each set tried, empty if its candidates stay.

        Args:
            x: The share of every candidate in the relaxation's solution.
            least: The least cost of a selection with each candidate, as far as known; the highest is first.
            until: Deadline of ``time.perf_counter``.
        """
        began = time.perf_counter()
        basis = self.solver.getBasis()
        heap = list(self._first(x, least))
        heapq.heapify(heap)
        self.solver.setOptionValue("simplex_iteration_limit", MAX_PIVOTS)
        try:
            while heap and (self.tried < TRIAL_SETS or self.fruitful):
                now = time.perf_counter()
                if now > until or not (self.fruitful or now < began + self.share * (until - began)):
                    return
                rank, eclass, tried = heapq.heappop(heap)
                group = tuple(i for i in tried if self.alive[i])
                if not group:
                    continue
                self.tried += 1
                if self._refused(eclass, group, basis, until):
                    self.dropped += len(group)
                    for i in group:
                        self.alive[i] = False
                        self.solver.changeColBounds(i, 0.0, 0.0)
                    yield group
                else:
                    half = len(group) // 2
                    for some in (group[:half], group[half:]) if half else ():
                        heapq.heappush(heap, (rank, eclass, some))
                    yield ()
        finally:
            self.solver.setOptionValue("simplex_iteration_limit", 2**31 - 1)
            self.solver.setOptionValue("objective_bound", math.inf)
            self.solver.setBasis(basis)

    def _first(
        self, x: Sequence[float], least: Sequence[float]
    ) -> Iterator[tuple[float, int, tuple[int, ...]]]:
        """Yield the sets to begin with: those of siblings without a share, and every candidate with some."""
        for c, of_class in self.members.items():
            free = [i for i in of_class if self.alive[i]]
            absent = sorted((i for i in free if x[i] < ZERO_TOLERANCE), key=lambda i: -least[i])
            if absent:
                yield -math.fsum(least[i] for i in absent) / len(absent), c, tuple(absent)
            for i in free:
                if ZERO_TOLERANCE <= x[i] <= 0.99:
                    yield -least[i], c, (i,)

    def _refused(self, eclass: int, group: Sequence[int], basis: Any, until: float) -> bool:
        """Return whether a selection that takes one of some candidates costs more than the incumbent."""
        import highspy

        inside = set(group)
        others = [i for i in self.members[eclass] if self.alive[i] and i not in inside]
        solver, column = self.solver, self.column[eclass]
        limit = self.most * (1 + COST_TOLERANCE)
        solver.setOptionValue("objective_bound", limit)
        solver.setOptionValue("time_limit", solver.getRunTime() + max(0.01, until - time.perf_counter()))
        for i in others:
            solver.changeColBounds(i, 0.0, 0.0)
        solver.changeColBounds(column, 1.0, 1.0)
        solver.setBasis(basis)
        solver.run()
        status = solver.getModelStatus()
        value = float(solver.getInfo().objective_function_value)
        for i in others:
            solver.changeColBounds(i, 0.0, 1.0)
        solver.changeColBounds(column, self.lower[column], 1.0)
        ended = highspy.HighsModelStatus
        if status == ended.kOptimal:
            return value > limit
        return bool(status in (ended.kObjectiveBound, ended.kInfeasible))
