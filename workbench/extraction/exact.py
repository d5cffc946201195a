"""Exact extraction from a problem without cycles: an aggregated integer program in HiGHS.

Binary ``x_i`` takes candidate ``i``; ``y_c`` says that e-class ``c`` is built. Every built e-class has
one candidate, ``Σ x_i = y_c``, and a child is built when candidates that read it are taken: one row
``Σ x_i ≤ y_d`` for each pair of an e-class and a child, not one for each candidate and child.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.extraction.components import split
from workbench.extraction.presolve import lower_bound, must_sets
from workbench.extraction.problem import Problem

#: Problems with fewer candidates are solved in place: a thread and its polling cost more than they do.
QUICK = 500
#: Parts with at most this many selections are tried out.
TINY = 256


@dataclass(frozen=True, slots=True)
class Rows:
    """Hold the integer program: columns ``x`` (candidates) then ``y`` (e-classes), and sparse rows."""

    cost: list[float]
    lower: list[float]
    classes: list[int]
    start: list[int]
    index: list[int]
    value: list[float]
    row_lower: list[float]
    row_upper: list[float]


@dataclass(frozen=True, slots=True)
class Solved:
    """Hold what a solver found: e-class → e-node (None where nothing better), bound, proof."""

    taken: dict[int, int] | None
    bound: float
    proved: bool
    interrupted: bool = False


def program(problem: Problem, must_roots: int | None = None) -> Rows:
    """Return the integer program of a problem without cycles."""
    members = problem.members()
    classes = list(members)
    column = {c: len(problem.nodes) + k for k, c in enumerate(classes)}
    must = must_sets(problem)
    needed = must.of_roots if must_roots is None else must_roots
    fixed = {c for c, k in must.position.items() if needed >> k & 1}
    rows = Rows(
        cost=[*problem.cost, *([0.0] * len(classes))],
        lower=[*([0.0] * len(problem.nodes)), *(1.0 if c in fixed else 0.0 for c in classes)],
        classes=classes,
        start=[0],
        index=[],
        value=[],
        row_lower=[],
        row_upper=[],
    )

    def add(columns: list[int], values: list[float], low: float, high: float) -> None:
        rows.index.extend(columns)
        rows.value.extend(values)
        rows.start.append(len(rows.index))
        rows.row_lower.append(low)
        rows.row_upper.append(high)

    for c, candidates in members.items():
        add([*candidates, column[c]], [1.0] * len(candidates) + [-1.0], 0.0, 0.0)
        readers: dict[int, list[int]] = {}
        for i in candidates:
            for d in problem.children[i]:
                readers.setdefault(d, []).append(i)
        for d, taking in readers.items():
            if len(taking) == len(candidates):
                add([column[c], column[d]], [1.0, -1.0], -math.inf, 0.0)
            else:
                add([*taking, column[d]], [1.0] * len(taking) + [-1.0], -math.inf, 0.0)
    return rows


def load_solver() -> None:
    """Import HiGHS and scipy's graph routines (up to a second), so that it does not count as solving."""
    import highspy  # noqa: F401
    import scipy.sparse.csgraph  # noqa: F401


def solve(
    problem: Problem,
    incumbent: dict[int, int] | None,
    seconds: float,
    improved: Callable[[float, float], None] | None = None,
) -> Solved:
    """Solve a problem without cycles to proven optimality, or as far as ``seconds`` allow.

    Independent parts are solved one after another. ``incumbent`` maps e-classes to e-nodes and warms
    the solver up; ``improved(cost, bound)`` is told of better solutions. Ctrl-C ends the solver and
    keeps what it has.
    """
    until = time.perf_counter() + seconds
    parts = split(problem)
    costs = [_incumbent_cost(p, incumbent) for p in parts]
    bounds = [lower_bound(p, must_sets(p)) for p in parts]
    taken: dict[int, int] = {}
    proved, complete, interrupted = True, True, False
    solved: dict[Shape, tuple[list[int], float]] = {}  # a network repeats its blocks
    # The easy parts first: when time runs out, as much as possible is settled.
    for k in sorted(range(len(parts)), key=lambda k: (len(parts[k].nodes), k)):
        part = parts[k]

        def report(cost: float, bound: float, k: int = k) -> None:
            if improved is not None:
                others = math.fsum(costs) - costs[k]
                improved(others + cost, math.fsum(bounds) - bounds[k] + bound)

        shape = _shape(part)
        if shape in solved:
            picked, cost = solved[shape]
            found = Solved({part.eclass[i]: part.nodes[i] for i in picked}, cost, proved=True)
        else:
            found = _solve_part(part, incumbent, until - time.perf_counter(), report)
            if found.proved and found.taken is not None:
                chosen = set(found.taken.values())
                picked = [i for i, node in enumerate(part.nodes) if node in chosen]
                solved[shape] = (picked, found.bound)
        bounds[k] = max(bounds[k], found.bound)
        proved &= found.proved
        interrupted |= found.interrupted
        if found.taken is None:
            complete = False
            continue
        taken |= found.taken
        costs[k] = min(costs[k], _incumbent_cost(part, found.taken))
    bound = math.fsum(bounds)
    return Solved(taken if complete else None, bound, proved and complete, interrupted)


