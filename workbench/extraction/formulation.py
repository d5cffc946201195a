"""Integer programs as PuLP models: to read, to write to a file, to hand to another solver."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.extraction.egraph import EGraph
from workbench.extraction.loops import pair_formulas
from workbench.extraction.must import must_sets
from workbench.extraction.problem import Problem, check_costs, make_problem, tree_costs
from workbench.extraction.program import Program, program
from workbench.extraction.tensat import tensat_program


def pulp_problem(egraph: EGraph, costs: np.ndarray) -> Any:
    """Return the integer program of an extraction as ``pulp.LpProblem``; its optimum is the e-graph's.

    The rows are those that :func:`~workbench.extraction.highs.solve_highs` gives to HiGHS, before any
    reduction. What it adds while it runs stands here from the start: loop formulas of pairs, and
    numbers that order the e-classes of every strongly connected component, so that no cyclic selection
    is feasible. Variable ``x_7`` takes e-node 7, ``y_3`` builds e-class 3, ``t_3`` is its number.
    E-classes with a term that costs nothing are left out: taking it is always best.

    Raise :class:`~workbench.extraction.problem.NoExtraction` for costs that cannot be used, and for a root
    without a finite term.

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


def tensat_problem(egraph: EGraph, costs: np.ndarray, *, integer_order: bool = False) -> Any:
    """Return Tensat's own program: rows per e-node and child, order variables against cycles.

    MLSys 2021, section 5.2; the program that the methods ``"tensat"`` and ``"tensat-integer"`` solve.
    ``integer_order`` chooses integer order variables instead of real ones. For comparison: it is the
    slower one by orders of magnitude.
    """
    order = "integer" if integer_order else "real"
    return pulp_model("tensat", tensat_program(_problem(egraph, costs), order))


def pulp_model(name: str, rows: Program) -> Any:
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


def _problem(egraph: EGraph, costs: np.ndarray) -> Problem:
    values = check_costs(egraph, costs)
    best, choice = tree_costs(egraph, values)
    return make_problem(egraph, values, best, choice)
