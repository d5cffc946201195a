"""Cutting planes before branch and bound: rows that dual ascents find, and candidates that they rule out.

The relaxation of the integer program is weak, because half of a candidate can be built from halves of
others. Every dual ascent names sets of candidates of which one is always taken. An ascent that begins with
the reduced costs of the relaxation names rows that its solution violates entirely, and adds to its bound.
What the bound rules out is dropped, the rest is reduced again, and begins anew; branch and bound gets what is
left with all rows.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.extraction.exact.cycle_constraints import Separator, pair_formulas
from workbench.extraction.exact.highs import SCALED_COST, SMALL_SIZE, solve_highs
from workbench.extraction.exact.ilp import Program, highs_solver, program
from workbench.extraction.exact.types import Best, Job, Solved, Tell, met, silent
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must, must_sets
from workbench.extraction.reduce.dual_ascent import Ascent, Layout, ascend
from workbench.extraction.reduce.presolve import REDUCTIONS, presolve, pull_up, pull_up_costs

#: The share of the time for cutting planes, and of what is left of it for each restart.
TIME_SHARE: Final = 0.8
RESTART_TIME_SHARE: Final = 0.8
#: The largest number of relaxations of a small problem if the nodes of branch and bound are limited. Those of a larger
#: one take time by the square of its size, and are fewer by as much.
FEW_RELAXATIONS: Final = 20
#: Cutting planes restart if at most this share of the candidates is left.
RESTART_SHRINK: Final = 0.9
MAX_RESTARTS: Final = 40
#: They end when the bound has risen by less than this share of the gap in the last STALL_ROUNDS rounds.
MIN_BOUND_GAIN: Final = 0.005
STALL_ROUNDS: Final = 10
#: The reductions on the way: without those that merge candidates, as rows found before name candidates.
UNMERGED_REDUCTIONS: Final = tuple(r for r in REDUCTIONS if r not in (pull_up, pull_up_costs))
#: The share of a row that a solution must lack for the row to be added.
MIN_VIOLATION: Final = 0.02
#: Rows that a solution exceeds by more than this are not kept at a restart.
TIGHTNESS_TOLERANCE: Final = 1e-6
#: Ascents before the first relaxation, and before that of each restart.
ROOT_ASCENTS: Final = 24
RESTART_ASCENTS: Final = 4
#: The rows of an ascent from random heights are added if its bound is at least this share of the best.
MIN_ASCENT_SHARE: Final = 0.97
#: The share of the time for these ascents, unless the problem is small or work is limited: then what is done does
#: not depend on the time, unless it is up.
ASCENT_SHARE: Final = 0.1
#: Above this number of candidates the relaxation has no rows but those of ascents, so that it is solved soon.
MAX_FULL_RELAXATION_SIZE: Final = 15_000
#: Ascents by the shares that the solution lacks, in each round.
SHORTFALL_ASCENTS: Final = 4


@dataclass(slots=True, eq=False)
class _Cutting:
    """The relaxation of a problem with the rows found so far, the bound, and the candidates not ruled out.

    Its costs are ``scale`` times those of the problem, ``cost`` is that of a selection, and ``relaxations`` are the
    solutions that are still allowed.
    """

    problem: Problem
    layout: Layout
    rows: Program
    solver: Any
    scale: float
    cost: float
    bound: float
    relaxations: float
    alive: list[bool]
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    known: set[tuple[int, ...]] = field(default_factory=set)
    x: np.ndarray | None = None

    @classmethod
    def of(
        cls, problem: Problem, must: Must | None, best: Best, until: float, relaxations: float
    ) -> _Cutting:
        """Return the relaxation; it has the integer program's rows unless it is large. Scale its costs."""
        needed = must.needed() if must is not None else ()
        large = len(problem.nodes) > MAX_FULL_RELAXATION_SIZE
        rows = Program.of(problem, needed) if large else program(problem, needed)
        scale = SCALED_COST / best.cost if 0.0 < best.cost < math.inf else 1.0
        rows.cost = [c * scale for c in rows.cost]
        if must is not None and not large:
            rows.add_formulas(pair_formulas(problem, must))
        solver, alive = highs_solver(rows, until, integer=False), [True] * len(problem.nodes)
        return cls(
            problem, Layout.of(problem), rows, solver, scale, best.cost, best.bound, relaxations, alive
        )

    def solve(self, until: float) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return the relaxation's value, its solution and its reduced costs, or None if time is up."""
        import highspy

        left = max(0.01, until - time.perf_counter())
        self.solver.setOptionValue("time_limit", self.solver.getRunTime() + left)
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self.solver.getSolution()
        value = float(self.solver.getInfo().objective_function_value)
        self.x = np.array(found.col_value)
        return value, np.array(found.col_value), np.array(found.col_dual)

    def add(self, sets: Sequence[tuple[int, ...]]) -> int:
        """Add rows that are new; return their number."""
        fresh = [by for by in dict.fromkeys(sets) if by not in self.known]
        self.known.update(fresh)
        first = len(self.rows.row_lower)
        for by in fresh:
            self.rows.add(by, [1.0] * len(by), 1.0, math.inf)
        if fresh:
            self.rows.pass_to(self.solver, first)
        return len(fresh)

    def violated(self, x: np.ndarray, until: float) -> list[tuple[int, ...]]:
        """Return rows that a solution violates, found by ascents from the shares that it lacks."""
        found: list[tuple[int, ...]] = []
        for turn in range(SHORTFALL_ASCENTS):
            noise = np.array([1 + 0.1 * self.rng.random() for _ in range(len(x))])
            price, rng = (np.maximum(0.0, 1.0 - x) * noise).tolist(), self.rng if turn else None
            sets = ascend(self.layout, price, rng, smallest=False, until=until).sets
            found += [by for by in sets if by not in self.known and x[list(by)].sum() < 1 - MIN_VIOLATION]
        return found

    def run(self, until: float) -> Iterator[float]:
        """Add rows until the bound rises no more; yield every new bound."""
        n = len(self.problem.nodes)
        now, ascents = time.perf_counter(), RESTART_ASCENTS if self.known else ROOT_ASCENTS
        timed = self.relaxations == math.inf
        most = now + (ASCENT_SHARE if timed and n >= SMALL_SIZE else 1.0) * (until - now)
        for turn in range(ascents if timed else max(2, ascents * SMALL_SIZE // max(n, SMALL_SIZE))):
            if turn > 1 and time.perf_counter() > most:
                break
            rng = None if turn < 2 else self.rng
            one = ascend(self.layout, self.rows.cost[:n], rng, smallest=not turn % 2, until=until)
            if turn < 2 or one.bound >= MIN_ASCENT_SHARE * self.bound * self.scale:
                self.add(one.sets)
            yield self._keep(0.0, one)
        if self.alive.count(True) < RESTART_SHRINK * n:
            return
        separator: Separator | None = None
        bounds = [0.0]
        for turn in range(1_000_000):
            self.relaxations -= 1
            solved = self.solve(until) if self.relaxations >= 0 else None
            if solved is None or time.perf_counter() > until:
                return
            value, columns, reduced = solved
            x, price = columns[:n], np.maximum(reduced[:n], 0.0).tolist()
            one = ascend(self.layout, price, smallest=bool(turn % 2), until=until)
            yield self._keep(value, one)
            # Rows of the reduced problem may first have to regain a bound that is known already.
            bounds.append(max(bounds[-1], (value + one.bound) / self.scale))
            gap = self.cost - self.bound
            if met(self.cost, self.bound) or self.alive.count(True) < RESTART_SHRINK * n:
                return
            if len(bounds) > STALL_ROUNDS and bounds[-1] - bounds[-STALL_ROUNDS] < MIN_BOUND_GAIN * gap:
                return
            added = self.add(one.sets)
            if not added and n > MAX_FULL_RELAXATION_SIZE:
                return  # formulas of e-classes would need the rows of the integer program
            if n <= MAX_FULL_RELAXATION_SIZE:
                added += self.add(self.violated(x, until))
            if not added:
                separator = Separator.of(self.problem, everywhere=True) if separator is None else separator
                y = {c: float(columns[k]) for c, k in self.rows.column.items()}
                first_row = len(self.rows.row_lower)
                formulas = separator(x.tolist(), y, until)
                if not self.rows.add_formulas(formulas):
                    return
                needed = set(self.problem.roots)
                self.known.update(f.by for f in formulas if not needed.isdisjoint(f.built))
                self.rows.pass_to(self.solver, first_row)

    def _keep(self, value: float, one: Ascent) -> float:
        """Adopt what an ascent from the reduced costs of a relaxation of this value proves."""
        self.bound = max(self.bound, (value + one.bound) / self.scale)
        most = self.cost * self.scale * (1 + 1e-9)
        least = self.layout.at_least(one.price)
        base = value + one.bound
        self.alive = [a and base + more <= most for a, more in zip(self.alive, least, strict=True)]
        return self.bound


def solve_by_cuts(job: Job, tell: Tell = silent, *, slack: float = 0.0, nodes: int | None = None) -> Solved:
    """Solve a problem by cutting planes, then by branch and bound.

    Branch and bound begins at once without a start, if selections are forbidden, or if costs are negative.

    Args:
        job: The problem and its limits.
        tell: Reports better selections and bounds.
        slack: The difference of cost and bound at which branch and bound ends, in the unit of the cost.
        nodes: Limit on the nodes of each branch and bound.
    """
    if job.start is None or job.forbidden or min(job.problem.cost, default=0.0) < 0.0:
        return solve_highs(job, tell, slack=slack, nodes=nodes)
    until = time.perf_counter() + job.seconds
    last = time.perf_counter() + (TIME_SHARE if nodes is None else 1.0) * job.seconds
    size = max(len(job.problem.nodes), SMALL_SIZE)
    relaxations = math.inf if nodes is None else max(2, FEW_RELAXATIONS * SMALL_SIZE**2 // size**2)
    best, part, must = Best.of(job, tell), job.problem, job.must
    sets: list[tuple[int, ...]] = []
    for turn in range(MAX_RESTARTS):
        now = time.perf_counter()
        cutting = _Cutting.of(part, must, best, until, relaxations)
        cutting.add(sets)
        share = RESTART_TIME_SHARE if nodes is None else 1.0
        for risen in cutting.run(now + share * max(0.0, last - now)):
            best.formulas = len(cutting.known)
            best.raise_bound(min(risen, best.cost))
        relaxations = cutting.relaxations
        x = cutting.x  # the rows that the last solution meets exactly; all if there is none
        sets = [by for by in cutting.known if x is None or x[list(by)].sum() < 1 + TIGHTNESS_TOLERANCE]
        if best.met:
            return Solved(best.picked, best.bound, proved=True)
        kept = part.keep(cutting.alive)
        if time.perf_counter() > last or turn == MAX_RESTARTS - 1:
            break
        kept, _ = presolve(kept, best.cost, until=last, reductions=UNMERGED_REDUCTIONS)
        if len(kept.nodes) > RESTART_SHRINK * len(part.nodes):
            break
        part, sets = kept, _carried(part, kept, sets)
        if not part.roots:
            best.offer(_whole(job.problem, part, {}))
            return Solved(best.picked, best.cost, proved=True)
        must = must_sets(part, last)

    def report(picked: Mapping[int, int] | None, bound: float, formulas: int) -> None:
        best.formulas = formulas
        if picked is not None:
            best.offer(_whole(job.problem, part, picked))
        best.raise_bound(min(bound, best.cost))

    assert best.picked is not None
    start = part.selected(set(best.problem.taken(best.picked).values()))
    inner = Job(part, must, start, until - time.perf_counter())
    found = solve_highs(inner, report, slack=slack, nodes=nodes, sets=sets)
    report(found.picked, found.bound, best.formulas)
    return Solved(best.picked, best.cost if found.proved else best.bound, found.proved, found.endings)


def _carried(before: Problem, after: Problem, sets: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the sets in terms of a reduced problem, without those of which a candidate was pulled up."""
    place = {node: i for i, node in enumerate(after.nodes)}
    merged = set(after.fixed.values())
    found = ([before.nodes[i] for i in by] for by in sets)
    return [tuple(place[n] for n in by if n in place) for by in found if merged.isdisjoint(by)]


def _whole(problem: Problem, part: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return a selection of a reduced part as one of the problem."""
    return problem.picked({*part.fixed.values(), *part.taken(picked).values()})
