"""Exact extraction in HiGHS: loop formulas are added up front, at the root, and for integer solutions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.extraction.exact.cycle_constraints import (
    Formula,
    Separator,
    formula_of,
    pair_formulas,
    unfounded,
)
from workbench.extraction.exact.ilp import Program, highs_model, program
from workbench.extraction.exact.types import Hear, Solved, Tell, met, selection_cost
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must
from workbench.extraction.result import Ending, Limit

#: Problems with fewer candidates are solved without HiGHS's presolve and heuristics (measured: 2x).
SMALL_SIZE: Final = 500
#: The incumbent's cost in the solver's units; the solver's absolute tolerances relate to this number.
SCALED_COST: Final = 1000.0
#: Rounds of separation at the root, and the largest share of the time for them.
ROOT_ROUNDS: Final = 40
ROOT_SHARE: Final = 0.25
#: Rounds of separation of a bound without branching.
BOUND_ROUNDS: Final = 8
#: Number of solves that end in loops before order variables are added.
MAX_CYCLIC_SOLVES: Final = 4


@dataclass(slots=True, eq=False)
class _Search:
    """The state of one solve."""

    problem: Problem
    rows: Program
    scale: float
    tell: Tell
    hear: Hear
    until: float
    best: dict[int, int] | None = None
    cost: float = math.inf
    bound: float = 0.0
    cyclic: bool = False
    pending: list[Formula] = field(default_factory=list)
    slack: float = 0.0
    nodes: int | None = None

    def offer(self, picked: Mapping[int, int]) -> bool:
        """Keep a selection if it is acyclic and better; if it has loops, remember their formulas."""
        loops = unfounded(self.problem, picked) if self.cyclic else []
        if loops:
            self.pending += [formula_of(self.problem, loop, self.rows.members) for loop in loops]
            return False
        cost = selection_cost(self.problem, picked)
        if cost < self.cost:
            self.cost, self.best = cost, dict(picked)
            self.tell(self.best, self.bound, self.rows.formulas)
        return True

    def raise_bound(self, value: float) -> None:
        """Adopt a bound of the solver if it is higher."""
        bound = value / self.scale
        if math.isfinite(bound) and bound > self.bound:
            self.bound = bound
            self.tell(None, bound, self.rows.formulas)


def solve_highs(
    problem: Problem,
    must: Must | None,
    start: Mapping[int, int] | None,
    seconds: float,
    *,
    tell: Tell = lambda picked, bound, cuts: None,
    hear: Hear = lambda: None,
    forbidden: Sequence[Sequence[int]] = (),
    apart: int = 1,
    slack: float = 0.0,
    nodes: int | None = None,
    sets: Sequence[Sequence[int]] = (),
) -> Solved:
    """Solve a problem to proven optimality, or as far as ``seconds`` allow.

    Args:
        problem: The problem.
        must: Its must-sets, if they are known.
        start: A selection to begin with (e-class → candidate).
        seconds: Time limit.
        tell: Callback for better selections and bounds.
        hear: Callback that returns better selections of other solvers.
        forbidden: Sets of candidates that must not all be taken together.
        apart: The number of candidates of each such set to be left out at least.
        slack: The difference of cost and bound at which the search ends, in the unit of the cost.
        nodes: Limit on the nodes of each branch and bound.
        sets: Sets of candidates of which every selection takes one.

    Returns:
        The best selection with a lower bound.
    """
    rows = program(problem, must.needed() if must is not None else ())
    for taken in forbidden:
        rows.forbid(taken, apart)
    for by in sets:
        rows.add(by, [1.0] * len(by), 1.0, math.inf)
    cost = selection_cost(problem, start) if start is not None else math.inf
    scale = SCALED_COST / cost if 0.0 < cost < math.inf else 1.0
    rows.cost = [c * scale for c in rows.cost]
    until = time.perf_counter() + seconds
    search = _Search(problem, rows, scale, tell, hear, until, slack=slack, nodes=nodes)
    separator = Separator.of(problem)
    search.cyclic = bool(separator.cyclic)
    if start is not None and cost < math.inf:
        search.best, search.cost = dict(start), cost
    if search.cyclic and must is not None:
        rows.add_formulas(pair_formulas(problem, must))
    attempt = 0
    while True:
        proved = _branch(search)
        late = time.perf_counter() > search.until
        if proved or not search.pending or late:
            return _answer(search, proved, late)
        rows.add_formulas(_distinct(search.pending))
        search.pending.clear()
        # Loops in integer solutions show that pair formulas do not suffice. Order variables come last.
        if attempt == 0 and len(problem.nodes) >= SMALL_SIZE:
            _separate(search, separator)
        if attempt == MAX_CYCLIC_SOLVES:
            rows.add_order()
        attempt += 1


def bound_highs(
    problem: Problem, must: Must | None, start: Mapping[int, int], seconds: float, *, slack: float
) -> Solved:
    """Return a start selection with a bound by the linear relaxation, which takes little time.

    Args:
        problem: The problem.
        must: Its must-sets, if they are known.
        start: A selection (e-class → candidate).
        seconds: Time limit.
        slack: The difference of cost and bound that is small enough, in the unit of the cost.
    """
    cost = selection_cost(problem, start)
    rows = program(problem, must.needed() if must is not None else ())
    scale = SCALED_COST / cost if cost > 0.0 else 1.0
    rows.cost = [c * scale for c in rows.cost]
    until = time.perf_counter() + seconds
    search = _Search(
        problem, rows, scale, lambda *_: None, lambda: None, until, dict(start), cost, slack=slack, nodes=0
    )
    _separate(search, Separator.of(problem, everywhere=True), BOUND_ROUNDS, 1.0)
    return _answer(search, False, time.perf_counter() > until)


def _answer(search: _Search, done: bool, late: bool) -> Solved:
    """Return the outcome of a search; if there is some slack, only the bound proves an optimum."""
    proved = done and (not search.slack or met(search.cost, search.bound))
    endings: tuple[Ending, ...] = ()
    if not proved and (search.slack or search.nodes is not None):
        close = search.cost - search.bound <= search.slack * (1 + 1e-9)
        endings = (Ending(Limit.CLOSE if close else Limit.TIME if late else Limit.NODES),)
    return Solved(search.best, search.bound, proved, endings)


def _distinct(formulas: Sequence[Formula]) -> list[Formula]:
    return list(dict.fromkeys(formulas))


def _solver(search: _Search, *, integer: bool) -> Any:
    import highspy

    solver = highspy.Highs()
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "time_limit": max(0.01, search.until - time.perf_counter()),
        "mip_rel_gap": 0.0,
        "mip_abs_gap": max(1e-7 * min(1.0, SCALED_COST), search.slack * search.scale),
    }
    if search.nodes is not None:
        options["mip_max_nodes"] = search.nodes
    if integer and len(search.problem.nodes) < SMALL_SIZE:
        options |= {"presolve": "off", "mip_heuristic_effort": 0.0, "mip_pool_soft_limit": 100}
    for name, option in options.items():
        solver.setOptionValue(name, option)
    solver.passModel(highs_model(search.rows, integer=integer))
    return solver


def _separate(
    search: _Search, separator: Separator, most: int = ROOT_ROUNDS, share: float = ROOT_SHARE
) -> None:
    """Add the formulas that the linear relaxation violates, in at most ``most`` rounds."""
    import highspy
    import numpy as np

    solver = _solver(search, integer=False)
    rows = search.rows
    last = time.perf_counter() + share * max(0.0, search.until - time.perf_counter())
    for _ in range(most):
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return
        values = solver.getSolution().col_value
        search.raise_bound(float(np.dot(values, rows.cost)))
        if search.cost - search.bound <= search.slack:
            return
        y = {c: values[k] for c, k in rows.column.items()}
        first = len(rows.row_lower)
        if not rows.add_formulas(separator(values, y, last)) or time.perf_counter() > last:
            return
        low, high, starts, index, value = rows.rows_from(first)
        solver.addRows(len(low), low, high, len(index), starts, index, value)


def _branch(search: _Search) -> bool:
    """Run branch and bound on the current rows; return whether the best selection is proved optimal."""
    import highspy

    solver = _solver(search, integer=True)
    rows = search.rows
    if search.best is not None:
        point = rows.point(search.best)
        if point is not None:
            solution = highspy.HighsSolution()
            solution.col_value = point
            solver.setSolution(solution)
    refused = False

    def improving(event: Any) -> None:
        nonlocal refused
        if not search.offer(rows.picked(event.data_out.mip_solution)):
            refused = True

    def bounding(event: Any) -> None:
        search.raise_bound(float(event.data_out.mip_dual_bound))
        heard = search.hear()
        if heard is not None:
            search.offer(heard)
            # Another solver's incumbent meets the bound: nothing better exists.
        if met(search.cost, search.bound):
            event.interrupt()

    solver.cbMipImprovingSolution += improving
    solver.cbMipInterrupt += bounding
    solver.run()
    info, status = solver.getInfo(), solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return not search.pending
    search.raise_bound(float(info.mip_dual_bound))
    values = solver.getSolution().col_value
    acyclic = False
    if info.primal_solution_status == 2 and values:
        acyclic = search.offer(rows.picked(values))
    if met(search.cost, search.bound):
        return True
    return bool(status == highspy.HighsModelStatus.kOptimal and acyclic)
