import numpy as np

from workbench.extraction.cycles import break_cycles, components
from workbench.extraction.problem import make_problem, tree_costs

from .egraphs import brute_force, random_egraph


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
        assert np.isfinite(best[egraph.roots[0]])
