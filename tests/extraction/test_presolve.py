import numpy as np
import pytest

from workbench.extraction.cycles import break_cycles, components
from workbench.extraction.exact import solve
from workbench.extraction.presolve import (
    drop_dominated,
    drop_expensive,
    lower_bound,
    must_sets,
    presolve,
)
from workbench.extraction.problem import make_problem, tree_costs

from .egraphs import brute_force, egraph_of, random_egraph


def problem_of(egraph, costs):
    best, choice = tree_costs(egraph, costs)
    problem = make_problem(egraph, costs, best, choice)
    return break_cycles(problem, frozenset(), [0] * len(egraph)).problem


def acyclic_instances():
    for seed in range(200):
        egraph, costs = random_egraph(seed, acyclic=True)
        if brute_force(egraph, costs) is not None:
            yield egraph, costs


def optimum(problem):
    found = solve(problem, None, 30.0)
    assert found.proved
    return sum(problem.cost[problem.nodes.index(i)] for i in reachable(problem, found.taken))


def reachable(problem, taken):
    seen, stack = {}, list(problem.roots)
    while stack:
        c = stack.pop()
        if c in seen:
            continue
        seen[c] = taken[c]
        stack += problem.children[problem.nodes.index(taken[c])]
    return seen.values()


def test_must_sets_hold_what_every_term_contains():
    egraph = egraph_of([(0, [1]), (0, [2]), (1, [3]), (2, [3]), (3, [])])
    must = must_sets(problem_of(egraph, np.ones(5)))
    inside = {c for c, k in must.position.items() if must.of_roots >> k & 1}
    assert inside == {0, 3}


@pytest.mark.parametrize("reduction", ["dominated", "expensive", "both"])
def test_reductions_keep_an_optimum(reduction):
    count = 0
    for egraph, costs in acyclic_instances():
        problem = problem_of(egraph, costs)
        best = brute_force(egraph, costs)
        must = must_sets(problem)
        assert lower_bound(problem, must) <= best + 1e-9
        if reduction == "dominated":
            reduced = problem.keep(drop_dominated(problem, must))
        elif reduction == "expensive":
            reduced = problem.keep(drop_expensive(problem, must, best))
        else:
            reduced = presolve(problem, best)
        if problem.roots:
            assert optimum(reduced) == pytest.approx(best)
            count += 1
    assert count >= 20


def test_a_dearer_sibling_that_needs_more_is_dominated():
    egraph = egraph_of([(0, [1]), (0, [1, 2]), (1, []), (2, [])])
    problem = problem_of(egraph, np.array([2.0, 2, 1, 1]))
    assert drop_dominated(problem, must_sets(problem)) == [True, False, True, True]


def test_cycles_are_broken_completely_and_the_kept_stays():
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        costs = costs + 1
        if brute_force(egraph, costs) is None:
            continue
        best, choice = tree_costs(egraph, costs)
        problem = make_problem(egraph, costs, best, choice)
        keep = frozenset(i for c, i in enumerate(choice) if i >= 0)
        free = break_cycles(problem, keep, [0] * len(egraph)).problem
        component = components(free)
        for c, row in zip(free.eclass, free.children, strict=True):
            assert all(component[d] != component[c] for d in row)
        needed = {choice[c] for c in set(free.eclass)}
        assert needed <= set(free.nodes)
