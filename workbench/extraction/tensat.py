"""Tensat's own integer program, in HiGHS: for comparison.

MLSys 2021, section 5.2: a row for every candidate and child, and order variables over all e-classes
against cycles, real or integer, or none where cycles were broken before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from workbench.extraction.highs import SCALE
from workbench.extraction.loops import unfounded
from workbench.extraction.problem import Problem
from workbench.extraction.program import Program, highs_model
from workbench.extraction.solving import Hear, Solved, Tell, selection_cost


def tensat_program(problem: Problem, order: str) -> Program:
    """Return the rows; ``order`` is ``"real"``, ``"integer"`` or ``"none"``.

    Column ``x_i`` for every candidate; an e-class's column counts its candidates, which changes nothing.
    """
    members = problem.members()
    count = len(problem.nodes)
    found = Program(
        problem,
        members,
        {c: count + k for k, c in enumerate(members)},
        [*problem.cost, *([0.0] * len(members))],
        [0.0] * (count + len(members)),
        [1.0] * (count + len(members)),
    )
    for c, of_class in members.items():
        found.add([*of_class, found.column[c]], [1.0] * len(of_class) + [-1.0], 0.0, 0.0)
    for root in problem.roots:
        found.add(members[root], [1.0] * len(members[root]), 1.0, 1.0)
    top = len(members) - 1.0 if order == "integer" else 1.0
    big, gap = (float(len(members)), 1.0) if order == "integer" else (2.0, 1.0 / (10 * len(members)))
    place: dict[int, int] = {}
    if order != "none":
        for c in members:
            place[c] = len(found.cost)
            found.cost.append(0.0)
            found.lower.append(0.0)
            found.upper.append(max(top, 1.0))
    for i, c in enumerate(problem.eclass):
        for d in problem.children[i]:
            found.add([i, *members[d]], [1.0] + [-1.0] * len(members[d]), -math.inf, 0.0)
            if place:
                # t_c - t_d + big (1 - x_i) ≥ gap
                found.add([place[c], place[d], i], [1.0, -1.0, -big], gap - big, math.inf)
    return found


def solve_tensat(
    name: str,
    problem: Problem,
    start: Mapping[int, int] | None,
    seconds: float,
    *,
    tell: Tell = lambda picked, bound, cuts: None,
    hear: Hear = lambda: None,
) -> Solved:
    """Solve Tensat's program as it was: no start, no reductions; ``start`` only scales the costs."""
    import highspy

    until = time.perf_counter() + seconds
    order = {"tensat": "real", "tensat-integer": "integer", "tensat-filtered": "none"}[name]
    rows = tensat_program(problem, order)
    cost = selection_cost(problem, start) if start is not None else math.inf
    scale = SCALE / cost if 0.0 < cost < math.inf else 1.0
    rows.cost = [c * scale for c in rows.cost]
    model = highs_model(rows)
    if order == "integer":
        kinds = list(model.integrality_)
        first = len(problem.nodes) + len(rows.members)
        kinds[first:] = [highspy.HighsVarType.kInteger] * (len(kinds) - first)
        model.integrality_ = kinds
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0), ("mip_rel_gap", 0.0)):
        solver.setOptionValue(option, value)
    solver.setOptionValue("time_limit", max(0.01, until - time.perf_counter()))
    solver.passModel(model)
    best: dict[int, int] | None = None
    bound = 0.0

    def offer(values: Any) -> None:
        nonlocal best
        picked = rows.picked(values)
        if not unfounded(problem, picked):
            best = picked
            tell(best, bound, 0)

    def bounding(event: Any) -> None:
        nonlocal bound
        if math.isfinite(event.data_out.mip_dual_bound) and event.data_out.mip_dual_bound / scale > bound:
            bound = event.data_out.mip_dual_bound / scale
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
