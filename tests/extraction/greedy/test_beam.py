"""Beam search in greedy extraction, against brute force."""

import time

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, solvable_egraph
from tests.extraction.problems import chain, cost_of, merged, problem_of, tangle, wide
from workbench.extraction.greedy.dag import beam, greedy


def test_a_term_that_pays_only_when_it_is_shared_is_kept():
    nodes = [(0, [1, 2]), (1, []), (2, []), (1, [3]), (2, [3]), (3, [])]
    egraph, costs = egraph_of(nodes), np.array([1.0, 6, 6, 0.5, 0.5, 9])
    problem = problem_of(egraph, costs)
    assert cost_of(egraph, costs, problem, greedy(problem).taken) == 13
    assert cost_of(egraph, costs, problem, beam(problem)) == 11
    assert cost_of(egraph, costs, problem, beam(problem, width=1)) == 13


@pytest.mark.parametrize("seed", range(60))
def test_selections_are_complete_and_acyclic(seed):
    egraph, costs, least = solvable_egraph(seed)
    problem = problem_of(egraph, costs)
    found = beam(problem)
    assert found is not None
    assert cost_of(egraph, costs, problem, found) >= least - 1e-9


@pytest.mark.parametrize(
    "shape", [lambda: tangle(200), lambda: wide(300), lambda: chain(200, 3), lambda: merged(2, 6)]
)
def test_larger_shapes(shape):
    egraph, costs = shape()
    problem = problem_of(egraph, costs)
    found = beam(problem)
    assert found is None or cost_of(egraph, costs, problem, found) > 0
    assert beam(problem) == found  # equal arguments give equal results


def test_limits_end_the_search():
    problem = problem_of(*wide(2000))
    assert beam(problem, until=time.perf_counter() - 1) is None
    assert beam(problem, entries=10) is None
