"""Exact extraction by dynamic programming over tree decompositions, against brute force."""

import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph, random_problem
from tests.extraction.problems import chain
from workbench.extraction.exact.dynamic import MAX_WIDTH, Sparse, by_width, decomposition, solve_dynamic
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.types import Job
from workbench.extraction.methods import treewidth
from workbench.extraction.problem import NoExtraction


def solved(problem, **options):
    sparse = Sparse.of(problem)
    return solve_dynamic(problem, sparse, decomposition(sparse), math.inf, **options)


def test_small_problems_with_and_without_cycles():
    cyclic = plain = 0
    for seed in range(700):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        problem = problem_of(egraph, costs)
        if not problem.roots:
            continue
        found = solved(problem)
        assert not problem.loops(found.picked)
        assert problem.cost_of(found.picked) == pytest.approx(least(problem))
        assert found.bound == pytest.approx(least(problem))
        assert found.proved
        loops = any(x >= 0 for x in Sparse.of(problem).loops)
        cyclic, plain = cyclic + loops, plain + (not loops)
    assert cyclic >= 50
    assert plain >= 100


@pytest.mark.slow
@pytest.mark.parametrize("back", [0.0, 0.06])
def test_larger_problems_as_a_solver_has_them(back):
    compared = 0
    for seed in range(12):
        try:
            problem = random_problem(seed, classes=40, arity=2, members=3, back=back)
        except NoExtraction:
            continue
        found = solved(problem, states=30_000)
        if found is None:
            continue
        expected = solve_highs(Job(problem, None, None, 1e5))
        assert expected.proved
        assert not problem.loops(found.picked)
        assert problem.cost_of(found.picked) == pytest.approx(expected.bound, rel=1e-5)
        compared += 1
    assert compared >= 4


def test_a_deep_narrow_problem_takes_few_states():
    problem = problem_of(*chain(1500, candidates=1))
    width, found = by_width(problem, math.inf)
    assert width <= 2
    assert found.bound == pytest.approx(problem.cost_of(found.picked))


def test_too_many_states_or_no_time_give_no_answer():
    problem = random_problem(3, classes=60, back=0.0)
    sparse = Sparse.of(problem)
    tree = decomposition(sparse)
    assert solve_dynamic(problem, sparse, tree, math.inf, states=10) is None
    assert solve_dynamic(problem, sparse, tree, -math.inf) is None


def test_a_wide_problem_is_measured_but_not_solved():
    classes = range(12)
    nodes = [(a, [b]) for a in classes for b in classes if a != b] + [(3, [])]
    width, found = by_width(problem_of(egraph_of(nodes), np.ones(len(nodes))), math.inf)
    assert width == 11
    assert found is None


def test_the_width_of_a_large_problem_or_without_time_is_not_known(monkeypatch):
    problem = random_problem(3, classes=60, back=0.0)
    assert by_width(problem, -math.inf) == (None, None)
    assert by_width(problem, math.inf)[0] > 3
    monkeypatch.setattr("workbench.extraction.exact.dynamic.MAX_CANDIDATES", 10)
    assert by_width(problem, math.inf) == (None, None)


def test_a_width_above_the_widest_of_interest():
    classes = range(40)
    nodes = [(a, [b]) for a in classes for b in classes if a != b] + [(3, [])]
    assert by_width(problem_of(egraph_of(nodes), np.ones(len(nodes))), math.inf) == (31, None)


def test_an_extraction_reports_the_treewidth_of_its_parts():
    assert treewidth(5) == {"treewidth at most": 5}
    assert treewidth(MAX_WIDTH + 1) == {"treewidth above": MAX_WIDTH}
    assert treewidth(None) == treewidth(0) == {}
