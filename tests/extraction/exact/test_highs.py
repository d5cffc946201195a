"""Exact extraction in HiGHS: a slack ends the search with its reason."""

import pytest

from tests.extraction.egraphs import problem_of, random_egraph
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.solve import start_of
from workbench.extraction.exact.types import Job
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.result import Limit


def test_a_slack_ends_the_search_with_its_reason():
    egraph, costs = random_egraph(3)
    problem = problem_of(egraph, costs + 1)
    start = start_of(problem, None, float("inf"))
    found = solve_highs(Job(problem, must_sets(problem), start, 5.0), slack=1e6)
    assert not found.proved or found.bound == pytest.approx(problem.cost_of(found.picked))
    assert {e.limit for e in found.endings} <= {Limit.CLOSE}
