import math
import time

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, problem_of, random_egraph
from workbench.extraction.problem import NoExtraction
from workbench.extraction.reduce.dominators import chain_bound, lower_bound, must_sets


def derivable(egraph, without=-1):
    """Return the e-classes that have a finite term without an e-class."""
    done = set()
    while True:
        fresh = {
            int(c)
            for i, c in enumerate(egraph.eclass)
            if c != without and c not in done and all(d in done for d in egraph.operands(i).tolist())
        }
        if not fresh:
            return done
        done |= fresh


def test_must_sets_hold_what_every_term_contains():
    egraph = egraph_of([(0, [1]), (0, [2]), (1, [3]), (2, [3]), (3, [])])
    must = must_sets(problem_of(egraph, np.ones(5)))
    assert must.needed() == {0, 3}
    assert sorted(must.members(must.of_class[1])) == [1, 3]


@pytest.mark.parametrize("block", range(4))
def test_they_are_exact_whatever_cycles_there_are(block):
    """An e-class is in a must-set exactly when the term cannot be derived without it."""
    compared = 0
    for seed in range(block * 150, block * 150 + 150):
        egraph, costs = random_egraph(seed)
        try:
            problem = problem_of(egraph, costs + 1)
        except NoExtraction:
            continue
        must = must_sets(problem)
        for d in must.classes:
            without = derivable(egraph, d)
            for c in must.classes:
                assert (must.of_class[c] >> must.position[d] & 1) == (c not in without)
                compared += 1
    assert compared > 300


def test_bounds_are_below_the_optimum():
    for seed in range(300):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        assert chain_bound(problem) <= best + 1e-9
        assert lower_bound(problem, must_sets(problem)) <= best + 1e-9
        assert lower_bound(problem, None) <= best + 1e-9


def test_a_chain_is_bound_by_its_most_expensive_path():
    egraph = egraph_of([(0, [1, 2]), (1, []), (2, [3]), (3, [])])
    assert chain_bound(problem_of(egraph, np.array([1.0, 5, 2, 1]))) == 6


def test_no_time_means_no_sets():
    nodes = [(i, [i + 1]) for i in range(600)] + [(600, [])]
    problem = problem_of(egraph_of(nodes), np.ones(601))
    assert must_sets(problem, time.perf_counter() - 1) is None
    assert must_sets(problem, math.inf).of_roots.bit_count() == 601