Shape = tuple[tuple[int, ...], tuple[float, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


def _shape(part: Problem) -> Shape:
    """Return a part with its e-classes renumbered: equal for parts that are the same problem."""
    number: dict[int, int] = {}
    for c in part.eclass:
        number.setdefault(c, len(number))
    return (
        tuple(number[c] for c in part.eclass),
        tuple(part.cost),
        tuple(tuple(sorted(number[d] for d in row)) for row in part.children),
        tuple(sorted(number[r] for r in part.roots)),
    )


def _incumbent_cost(part: Problem, incumbent: dict[int, int] | None) -> float:
    """Return what a selection costs within a part, infinite where it lacks something."""
    if incumbent is None:
        return math.inf
    place = {node: i for i, node in enumerate(part.nodes)}
    seen: set[int] = set()
    stack = list(part.roots)
    total = 0.0
    while stack:
        c = stack.pop()
        if c in seen:
            continue
        seen.add(c)
        i = place.get(incumbent.get(c, -1), -1)
        if i < 0:
            return math.inf
        total += part.cost[i]
        stack += part.children[i]
    return total


def _solve_part(
    problem: Problem,
    incumbent: dict[int, int] | None,
    seconds: float,
    improved: Callable[[float, float], None],
) -> Solved:
    members = problem.members()
    if not any(problem.children):
        # Nothing depends on the choice: the cheapest candidate of each e-class.
        cheapest = {c: min(m, key=lambda i: problem.cost[i]) for c, m in members.items()}
        cost = math.fsum(problem.cost[i] for i in cheapest.values())
        return Solved({c: problem.nodes[i] for c, i in cheapest.items()}, cost, proved=True)
    if all(len(candidates) == 1 for candidates in members.values()):
        single = {c: problem.nodes[candidates[0]] for c, candidates in members.items()}
        return Solved(single, math.fsum(problem.cost), proved=True)
    if math.prod(len(candidates) for candidates in members.values()) <= TINY:
        return _enumerate(problem, members)
    import highspy

    rows = program(problem)
    model = highspy.HighsLp()
    n = len(rows.cost)
    model.num_col_, model.num_row_ = n, len(rows.row_lower)
    model.col_cost_ = np.array(rows.cost)
    model.col_lower_, model.col_upper_ = np.array(rows.lower), np.ones(n)
    model.row_lower_, model.row_upper_ = np.array(rows.row_lower), np.array(rows.row_upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.start)
    model.a_matrix_.index_ = np.array(rows.index)
    model.a_matrix_.value_ = np.array(rows.value)
    kinds = [highspy.HighsVarType.kInteger] * len(problem.nodes)
    model.integrality_ = kinds + [highspy.HighsVarType.kContinuous] * (n - len(kinds))
    solver = highspy.Highs()
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "time_limit": max(0.01, float(seconds)),
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 1e-7,
    }
    if len(problem.nodes) < QUICK:
        # Presolve and cut management are worth their time on large problems only (measured: 2x).
        options |= {"presolve": "off", "mip_heuristic_effort": 0.0, "mip_pool_soft_limit": 100}
    for name, option in options.items():
        solver.setOptionValue(name, option)
    solver.passModel(model)
    if incumbent is not None:
        _warm(solver, highspy, problem, rows, incumbent)

    def report(event: object) -> None:
        data = event.data_out  # type: ignore[attr-defined]
        improved(float(data.objective_function_value), float(data.mip_dual_bound))

    solver.cbMipImprovingSolution += report
    interrupted = False
    try:
        _run(solver, len(problem.nodes))
    except KeyboardInterrupt:
        interrupted = True
    info, status = solver.getInfo(), solver.getModelStatus()
    proved = status == highspy.HighsModelStatus.kOptimal and not interrupted
    floor = lower_bound(problem, must_sets(problem))
    bound = float(info.mip_dual_bound)
    bound = max(floor, bound) if math.isfinite(bound) else floor
    values = solver.getSolution().col_value
    if info.primal_solution_status != 2 or not values:
        return Solved(None, bound, proved=False, interrupted=interrupted)
    # The solver's word is checked: the candidates themselves are read, not its objective.
    taken = {c: problem.nodes[max(candidates, key=lambda i: values[i])] for c, candidates in members.items()}
    return Solved(taken, bound, proved, interrupted)


def _enumerate(problem: Problem, members: dict[int, list[int]]) -> Solved:
    """Try every selection of a small part."""
    best, choice = math.inf, dict.fromkeys(members, -1)
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(members, picked, strict=True))
        seen: set[int] = set()
        stack = list(problem.roots)
        cost = 0.0
        while stack and cost < best:
            c = stack.pop()
            if c not in seen:
                seen.add(c)
                cost += problem.cost[of_class[c]]
                stack += problem.children[of_class[c]]
        if cost < best:
            best, choice = cost, of_class
    return Solved({c: problem.nodes[i] for c, i in choice.items()}, best, proved=True)


def _run(solver: object, size: int) -> None:
    """Run the solver; where that may take long, in a thread, so that Ctrl-C reaches it."""
    if size < QUICK:
        solver.run()  # type: ignore[attr-defined]
        return
    solver.HandleKeyboardInterrupt = True  # type: ignore[attr-defined]
    solver.HandleUserInterrupt = True  # type: ignore[attr-defined]
    solver.solve()  # type: ignore[attr-defined]


def _warm(solver: object, highspy: object, problem: Problem, rows: Rows, incumbent: dict[int, int]) -> None:
    values = [0.0] * len(rows.cost)
    place = {node: i for i, node in enumerate(problem.nodes)}
    column = {c: len(problem.nodes) + k for k, c in enumerate(rows.classes)}
    stack = list(problem.roots)
    while stack:
        c = stack.pop()
        if values[column[c]]:
            continue
        i = place.get(incumbent.get(c, -1), -1)
        if i < 0:
            return  # presolve has left out a part of it for something as good
        values[column[c]] = values[i] = 1.0
        stack += problem.children[i]
    solution = highspy.HighsSolution()  # type: ignore[attr-defined]
    solution.col_value = values
    solver.setSolution(solution)  # type: ignore[attr-defined]
