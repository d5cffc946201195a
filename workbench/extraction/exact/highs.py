"""Exact extraction in HiGHS: loop formulas are added up front, at the root, and for integer solutions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from workbench.extraction.exact.cycle_constraints import Formula, Separator, formula_of, pair_formulas
from workbench.extraction.exact.ilp import Program, highs_solver, program
from workbench.extraction.exact.types import Best, Job, Solved, Tell, silent
from workbench.extraction.result import Ending, Limit

if TYPE_CHECKING:
    import highspy

#: Problems with fewer candidates are small: their solution takes little time, whatever is done before.
SMALL_SIZE: Final = 500
#: The incumbent's cost in the solver's units; the solver's absolute tolerances relate to this number.
SCALED_COST: Final = 1000.0
#: Rounds of separation at the root, and the largest share of the time for them.
ROOT_ROUNDS: Final = 40
ROOT_SHARE: Final = 0.25
#: Number of solves that end in loops before order variables are added.
MAX_CYCLIC_SOLVES: Final = 4


@dataclass(slots=True, eq=False)
class _Search:
    """The state of one solve; costs times ``scale`` are those of the program."""

    best: Best
    rows: Program
    scale: float
    until: float
    separator: Separator
    slack: float = 0.0
    nodes: int | None = None
    pending: list[Formula] = field(default_factory=list)

    @classmethod
    def of(cls, job: Job, tell: Tell, *, slack: float, nodes: int | None) -> _Search:
        """Return a search that begins with the integer program and the start of a job."""
        best = Best.of(job, tell)
        rows = program(job.problem, job.must.needed() if job.must is not None else ())
        scale = SCALED_COST / best.cost if 0.0 < best.cost < math.inf else 1.0
        rows.cost = [c * scale for c in rows.cost]
        until = time.perf_counter() + job.seconds
        separator = Separator.of(job.problem)
        return cls(best, rows, scale, until, separator, slack, nodes)

    def add(self, formulas: Iterable[Formula]) -> int:
        """Add loop formulas to the program; return the number of added rows."""
        before = self.best.formulas
        self.best.formulas += self.rows.add_formulas(formulas)
        return self.best.formulas - before

    def offer(self, picked: Mapping[int, int]) -> bool:
        """Keep a selection if it is acyclic and better; if it has loops, remember their formulas."""
        problem = self.best.problem
        loops = problem.loops(picked) if self.separator.cyclic else []
        self.pending += [formula_of(problem, loop, self.rows.members) for loop in loops]
        if not loops:
            self.best.offer(picked)
        return not loops

    def answer(self, done: bool, late: bool) -> Solved:
        """Return the outcome; if there is some slack, only the bound proves an optimum."""
        best = self.best
        proved = done and (not self.slack or best.met)
        endings: tuple[Ending, ...] = ()
        if not proved and (self.slack or self.nodes is not None):
            close = best.cost - best.bound <= self.slack * (1 + 1e-9)
            endings = (Ending(Limit.CLOSE if close else Limit.TIME if late else Limit.NODES),)
        return Solved(best.picked, best.bound, proved, endings)


def solve_highs(
    job: Job,
    tell: Tell = silent,
    *,
    slack: float = 0.0,
    nodes: int | None = None,
    sets: Sequence[Sequence[int]] = (),
) -> Solved:
    """Solve a problem to proven optimality, or as far as the job's seconds allow.

    Args:
        job: The problem and its limits.
        tell: Reports better selections and bounds.
        slack: The difference of cost and bound at which the search ends, in the unit of the cost.
        nodes: Limit on the nodes of each branch and bound.
        sets: Sets of candidates of which every selection takes one.
    """
    search = _Search.of(job, tell, slack=slack, nodes=nodes)
    rows = search.rows
    for taken in job.forbidden:  # a selection leaves out at least ``apart`` of its candidates
        rows.add(taken, [1.0] * len(taken), -math.inf, len(taken) - float(job.apart))
    for by in sets:
        rows.add(by, [1.0] * len(by), 1.0, math.inf)
    if search.separator.cyclic and job.must is not None:
        search.add(pair_formulas(job.problem, job.must))
    attempt = 0
    while True:
        proved = _branch(search)
        late = time.perf_counter() > search.until
        if proved or not search.pending or late:
            return search.answer(proved, late)
        search.add(dict.fromkeys(search.pending))
        search.pending.clear()
        # Loops in integer solutions show that pair formulas do not suffice. Order variables come last.
        if attempt == 0 and len(job.problem.nodes) >= SMALL_SIZE:
            _separate(search)
        if attempt == MAX_CYCLIC_SOLVES:
            rows.add_order()
        attempt += 1


def _solver(search: _Search, *, integer: bool) -> highspy.Highs:
    options: dict[str, bool | int | float | str] = {
        "mip_rel_gap": 0.0,
        "mip_abs_gap": max(1e-7 * min(1.0, SCALED_COST), search.slack * search.scale),
    }
    if search.nodes is not None:
        options["mip_max_nodes"] = search.nodes
    return highs_solver(search.rows, search.until, integer=integer, **options)


def _separate(search: _Search) -> None:
    """Add the formulas that the linear relaxation violates."""
    import highspy
    import numpy as np

    solver = _solver(search, integer=False)
    rows, best = search.rows, search.best
    share = ROOT_SHARE if search.nodes is None else 1.0
    last = time.perf_counter() + share * max(0.0, search.until - time.perf_counter())
    for _ in range(ROOT_ROUNDS):
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return
        values = solver.getSolution().col_value
        best.raise_bound(float(np.dot(values, rows.cost)) / search.scale)
        if best.cost - best.bound <= search.slack:
            return
        y = {c: values[k] for c, k in rows.column.items()}
        first = len(rows.row_lower)
        if not search.add(search.separator(values, y, last)) or time.perf_counter() > last:
            return
        rows.pass_to(solver, first)


def _branch(search: _Search) -> bool:
    """Run branch and bound on the current rows; return whether the best selection is proved optimal."""
    import highspy

    solver = _solver(search, integer=True)
    rows, best = search.rows, search.best
    if best.picked is not None and (point := rows.point(best.picked)) is not None:
        solution = highspy.HighsSolution()
        solution.col_value = point
        solver.setSolution(solution)

    def bounding(event: Any) -> None:
        best.raise_bound(float(event.data_out.mip_dual_bound) / search.scale)
        if best.met:
            event.interrupt()

    solver.cbMipImprovingSolution += lambda event: search.offer(rows.picked(event.data_out.mip_solution))
    solver.cbMipInterrupt += bounding
    solver.run()
    info, status = solver.getInfo(), solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return not search.pending
    best.raise_bound(float(info.mip_dual_bound) / search.scale)
    values = solver.getSolution().col_value
    acyclic = info.primal_solution_status == 2 and values and search.offer(rows.picked(values))
    return best.met or bool(status == highspy.HighsModelStatus.kOptimal and acyclic)
