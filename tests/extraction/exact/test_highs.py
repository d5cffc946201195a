import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, problem_of, random_egraph
from workbench.extraction.exact.highs import bound_highs, solve_highs
from workbench.extraction.exact.solve import start_of
from workbench.extraction.exact.types import Job
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.result import Limit


def test_a_bound_without_branching_is_at_most_the_optimum():
    exact = 0
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        start = start_of(problem, None, float("inf"))
        if not problem.roots:
            continue
        found = bound_highs(Job(problem, must_sets(problem), start, 5.0), slack=0.0)
        assert found.bound <= best + 1e-6
        assert found.picked == start
        exact += found.bound == pytest.approx(best)
    assert exact > 20


def test_formulas_without_loops_make_the_relaxation_exact():
    # Either way to the root ends at 3 or 4, which cost 10. Halves of everything would pay for half of it.
    nodes = [(0, [1]), (0, [2]), (1, [3]), (1, [4]), (2, [3]), (2, [4]), (3, []), (4, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, 1, 1, 1, 1, 1, 10, 10]))
    start = start_of(problem, None, float("inf"))
    found = bound_highs(Job(problem, must_sets(problem), start, 5.0), slack=0.0)
    assert found.bound == pytest.approx(12)
    assert problem.cost_of(start) == 12


def test_a_slack_ends_the_search_with_its_reason():
    egraph, costs = random_egraph(3)
    problem = problem_of(egraph, costs + 1)
    start = start_of(problem, None, float("inf"))
    found = solve_highs(Job(problem, must_sets(problem), start, 5.0), slack=1e6)
    assert not found.proved or found.bound == pytest.approx(problem.cost_of(found.picked))
    assert {e.limit for e in found.endings} <= {Limit.CLOSE}
