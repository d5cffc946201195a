"""Cutting planes before branch and bound, against enumeration and HiGHS alone."""

import random

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, solvable_egraph
from tests.extraction.problems import problem_of
from tests.sampled import in_turn
from workbench.extraction.exact import cuts
from workbench.extraction.exact.cuts import solve_by_cuts
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.types import Job
from workbench.extraction.greedy.dag import greedy
from workbench.extraction.reduce.dominators import must_sets


def started(problem):
    """Return a greedy selection of a problem by candidate."""
    place = {node: i for i, node in enumerate(problem.nodes)}
    return {c: place[node] for c, node in greedy(problem).items()}


def shared(seed, classes=60):
    """Return a problem with sharing and cycles whose relaxation is far below its optimum."""
    rng = random.Random(seed)
    rows = [
        (c, [min(classes, c + rng.randint(-2, 12)) for _ in range(2)])
        for c in range(1, classes)
        for _ in "abc"
    ]
    rows = [(c, [max(1, d) for d in row]) for c, row in rows]
    rows += [(0, [1, 2, 3]), *((c, []) for c in range(classes - 8, classes + 1))]
    costs = [rng.choice((1.0, 2.0, 5.0)) for _ in rows]
    return problem_of(egraph_of(rows), np.array(costs))


@pytest.mark.parametrize("seed", in_turn(range(60), 4))
def test_small_problems_are_solved(seed):
    egraph, costs, least = solvable_egraph(seed)
    problem = problem_of(egraph, costs)
    if not problem.roots:
        return
    found = solve_by_cuts(Job(problem, must_sets(problem), started(problem), 1e4))
    assert found.proved
    assert problem.cost_of(found.picked) == pytest.approx(least)
    assert found.bound == pytest.approx(least)


@pytest.mark.parametrize("seed", in_turn(range(6), 1, quick=3))
def test_larger_problems_are_solved_and_every_report_holds(seed):
    problem = shared(seed)
    must = must_sets(problem)
    expected = solve_highs(Job(problem, must, None, 1e4))
    least = problem.cost_of(expected.picked)
    assert expected.proved
    reports = []
    found = solve_by_cuts(
        Job(problem, must, started(problem), 1e4),
        lambda picked, bound, cuts: reports.append((picked, bound)),
    )
    assert found.proved
    assert not problem.loops(found.picked)
    assert problem.cost_of(found.picked) == pytest.approx(least)
    for picked, bound in reports:
        assert bound <= least * (1 + 1e-9)
        if picked is not None:
            assert not problem.loops(picked)
            assert problem.cost_of(picked) >= least * (1 - 1e-9)


@pytest.mark.slow
def test_no_share_of_the_time_decides_about_a_small_problem(monkeypatch):
    def reports(problem):
        told = []
        solve_by_cuts(Job(problem, must_sets(problem), started(problem), 1e4), lambda *one: told.append(one))
        return told

    problem = shared(1)
    small = reports(problem)
    monkeypatch.setattr(cuts, "ASCENT_SHARE", 0.0)
    assert len(small) > 1
    assert reports(problem) == small
    monkeypatch.setattr(cuts, "SMALL_SIZE", 0)
    assert reports(problem) != small


def test_with_a_limit_on_nodes_no_share_of_the_time_decides_about_any_problem(monkeypatch):
    problem = shared(1)
    monkeypatch.setattr(cuts, "SMALL_SIZE", 1)  # every problem is large

    def reports(share):
        told = []
        for name in ("ASCENT_SHARE", "TIME_SHARE", "RESTART_TIME_SHARE"):
            monkeypatch.setattr(cuts, name, share)
        job = Job(problem, must_sets(problem), started(problem), 1e4)
        solve_by_cuts(job, lambda *one: told.append(one), nodes=1)
        return told

    assert reports(0.0) == reports(1.0)


def test_without_time_the_start_and_a_valid_bound_remain():
    problem = shared(2)
    start = started(problem)
    found = solve_by_cuts(Job(problem, must_sets(problem), start, 1e-3))
    assert problem.cost_of(found.picked) <= problem.cost_of(start)
    assert 0.0 <= found.bound <= problem.cost_of(found.picked)


@pytest.mark.slow
def test_without_a_start_branch_and_bound_solves_alone():
    problem = shared(3)
    assert solve_by_cuts(Job(problem, None, None, 1e4)).proved
