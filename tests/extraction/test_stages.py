"""The parts of an extraction around its stages."""

import math
import time
from dataclasses import replace

import numpy as np

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph
from tests.extraction.problems import problem_of, tangle
from workbench.extraction import extract, shares
from workbench.extraction.reduce.presolve import QUICK, REDUCTIONS
from workbench.extraction.stages import (
    IDLE,
    MOVED,
    Idling,
    Reduced,
    bound_by_parts,
    in_blocks,
    proves,
    raised,
    reduced_further,
)


def test_a_large_problem_has_the_bound_of_an_ascent_before_its_reductions(monkeypatch):
    egraph, costs = tangle(300, seed=2)
    problem = problem_of(egraph, costs)
    optimum = extract(egraph, costs).cost
    greedy = replace(extract(egraph, costs, "tree"), bound=0.0)
    monkeypatch.setattr(shares, "LARGE", 10)
    found = raised(greedy, problem, math.inf)
    assert 0.0 < found.bound <= optimum * (1 + 1e-9)
    assert np.array_equal(found.choice, greedy.choice)
    assert raised(greedy, problem, time.perf_counter() - 1).bound == 0.0
    monkeypatch.setattr(shares, "LARGE", 10**9)
    assert raised(greedy, problem, math.inf) is greedy


def test_effects_of_further_reductions_are_added_to_earlier_ones(monkeypatch):
    egraph, costs = tangle(300, seed=2)
    given = Reduced.none(problem_of(egraph, costs))
    cost = extract(egraph, costs, "tree").cost
    once = reduced_further(given, cost, math.inf, once=True)
    assert {e.name for e in once.effects} == {one.__name__ for one in QUICK}
    assert once.effects[0].before == once.before == len(given.problem.nodes)
    both = reduced_further(once, cost, math.inf)
    assert [e.name for e in both.effects] == [e.name for e in once.effects]
    assert sum(e.before - e.after for e in both.effects) == both.before - len(both.problem.nodes)
    assert len(both.problem.nodes) < len(once.problem.nodes) < both.before
    monkeypatch.setattr(shares, "WHOLE", 10)
    whole = reduced_further(given, cost, math.inf)
    assert {e.name for e in whole.effects} == {one.__name__ for one in REDUCTIONS}


def test_the_bounds_of_independent_parts_add_up_to_a_bound():
    exact = 0
    for seed in range(300):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        bound = bound_by_parts(problem, math.inf)
        assert bound <= best * (1 + 1e-9)
        exact += bound >= best * (1 - 1e-9)
    assert exact > 100


def test_a_problem_is_in_blocks_if_its_largest_part_is_small(monkeypatch):
    nodes = [(0, [1, 4])]
    for first in (1, 4):
        nodes += [(first, [first + 1]), (first, [first + 2]), (first + 1, []), (first + 2, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, *[1.0, 2, 4, 3] * 2]))
    monkeypatch.setattr(shares, "WHOLE", 5)
    assert in_blocks(problem, math.inf)
    monkeypatch.setattr(shares, "WHOLE", 4)
    assert not in_blocks(problem, math.inf)


def test_a_bound_proves_only_without_what_all_selections_pay():
    problem = problem_of(egraph_of([(0, [1]), (1, []), (1, [])]), np.array([1e9, 1.0, 2.0]))
    best = extract(egraph_of([(0, [1]), (1, []), (1, [])]), np.array([1e9, 1.0, 2.0]), "tree")
    assert proves(best.cost, best, problem)
    assert not proves(best.cost - 0.5, best, problem)
    assert proves(best.cost - 0.5, best, None)


def test_a_race_goes_on_while_cost_or_bound_move_and_as_long_again():
    small = MOVED / 2
    patience = Idling(0)
    assert patience(0.1, 100.0, 50.0)
    assert patience(IDLE, 100.0 * (1 - small), 50.0 + 100.0 * small)  # too little to count
    assert not patience(IDLE + 0.1, 100.0 * (1 - small), 50.0)
    for cost, bound in ((90.0, 50.0), (100.0, 60.0)):
        patience = Idling(0)
        assert patience(0.1, 100.0, 50.0)
        assert patience(2 * IDLE, cost, bound)
        assert patience(3.9 * IDLE, cost, bound)
        assert not patience(4 * IDLE, cost, bound)


def test_a_large_problem_may_pause_longer():
    patience = Idling(10**6)
    assert patience(0.1, 100.0, 50.0)
    assert patience(3 * IDLE, 100.0, 50.0)
