"""Reductions by dominance between candidates, against brute force."""

import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph
from workbench.extraction.reduce.cycles import Loops
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.reduce.presolve import Knowledge, drop_dominated, drop_replaceable


def after(reduction, nodes, costs):
    problem = problem_of(egraph_of(nodes), np.array(costs, dtype=float))
    return reduction(problem, Knowledge()).nodes


@pytest.mark.parametrize("reduction", [drop_dominated, drop_replaceable])
def test_an_optimum_is_kept(reduction):
    shrunk = 0
    for seed in range(800):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        left = reduction(problem, Knowledge())
        assert least(left) == pytest.approx(best)
        shrunk += len(left.nodes) < len(problem.nodes)
    assert shrunk >= 20


def test_a_sibling_may_read_what_every_solution_contains():
    # The root needs 1 and 2. In e-class 1, candidate 1 reads 2, which is there in any case.
    nodes = [(0, [1, 2]), (1, [2]), (1, []), (2, [])]
    assert after(drop_dominated, nodes, [1, 1, 2, 5]) == [0, 1, 3]


def test_what_every_solution_contains_is_not_free_in_a_loop():
    # The root needs 1 and 2, which can each be made from the other: one of them must stand alone.
    nodes = [(0, [1, 2]), (1, [2]), (1, []), (2, [1]), (2, [])]
    for reduction in (drop_dominated, drop_replaceable):
        assert after(reduction, nodes, [1, 1, 2, 1, 2]) == [0, 1, 2, 3, 4]


def test_a_sibling_replaces_a_candidate_if_its_operands_are_cheap():
    # Candidate 0 reads 1 at a cost of 2 + 3, and candidate 1 costs 5 without operands.
    nodes = [(0, [1]), (0, []), (1, [])]
    assert after(drop_replaceable, nodes, [2, 5, 3]) == [0, 2]
    assert after(drop_replaceable, nodes, [2, 4, 3]) == [0, 1, 2]
    assert after(drop_dominated, nodes, [2, 5, 3]) == [0, 1, 2]


def test_operands_that_might_close_a_loop_replace_nothing():
    # Candidate 2 of e-class 1 reads 2, whose cheapest term reads 3 and which may also read 1.
    nodes = [(0, [1]), (0, [2]), (1, [2]), (1, []), (2, [1]), (2, [3]), (3, [])]
    left = after(drop_replaceable, nodes, [0.5, 0.5, 1, 4, 1, 1, 1])
    assert {2, 3} <= set(left)


def test_the_component_of_an_e_class():
    nodes = [(0, [1, 2]), (1, [2]), (1, []), (2, [1]), (2, [])]
    problem = problem_of(egraph_of(nodes), np.ones(5))
    must = must_sets(problem)
    around = Loops.of(problem, must)
    both = 1 << must.position[1] | 1 << must.position[2]
    assert around.loop(1) == around.loop(2) == both
    assert around.given(1) == 1 << must.position[0]
    assert around.given(0) == both


def test_no_time_drops_nothing():
    nodes = [(0, [1, 2]), (1, [2]), (1, []), (2, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, 1, 2, 5]))
    for reduction in (drop_dominated, drop_replaceable):
        assert reduction(problem, Knowledge(until=-math.inf)).nodes == problem.nodes
