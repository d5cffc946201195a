"""Exact extraction in HiGHS: a slack ends the search with its reason."""

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, problem_of, random_egraph
from workbench.extraction.exact import highs
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


@pytest.mark.parametrize(
    ("done", "bound", "options", "proved", "ending"),
    [
        (True, 0.0, {}, True, None),  # without slack the end of branch and bound is a proof
        (False, 0.0, {}, False, None),
        (False, 4.0, {"slack": 2.0}, False, Limit.CLOSE),
        (True, 4.0, {"slack": 2.0}, False, Limit.CLOSE),  # an end within the slack is none
        (True, 5.0, {"slack": 2.0}, True, None),  # the bound is
        (False, 2.5, {"slack": 2.0}, False, Limit.NODES),
        (False, 1.0, {"slack": 2.0, "seconds": -1.0}, False, Limit.TIME),
        (False, 1.0, {"nodes": 1}, False, Limit.NODES),
        (True, 1.0, {"nodes": 1}, True, None),
    ],
)
def test_an_optimum_is_proved_by_an_end_without_slack_or_by_the_bound(
    monkeypatch, done, bound, options, proved, ending
):
    """Branch and bound ends with or without a proof, at cost 5 and some bound."""
    problem = problem_of(egraph_of([(0, []), (0, [])]), np.array([5.0, 7.0]))
    seconds = options.get("seconds", 1e5)
    job = Job(problem, must_sets(problem), {0: 0}, seconds)
    monkeypatch.setattr(highs, "_branch", lambda search: search.best.raise_bound(bound) or done)
    found = solve_highs(job, slack=options.get("slack", 0.0), nodes=options.get("nodes"))
    assert (found.proved, found.bound) == (proved, bound)
    assert [e.limit for e in found.endings] == ([] if ending is None else [ending])
