"""Tensat's own integer program of an extraction, for comparison.

MLSys 2021, section 5.2: one row per candidate and child, and order variables over all e-classes against
cycles, either real or integer. The order variables are omitted if cycles were broken before.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.ilp import Program, highs_solver, pulp_model
from workbench.extraction.exact.types import Job, Solved, Tell, silent
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import chain_bound

if TYPE_CHECKING:
    import pulp

#: The methods that solve the program, and the order variables of each.
ORDERS: Final = {"tensat": "real", "tensat-integer": "integer", "tensat-filtered": "none"}
#: HiGHS treats costs that differ by 1e-6 as equal. If the costliest path that no selection avoids costs
#: less than this, all costs are multiplied until it costs 1.
MIN_PATH_COST: Final = 0.1


def tensat_program(problem: Problem, order: str) -> Program:
    """Return the program's columns and rows; ``order`` is ``"real"``, ``"integer"`` or ``"none"``.

    There is a column ``x_i`` for every candidate and, unless ``order`` is ``"none"``, ``t_c`` for every
    e-class. ``y_c`` counts the taken candidates of an e-class, at most one; the original program can state
    this row as well.
    """
    found = Program.of(problem)
    members = found.members
    for c, of_class in members.items():
        found.add([*of_class, found.column[c]], [1.0] * len(of_class) + [-1.0], 0.0, 0.0)
    for root in problem.roots:
        found.add(members[root], [1.0] * len(members[root]), 1.0, 1.0)
    whole = order == "integer"
    big, gap = (float(len(members)), 1.0) if whole else (2.0, 1.0 / (10 * max(1, len(members))))
    if order != "none":
        top = max(1.0, len(members) - 1.0) if whole else 1.0
        found.order = {c: found.add_column(top, whole=whole) for c in members}
    for i, c in enumerate(problem.eclass):
        for d in problem.children[i]:
            found.add([i, *members[d]], [1.0] + [-1.0] * len(members[d]), -math.inf, 0.0)
            if found.order:
                # t_c - t_d + big (1 - x_i) ≥ gap
                columns = [found.order[c], found.order[d], i]
                found.add(columns, [1.0, -1.0, -big], gap - big, math.inf)
    return found


def tensat_problem(egraph: EGraph, costs: np.ndarray, *, integer_order: bool = False) -> pulp.LpProblem:
    """Return Tensat's own program: one row per e-node and child, and order variables against cycles.

    The methods ``"tensat"`` and ``"tensat-integer"`` solve this program. ``integer_order`` selects integer order
    variables instead of real ones. The program serves for
    comparison: it is slower than :func:`~workbench.extraction.exact.ilp.pulp_problem` by orders of magnitude.
    """
    order = "integer" if integer_order else "real"
    return pulp_model("tensat", tensat_program(Problem.of(egraph, costs), order))


def solve_tensat(name: str, job: Job, tell: Tell = silent) -> Solved:
    """Solve Tensat's program by a method of :data:`ORDERS` in HiGHS: no start selection and no reductions.

    The problem is free of cycles if the method has no order variables. ``tell`` reports better selections and bounds.
    """
    import highspy

    until, problem = time.perf_counter() + job.seconds, job.problem
    rows = tensat_program(problem, ORDERS[name])
    least = chain_bound(problem)
    scale = 1.0 / least if 0.0 < least < MIN_PATH_COST else 1.0
    rows.cost = [c * scale for c in rows.cost]
    solver = highs_solver(rows, until, mip_rel_gap=0.0)
    best: dict[int, int] | None = None
    bound = 0.0

    def offer(values: Any) -> None:
        nonlocal best
        picked = rows.picked(values)
        if not problem.loops(picked):
            best = picked
            tell(best, bound, 0)

    def bounding(event: Any) -> None:
        nonlocal bound
        value = event.data_out.mip_dual_bound / scale
        if math.isfinite(value) and value > bound:
            bound = value
            tell(None, bound, 0)

    solver.cbMipImprovingSolution += lambda event: offer(event.data_out.mip_solution)
    solver.cbMipInterrupt += bounding
    solver.run()
    info = solver.getInfo()
    if math.isfinite(info.mip_dual_bound):
        bound = max(bound, info.mip_dual_bound / scale)
    if info.primal_solution_status == 2:
        offer(solver.getSolution().col_value)
    proved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal and best is not None
    return Solved(best, bound, proved)
