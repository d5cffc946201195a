"""The integer program of an extraction, as sparse rows.

The binary variable ``x_i`` takes candidate ``i``, and ``y_c`` builds e-class ``c``. Every built e-class has
one candidate, ``Σ x_i = y_c``. A child is built when candidates that read it are taken: there is one row
``Σ x_i ≤ y_d`` per pair of an e-class and a child, instead of one per candidate and child. Cycles are
excluded by loop formulas (:mod:`~workbench.extraction.exact.cycle_constraints`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.cycle_constraints import Formula, pair_formulas
from workbench.extraction.problem import NoExtraction, Problem
from workbench.extraction.reduce.cycles import components, cyclic
from workbench.extraction.reduce.dominators import must_sets
from workbench.support.orders import postorder

if TYPE_CHECKING:
    import highspy
    import pulp


@dataclass(slots=True, eq=False)
class Program:
    """Columns ``x`` (candidates), ``y`` (e-classes) and others, with a growing list of sparse rows.

    ``column`` maps e-classes to their ``y`` columns, ``order`` to the columns of the numbers that exclude
    cycles. ``whole`` marks the integer columns.
    """

    problem: Problem
    members: dict[int, list[int]]
    column: dict[int, int]
    cost: list[float]
    lower: list[float]
    upper: list[float]
    whole: list[bool]
    start: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    order: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, built: Iterable[int] = ()) -> Program:
        """Return a program without rows; ``y`` is at least 1 for the e-classes in ``built``."""
        members = problem.members()
        count, fixed = len(problem.nodes), frozenset(built)
        return cls(
            problem,
            members,
            {c: count + k for k, c in enumerate(members)},
            [*problem.cost, *([0.0] * len(members))],
            [*([0.0] * count), *(1.0 if c in fixed else 0.0 for c in members)],
            [1.0] * (count + len(members)),
            [*([True] * count), *([False] * len(members))],
        )

    def add_column(self, most: float, *, whole: bool = False) -> int:
        """Add a column with values from 0 to ``most`` and no cost; return its index."""
        self.cost.append(0.0)
        self.lower.append(0.0)
        self.upper.append(most)
        self.whole.append(whole)
        return len(self.cost) - 1

    def add(self, columns: Sequence[int], values: Sequence[float], low: float, high: float) -> None:
        """Add the row ``low ≤ Σ value · column ≤ high``.

        Args:
            columns: The indices of the columns in the row.
            values: The coefficient of each of these columns.
            low: The lower bound, or minus infinity.
            high: The upper bound, or infinity.
        """
        self.index.extend(columns)
        self.value.extend(values)
        self.start.append(len(self.index))
        self.row_lower.append(low)
        self.row_upper.append(high)

    def add_formulas(self, formulas: Iterable[Formula]) -> int:
        """Add loop formulas; return the number of added rows."""
        before = len(self.row_lower)
        for formula in formulas:
            taken = [formula.taken] if formula.taken else []
            for columns in [*taken, *((self.column[j],) for j in formula.built)]:
                values = [1.0] * len(columns) + [-1.0] * len(formula.by)
                self.add([*columns, *formula.by], values, -math.inf, 0.0)
        return len(self.row_lower) - before

    def add_order(self) -> None:
        """Add numbers for the e-classes of each strongly connected component, larger for children.

        The relaxation is weak, but no loop remains feasible: ``t_d - t_c ≥ 1 - n (1 - Σ x_i)`` over the
        candidates of ``c`` that read ``d``, in a component of ``n`` e-classes.
        """
        component = components(self.problem)
        loops = cyclic(self.problem, component)
        order = {c: self.add_column(size - 1.0) for c, size in loops.items()}
        for c, count in loops.items():
            size = float(count)
            for d, taking in self.problem.readers(self.members[c]).items():
                if d in order and component[d] == component[c]:
                    columns = [order[c], order[d], *taking]
                    self.add(columns, [1.0, -1.0, *([size] * len(taking))], -math.inf, size - 1.0)
        self.order = order

    def pass_to(self, solver: highspy.Highs, first: int) -> None:
        """Add the rows from ``first`` on to a solver that has the earlier ones."""
        begin = self.start[first]
        index = np.array(self.index[begin:], dtype=np.int32)
        solver.addRows(
            len(self.row_lower) - first,
            np.array(self.row_lower[first:]),
            np.array(self.row_upper[first:]),
            len(index),
            np.array(self.start[first:-1], dtype=np.int32) - begin,
            index,
            np.array(self.value[begin:]),
        )

    def point(self, picked: Mapping[int, int]) -> list[float] | None:
        """Return a selection (e-class → candidate) as column values, or None if it is incomplete."""
        values = [0.0] * len(self.cost)
        try:
            needed = self.problem.needed(picked)
        except KeyError:
            return None
        for c, i in needed.items():
            values[self.column[c]] = values[i] = 1.0
        if self.order:
            for c, place in _depths(self.problem, picked).items():
                if c in self.order:
                    values[self.order[c]] = min(float(place), self.upper[self.order[c]])
        return values

    def picked(self, values: Sequence[float]) -> dict[int, int]:
        """Return for every e-class the candidate with the largest value in a solution."""
        return {c: max(of_class, key=lambda i: values[i]) for c, of_class in self.members.items()}


def program(problem: Problem, needed: Iterable[int] = ()) -> Program:
    """Return the integer program; solutions have the ``needed`` e-classes, and rows bar loops if a cost is negative."""
    fixed = {*problem.roots, *needed}
    found = Program.of(problem, fixed)
    for c, of_class in found.members.items():
        column = found.column[c]
        found.add([*of_class, column], [1.0] * len(of_class) + [-1.0], 0.0, 0.0)
        for d, taking in problem.readers(of_class).items():
            if d in fixed:
                continue
            left = [column] if len(taking) == len(of_class) else taking
            found.add([*left, found.column[d]], [1.0] * len(left) + [-1.0], -math.inf, 0.0)
    if any(cost < 0.0 for cost in problem.cost):
        # What gains is built only if it is read, and not by a loop of its own.
        reading = problem.readers()
        for c in found.members.keys() - fixed:
            by = reading.get(c, [])
            found.add([found.column[c], *by], [1.0] + [-1.0] * len(by), -math.inf, 0.0)
        found.add_order()
    return found


def _depths(problem: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return for every e-class of a selection the longest path to it inside its component of the problem."""
    component = components(problem)
    depth = dict.fromkeys(problem.roots, 0)
    for c in reversed(postorder(problem.roots, lambda c: problem.children[picked[c]])):
        for d in problem.children[picked[c]]:
            inside = component[c] == component[d]
            depth[d] = max(depth.get(d, 0), depth[c] + 1 if inside else 0)
    return depth


