import math

import pytest

from tests.extraction.egraphs import brute_force, problem_of, random_egraph, random_problem
from tests.extraction.problems import merged
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.lns import solve_lns
from workbench.extraction.exact.types import Job, Link
from workbench.extraction.greedy.dag import greedy, settle


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give every neighbourhood the time it needs, so that no result depends on the clock."""
    monkeypatch.setattr("workbench.extraction.exact.lns.NEIGHBOURHOOD_SECONDS", 1e5)


def begin(problem):
    place = {node: i for i, node in enumerate(problem.nodes)}
    return {c: place[n] for c, n in greedy(problem).taken.items()}


def plain(problem):
    """Return a poor start: the selection of least tree cost."""
    return {c: i for c, i in enumerate(settle(problem, problem.cost).choice) if i >= 0}


def test_a_small_problem_is_one_neighbourhood_and_so_is_solved():
    solved = 0
    for seed in range(150):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        found = solve_lns(Job(problem, None, begin(problem), math.inf), turns=30, seed=seed)
        cost = problem.cost_of(found.picked)
        assert not problem.loops(found.picked)
        assert cost >= best - 1e-9
        if found.proved:
            assert cost == pytest.approx(best)
            assert found.bound == pytest.approx(best)
            solved += 1
    assert solved >= 30


def test_neighbourhoods_lead_to_the_optimum_that_a_solver_proves():
    problem = problem_of(*merged(6, 6))
    start = plain(problem)
    found = solve_lns(Job(problem, None, start, math.inf), turns=25)
    exact = solve_highs(Job(problem, None, None, 1e5))
    assert exact.proved
    assert not problem.loops(found.picked)
    least = problem.cost_of(exact.picked)
    assert least < 0.95 * problem.cost_of(start)
    assert problem.cost_of(found.picked) == pytest.approx(least)


def test_every_better_selection_is_reported_and_is_acyclic():
    problem = problem_of(*merged(5, 6, seed=1))
    start = plain(problem)
    costs = [problem.cost_of(start)]

    def tell(picked, bound, cuts):
        assert not problem.loops(picked)
        costs.append(problem.cost_of(picked))

    found = solve_lns(Job(problem, None, start, math.inf), Link(tell=tell), turns=15)
    assert costs == sorted(costs, reverse=True)
    assert len(costs) > 1
    assert problem.cost_of(found.picked) == pytest.approx(costs[-1])


def test_a_better_selection_that_is_heard_is_taken():
    problem = random_problem(6, classes=80)
    best = solve_highs(Job(problem, None, None, 30.0)).picked
    heard = iter([best])
    found = solve_lns(
        Job(problem, None, plain(problem), math.inf), Link(hear=lambda: next(heard, None)), turns=1
    )
    assert problem.cost_of(found.picked) == pytest.approx(problem.cost_of(best))


def test_equal_seeds_give_equal_selections():
    problem = random_problem(7, classes=100)
    runs = [
        solve_lns(Job(problem, None, plain(problem), math.inf), turns=10, seed=3).picked for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_no_time_leaves_the_start():
    problem = random_problem(8, classes=40)
    start = begin(problem)
    found = solve_lns(Job(problem, None, start, -1.0))
    assert found.picked == start
    assert not found.proved
