"""Exact extraction part by part."""

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, problem_of, random_egraph, random_problem
from workbench.extraction.exact import solve as module
from workbench.extraction.exact.solve import solve


def repeated(egraph, costs, times):
    """Return an e-graph whose root reads several copies of another one, and its costs."""
    nodes, prices = [(0, [1 + k * egraph.n_classes + r for k in range(times) for r in egraph.roots])], [0.5]
    for k in range(times):
        first = 1 + k * egraph.n_classes
        for i, c in enumerate(egraph.eclass.tolist()):
            nodes.append((first + c, [first + d for d in egraph.operands(i).tolist()]))
            prices.append(costs[i])
    return egraph_of(nodes), np.array(prices)


def test_copies_cost_the_same():
    solved = 0
    for seed in range(150):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(*repeated(egraph, costs, 3))
        *_, found = solve(problem, None, 60.0)
        assert found.proved
        assert found.bound == pytest.approx(3 * best + 0.5 if problem.roots else 0.0)
        solved += 1
    assert solved > 50


def test_small_parts_take_cutting_planes_and_no_process(monkeypatch):
    def unused(*_, **__):
        raise AssertionError("no solver but cutting planes is needed")

    problem = random_problem(11)
    monkeypatch.setattr(module, "SolverProcess", unused)
    monkeypatch.setattr(module, "EASY_SECONDS", 60.0)
    *_, before = solve(problem, None, 60.0)
    asked = []

    def by_cuts(part, *arguments, **options):
        asked.append(part)
        return solved_by_cuts(part, *arguments, **options)

    solved_by_cuts = module.solve_by_cuts
    monkeypatch.setattr(module, "solve_by_cuts", by_cuts)
    monkeypatch.setattr(module, "solve_highs", unused)
    monkeypatch.setattr(module, "MIN_CUT_SIZE", 0)
    *_, found = solve(problem, None, 60.0)
    assert asked
    assert found.proved
    assert before.proved
    assert found.bound == pytest.approx(before.bound)
