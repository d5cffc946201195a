"""Cycles of an e-graph: found, reported by e-class, and broken."""

import numpy as np

from tests.extraction.egraphs import brute_force, egraph_of, problem_of, random_egraph
from workbench.extraction.problem import Terms
from workbench.extraction.reduce.cycles import break_cycles, components, cyclic


def test_cycles_are_broken_completely_and_the_kept_stays():
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        costs = costs + 1
        if brute_force(egraph, costs) is None:
            continue
        terms = Terms.of(egraph, costs)
        problem = terms.problem()
        keep = frozenset(i for c, i in enumerate(terms.choice) if i >= 0)
        free = break_cycles(problem, keep, [0] * len(egraph))
        component = components(free)
        for c, row in zip(free.eclass, free.children, strict=True):
            assert all(component[d] != component[c] for d in row)
        needed = {terms.choice[c] for c in set(free.eclass)}
        assert needed <= set(free.nodes)
        assert np.isfinite(terms.best[egraph.roots[0]])


def test_e_classes_on_cycles_are_reported_with_the_size_of_their_component():
    # 1, 2 and 3 read each other in a ring, 4 and 5 each other; 0 and 6 are on no cycle.
    rings = [(1, [2]), (2, [3]), (3, [1]), (4, [5]), (5, [4])]
    nodes = [(0, [1, 4, 6]), *rings, *((c, []) for c in range(1, 7))]
    problem = problem_of(egraph_of(nodes), np.ones(len(nodes)))
    assert cyclic(problem, components(problem)) == {1: 3, 2: 3, 3: 3, 4: 2, 5: 2}
    straight = problem_of(egraph_of([(0, [1]), (1, [])]), np.ones(2))
    assert cyclic(straight, components(straight)) == {}


def test_e_classes_that_are_not_there_have_no_component():
    nodes = [(0, [3]), (3, [5, 0]), (3, []), (5, []), (7, [])]
    problem = problem_of(egraph_of(nodes), np.ones(len(nodes)))
    component = components(problem)
    assert component[0] == component[3] >= 0
    assert component[5] not in (component[0], -1)
    assert [c for c, k in enumerate(component) if k < 0] == [1, 2, 4, 6, 7]
