"""The parts of an extraction around its stages."""

import math
import time
from dataclasses import replace

import numpy as np

from tests.extraction.problems import problem_of, tangle
from workbench.extraction import extract, shares
from workbench.extraction.stages import raised


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