def highs_solver(
    found: Program, until: float, *, integer: bool = True, **options: bool | int | float | str
) -> highspy.Highs:
    """Return HiGHS with a program or its relaxation, on one thread, without output, and with the deadline ``until``."""
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(found.cost), len(found.row_lower)
    model.col_cost_ = np.array(found.cost)
    model.col_lower_, model.col_upper_ = np.array(found.lower), np.array(found.upper)
    model.row_lower_, model.row_upper_ = np.array(found.row_lower), np.array(found.row_upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(found.start)
    model.a_matrix_.index_ = np.array(found.index)
    model.a_matrix_.value_ = np.array(found.value)
    if integer:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[whole] for whole in found.whole]
    solver = highspy.Highs()
    options |= {"output_flag": False, "threads": 1, "random_seed": 0}
    options["time_limit"] = max(0.01, until - time.perf_counter())
    for name, option in options.items():
        solver.setOptionValue(name, option)
    solver.passModel(model)
    return solver


# -- the program as a PuLP model: to read, to write to a file, to pass to another solver -------------
def pulp_problem(egraph: EGraph, costs: np.ndarray) -> pulp.LpProblem:
    """Return the integer program of an extraction as ``pulp.LpProblem``; its optimum is the e-graph's.

    The rows are those that :func:`~workbench.extraction.exact.highs.solve_highs` gives to HiGHS before any
    reduction. Rows that it adds during the solve are included from the start: loop formulas of pairs, and
    numbers that order the e-classes of every strongly connected component, so that no cyclic selection
    is feasible. Variable ``x_7`` takes e-node 7, ``y_3`` builds e-class 3, ``t_3`` is its number.
    E-classes with a term that costs nothing are left out, because taking that term is always best.

    Raise :class:`~workbench.extraction.problem.NoExtraction` if the costs cannot be used or a root has no
    finite term.
    """
    problem = Problem.of(egraph, costs)
    must = must_sets(problem)
    rows = program(problem, must.needed() if must is not None else ())
    if must is not None:
        rows.add_formulas(pair_formulas(problem, must))
    rows.add_order()
    return pulp_model("extraction", rows)


def pulp_model(name: str, rows: Program) -> pulp.LpProblem:
    """Return a program as ``pulp.LpProblem``."""
    import pulp

    names = [f"x_{i}" for i in rows.problem.nodes] + [f"y_{c}" for c in rows.members]
    names += [f"t_{c}" for c in rows.order]
    variables = [
        pulp.LpVariable(title, low, high, pulp.LpInteger if whole else pulp.LpContinuous)
        for title, low, high, whole in zip(names, rows.lower, rows.upper, rows.whole, strict=True)
    ]
    model = pulp.LpProblem(name, pulp.LpMinimize)
    model += pulp.lpSum(c * v for c, v in zip(rows.cost, variables, strict=True) if c)
    for k, (low, high) in enumerate(zip(rows.row_lower, rows.row_upper, strict=True)):
        span = range(rows.start[k], rows.start[k + 1])
        total = pulp.LpAffineExpression([(variables[rows.index[j]], rows.value[j]) for j in span])
        if low == high:
            model += total == low
        elif low > -math.inf:
            model += total >= low
        if low < high < math.inf:
            model += total <= high
    return model


def selection_of(egraph: EGraph, costs: np.ndarray, model: pulp.LpProblem) -> np.ndarray:
    """Return the selection of a solved model: the chosen e-node of every needed e-class, -1 for the others.

    E-classes with a term that costs nothing are not in the model; they get such a term. Raise
    :class:`~workbench.extraction.problem.NoExtraction` if the model has no solution yet.
    """
    values = {v.name: v.value() for v in model.variables() if v.name.startswith("x_")}
    if any(value is None for value in values.values()):
        raise NoExtraction("the model must be solved first (try model.solve(pulp.HiGHS(msg=False)))")
    chosen = [int(name[2:]) for name, value in values.items() if value > 0.5]
    return Problem.of(egraph, costs).selection({int(egraph.eclass[i]): i for i in chosen})
