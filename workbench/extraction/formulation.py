"""The integer program as a PuLP model: to read, to write to a file, to hand to another solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.extraction.cycles import break_cycles
from workbench.extraction.egraph import EGraph
from workbench.extraction.extract import ages, extract
from workbench.extraction.problem import Problem, check_costs, make_problem, tree_costs
from workbench.extraction.program import program


def pulp_problem(egraph: EGraph, costs: np.ndarray) -> Any:
    """Return the program that :func:`~workbench.extraction.exact.solve` solves, as ``pulp.LpProblem``.

    Cycles are broken first, around the best greedy selection; nothing else is reduced. Variable
    ``x_7`` takes e-node 7, ``y_3`` builds e-class 3.

    >>> model = pulp_problem(egraph, costs)     # doctest: +SKIP
    >>> print(model); model.writeLP("model.lp") # doctest: +SKIP
    >>> model.solve(pulp.HiGHS())               # doctest: +SKIP
    """
    import pulp

    problem = _cycle_free(egraph, costs)
    rows = program(problem)
    names = [f"x_{i}" for i in problem.nodes] + [f"y_{c}" for c in rows.classes]
    variables = [
        pulp.LpVariable(name, low, 1, pulp.LpBinary if name[0] == "x" else pulp.LpContinuous)
        for name, low in zip(names, rows.lower, strict=True)
    ]
    model = pulp.LpProblem("extraction", pulp.LpMinimize)
    model += pulp.lpSum(c * v for c, v in zip(rows.cost, variables, strict=True) if c)
    for k in range(len(rows.row_lower)):
        span = range(rows.start[k], rows.start[k + 1])
        total = pulp.lpSum(rows.value[j] * variables[rows.index[j]] for j in span)
        model += (total == 0) if rows.row_lower[k] == 0 else (total <= 0)
    return model


def tensat_problem(egraph: EGraph, costs: np.ndarray, *, integer_order: bool = False) -> Any:
    """Return Tensat's own formulation: rows per e-node and child, order variables against cycles.

    MLSys 2021, section 5.2. ``integer_order`` chooses integer order variables instead of real ones.
    For comparison: it is the slower one by orders of magnitude.
    """
    import pulp

    values = check_costs(egraph, costs)
    count = egraph.n_classes
    members = egraph.members()
    x = [pulp.LpVariable(f"x_{i}", 0, 1, pulp.LpBinary) for i in range(len(egraph))]
    top = count - 1 if integer_order else 1
    kind = pulp.LpInteger if integer_order else pulp.LpContinuous
    order = [pulp.LpVariable(f"t_{c}", 0, max(top, 1), kind) for c in range(count)]
    big, gap = (count, 1.0) if integer_order else (2, 1 / (10 * count))
    model = pulp.LpProblem("tensat", pulp.LpMinimize)
    model += pulp.lpSum(float(c) * v for c, v in zip(values, x, strict=True) if c)
    for root in egraph.roots:
        model += pulp.lpSum(x[i] for i in members[root]) == 1
    for i, c in enumerate(egraph.eclass.tolist()):
        for d in dict.fromkeys(egraph.operands(i).tolist()):
            if d == c:
                model += x[i] == 0
                continue
            model += pulp.lpSum(x[j] for j in members[d]) - x[i] >= 0
            model += order[c] - order[d] + big * (1 - x[i]) >= gap
    return model


def _cycle_free(egraph: EGraph, costs: np.ndarray) -> Problem:
    values = check_costs(egraph, costs)
    best, choice = tree_costs(egraph, values)
    problem = make_problem(egraph, values, best, choice)
    greedy = extract(egraph, values, "dag").choice
    return break_cycles(problem, frozenset(greedy[greedy >= 0].tolist()), ages(egraph)).problem
