"""Dual ascents: bounds against brute force, sets that every selection meets, and fixed candidates."""

import itertools
import random
import time

import pytest

from tests.extraction.egraphs import brute_force, random_egraph, solvable_egraph
from tests.extraction.problems import problem_of
from tests.sampled import in_turn
from workbench.extraction.reduce.dominators import lower_bound, must_sets
from workbench.extraction.reduce.dual_ascent import Layout, affordable, ascend, climb, highest_bound


def selections(problem):
    """Yield every acyclic selection of a small problem: e-class → candidate, as far as the roots need."""
    members = problem.members()
    for picked in itertools.product(*members.values()):
        whole = dict(zip(members, picked, strict=True))
        if not problem.loops(whole):
            needed, stack = {}, list(problem.roots)
            while stack:
                c = stack.pop()
                if c not in needed:
                    needed[c] = whole[c]
                    stack += problem.children[whole[c]]
            yield needed


@pytest.mark.parametrize("seed", in_turn(range(150), 4))
def test_a_bound_is_below_every_selection_and_every_set_is_met(seed):
    egraph, costs, _ = solvable_egraph(seed)
    problem = problem_of(egraph, costs)
    if not problem.roots:
        return
    layout = Layout.of(problem)
    whole = list(selections(problem))
    least = min(problem.cost_of(s) for s in whole)
    rng = random.Random(seed)
    for smallest, noise in itertools.product((True, False), (None, rng)):
        found = ascend(layout, problem.cost, noise, smallest=smallest)
        assert found.bound <= least + 1e-9 * least
        assert all(p >= 0.0 for p in found.price)
        at_least = layout.at_least(found.price)
        for picked in whole:
            taken = set(picked.values())
            assert all(taken & set(by) for by in found.sets)
            cost = problem.cost_of(picked)
            assert cost >= found.bound + sum(found.price[i] for i in taken) - 1e-9 * cost
            assert all(cost >= found.bound + at_least[i] - 1e-9 * cost for i in taken)


@pytest.mark.parametrize("seed", in_turn(range(150), 4))
def test_what_is_not_affordable_is_in_no_selection_of_that_cost(seed):
    egraph, costs, least = solvable_egraph(seed)
    problem = problem_of(egraph, costs)
    for most in (least, 1.2 * least):
        alive = affordable(problem, climb(problem), most * (1 + 1e-9))
        for picked in selections(problem):
            if problem.cost_of(picked) <= most:
                assert all(alive[i] for i in picked.values())


def test_the_bound_is_often_the_optimum_and_never_below_that_of_must_sets():
    met = 0
    for seed in range(60):
        egraph, costs, least = solvable_egraph(seed)
        problem = problem_of(egraph, costs)
        must = must_sets(problem)
        bound = highest_bound(problem, must)
        assert lower_bound(problem, must) <= bound <= least * (1 + 1e-9)
        met += bound >= least * (1 - 1e-9)
    assert met > 40


def test_a_deadline_leaves_what_was_charged_before_it():
    egraph, costs, least = solvable_egraph(4)
    problem = problem_of(egraph, costs)
    assert climb(problem, until=time.perf_counter() - 1) == []
    assert ascend(Layout.of(problem), problem.cost, until=time.perf_counter() - 1).bound == 0.0 <= least


def test_equal_arguments_give_equal_ascents():
    egraph, costs = random_egraph(11)
    assert brute_force(egraph, costs) is not None
    problem = problem_of(egraph, costs)
    first, second = (climb(problem) for _ in "ab")
    assert [(a.bound, a.price, a.sets) for a in first] == [(a.bound, a.price, a.sets) for a in second]
