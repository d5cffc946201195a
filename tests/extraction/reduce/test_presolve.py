import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph
from workbench.extraction.problem import NoExtraction, dag_cost, is_acyclic
from workbench.extraction.reduce.presolve import (
    REDUCTIONS,
    Knowledge,
    drop_circular,
    drop_dominated,
    drop_expensive,
    drop_repeated,
    drop_useless,
    presolve,
    pull_up,
    pull_up_costs,
    root_needed,
)


def reduced(nodes, costs, reduction, incumbent=math.inf):
    problem = problem_of(egraph_of(nodes), np.array(costs, dtype=float))
    return reduction(problem, Knowledge(incumbent))


def instances(count):
    for seed in range(count):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is not None:
            yield egraph, costs, best


@pytest.mark.parametrize("reduction", [*REDUCTIONS, presolve], ids=lambda r: r.__name__)
def test_every_reduction_keeps_an_optimum(reduction):
    shrunk = 0
    for egraph, costs, best in instances(500):
        problem = problem_of(egraph, costs)
        if reduction is presolve:
            after, _ = presolve(problem, best)
        else:
            after = reduction(problem, Knowledge(best))
        assert least(after) == pytest.approx(best)
        shrunk += after is not problem
    assert shrunk >= 5 or reduction is drop_useless


def test_what_is_left_gives_a_selection_of_the_whole():
    """Whatever the reductions fixed, any solution of the rest is completed to one of its cost."""
    for egraph, costs, best in instances(300):
        problem, _ = presolve(problem_of(egraph, costs), best)
        members = problem.members()
        if math.prod(map(len, members.values())) != 1:
            continue
        choice = problem.selection({c: problem.nodes[m[0]] for c, m in members.items()})
        assert is_acyclic(egraph, choice)
        assert dag_cost(choice, costs) == pytest.approx(best)


def test_a_candidate_that_reads_nothing_possible_is_useless():
    nodes = [(0, [1]), (0, [2]), (1, []), (2, [2])]
    assert reduced(nodes, [1, 1, 1, 1], drop_useless).nodes == [0, 2]


def test_siblings_are_compared_by_their_children():
    nodes = [(0, [1]), (0, [1, 2]), (1, []), (2, [])]
    assert reduced(nodes, [2, 2, 1, 1], drop_repeated).nodes == [0, 2]
    assert reduced(nodes, [3, 2, 1, 1], drop_repeated).nodes == [0, 1, 2, 3]


def test_an_only_candidate_moves_into_its_only_reader():
    problem = reduced([(0, [1]), (0, [2]), (1, [2]), (2, []), (2, [])], [1, 9, 2, 4, 3], pull_up)
    assert problem.nodes == [0, 1, 3, 4]
    assert problem.cost == [3, 9, 4, 3]
    assert problem.children[0] == (2,)
    assert problem.fixed == {1: 2}


def test_what_a_part_costs_at_least_moves_to_its_readers():
    problem = reduced([(0, [1]), (1, []), (1, [2]), (2, [])], [1, 5, 2, 1], pull_up_costs)
    assert least(problem) == pytest.approx(4)


def test_a_candidate_below_itself_is_dropped():
    nodes = [(0, [1]), (1, [2]), (1, []), (2, [1])]
    assert reduced(nodes, [1, 0.5, 3, 0.5], drop_circular).nodes == [0, 2]


def test_a_sibling_with_nothing_new_below_it_dominates():
    # Candidate 1 reads 2, below which 3 always stands: candidate 0, which reads 3 alone, is as good.
    nodes = [(0, [3]), (0, [2]), (2, [3]), (3, []), (3, [])]
    assert reduced(nodes, [1, 1, 1, 1, 2], drop_dominated).nodes == [0, 3]


def test_e_nodes_of_more_expensive_solutions_only_are_removed():
    nodes = [(0, [1]), (0, []), (1, [])]
    assert reduced(nodes, [1, 4, 5], drop_expensive, incumbent=4).nodes == [1]
    assert reduced(nodes, [1, 4, 3], drop_expensive, incumbent=4).nodes == [0, 1, 2]


def test_needed_e_classes_become_roots():
    problem = reduced([(0, [1]), (0, [1, 2]), (1, []), (2, [])], [2, 1, 1, 1], root_needed)
    assert set(problem.roots) == {0, 1}


def test_effects_are_reported():
    egraph = egraph_of([(0, [1]), (0, [1, 2]), (1, []), (2, [])])
    problem, effects = presolve(problem_of(egraph, np.array([2.0, 2, 1, 1])), 3.0)
    assert {e.rule for e in effects} == {r.__name__ for r in REDUCTIONS}
    assert sum(e.matches for e in effects) == 4 - len(problem.nodes)


def test_no_time_changes_nothing():
    egraph = egraph_of([(0, [1]), (1, [])])
    problem = problem_of(egraph, np.ones(2))
    assert presolve(problem, 2.0, until=0.0) == (problem, [])


def test_the_random_instances_have_cycles_and_dead_ends():
    dead = cyclic = 0
    for seed in range(100):
        egraph, costs = random_egraph(seed)
        try:
            problem = problem_of(egraph, costs + 1)
        except NoExtraction:
            dead += 1
            continue
        cyclic += drop_circular(problem, Knowledge()) is not problem
    assert dead >= 10
    assert cyclic >= 10
