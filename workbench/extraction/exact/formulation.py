"""Integer programs of extractions as PuLP models: to read, to write to a file, to pass to another solver."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.cycle_constraints import pair_formulas
from workbench.extraction.exact.ilp import Program, program
from workbench.extraction.exact.tensat import tensat_program
from workbench.extraction.problem import (
    NoExtraction,
    Problem,
    check_costs,
    make_problem,
    tree_costs,
)
from workbench.extraction.reduce.dominators import must_sets

if TYPE_CHECKING:
    import pulp


def pulp_problem(egraph: EGraph, costs: np.ndarray) -> pulp.LpProblem:
    """Return the integer program of an extraction as ``pulp.LpProblem``; its optimum is the e-graph's.

    The rows are those that :func:`~workbench.extraction.exact.highs.solve_highs` gives to HiGHS before any
    reduction. Rows that it adds during the solve are included from the start: loop formulas of pairs, and
    numbers that order the e-classes of every strongly connected component, so that no cyclic selection
    is feasible. Variable ``x_7`` takes e-node 7, ``y_3`` builds e-class 3, ``t_3`` is its number.
    E-classes with a term that costs nothing are left out, because taking that term is always best.

    Raise :class:`~workbench.extraction.problem.NoExtraction` if the costs cannot be used or a root has no
    finite term.

    >>> model = pulp_problem(egraph, costs)     # doctest: +SKIP
    >>> print(model); model.writeLP("model.lp") # doctest: +SKIP
    >>> model.solve(pulp.HiGHS())               # doctest: +SKIP
    """
    problem = _problem(egraph, costs)
    must = must_sets(problem)
    rows = program(problem, must.needed() if must is not None else ())
    if must is not None:
        rows.add_formulas(pair_formulas(problem, must))
    rows.add_order()
    return pulp_model("extraction", rows)


def tensat_problem(egraph: EGraph, costs: np.ndarray, *, integer_order: bool = False) -> pulp.LpProblem:
    """Return Tensat's own program: one row per e-node and child, and order variables against cycles.

    See MLSys 2021, section 5.2. The methods ``"tensat"`` and ``"tensat-integer"`` solve this program.
    ``integer_order`` selects integer order variables instead of real ones. The program serves for
    comparison: it is slower than :func:`pulp_problem` by orders of magnitude.
    """
    order = "integer" if integer_order else "real"
    return pulp_model("tensat", tensat_program(_problem(egraph, costs), order))


def pulp_model(name: str, rows: Program) -> pulp.LpProblem:
    """Return a program as ``pulp.LpProblem``."""
    import pulp

    names = [f"x_{i}" for i in rows.problem.nodes] + [f"y_{c}" for c in rows.classes]
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
            continue
        if low > -math.inf:
            model += total >= low
        if high < math.inf:
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
    return _problem(egraph, costs).selection({int(egraph.eclass[i]): i for i in chosen})


def _problem(egraph: EGraph, costs: np.ndarray) -> Problem:
    values = check_costs(egraph, costs)
    best, choice = tree_costs(egraph, values)
    return make_problem(egraph, values, best, choice)
