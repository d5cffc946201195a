"""Negative costs: subtracted, or left to a method that takes them."""

import itertools
import math
import random

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, random_egraph, selection_cost
from tests.sampled import in_turn
from workbench.extraction import Extraction, NoExtraction, Status, extract
from workbench.extraction.extract import signed
from workbench.extraction.problem import is_acyclic


def least(egraph, costs):
    """Return the least cost of an acyclic selection of what the roots need."""
    best = None
    for picked in itertools.product(*(m or [-1] for m in egraph.members())):
        cost = selection_cost(egraph, costs, picked)
        best = cost if best is None or (cost is not None and cost < best) else best
    return best


def maxsat(variables, clauses, seed):
    """Return clauses that gain 1 when a chosen literal reads them, as in the extraction gym."""
    rng = random.Random(seed)
    rows = [(0, list(range(1, variables + 1)))]
    reads = {(v, side): [] for v in range(1, variables + 1) for side in (0, 1)}
    first = variables + 1
    for c in range(first, first + clauses):
        for v in rng.sample(range(1, variables + 1), 2):
            reads[v, rng.randrange(2)].append(c)
    rows += [(v, row) for (v, _), row in reads.items()]
    costs = [0.0] * len(rows) + [-1.0] * clauses
    rows += [(c, []) for c in range(first, first + clauses)]
    return egraph_of(rows), np.array(costs)


@pytest.mark.parametrize("seed", in_turn(range(40), 1, quick=4))
def test_negative_costs_against_brute_force(seed):
    egraph, costs = random_egraph(seed)
    rng = random.Random(seed)
    costs = np.array([rng.choice((-5.0, -1.0, 0.0, 1.0, 4.0)) for _ in costs])
    expected = least(egraph, costs)
    if expected is None:
        with pytest.raises(NoExtraction):
            extract(egraph, costs)
        return
    solution = extract(egraph, costs)
    assert solution.cost == pytest.approx(expected)
    assert solution.bound <= solution.cost
    assert solution.status is Status.OPTIMAL
    assert is_acyclic(egraph, solution.choice)
    assert solution.cost == pytest.approx(costs[solution.choice[solution.choice >= 0]].sum())


def test_the_gyms_maxsat_family():
    egraph, costs = maxsat(6, 14, seed=2)
    found = extract(egraph, costs)
    assert (found.cost, found.status) == (least(egraph, costs), Status.OPTIMAL)
    greedy = extract(egraph, costs, "dag")
    assert found.cost <= greedy.cost
    assert greedy.bound <= found.cost
    assert greedy.gap >= 0


def test_what_every_selection_pays_is_shifted_and_the_rest_is_solved_as_ever():
    egraph = egraph_of([(0, [1]), (1, []), (1, [2]), (2, [])])
    result = signed(egraph, np.array([-7.0, 3.0, -1.0, 2.0]))
    assert result.core is None
    assert result.costs.tolist() == [0, 4, 0, 2]
    assert result.offset == -8
    run = Extraction(egraph, np.array([-7.0, 3.0, -1.0, 2.0]))
    solution = run.run()
    assert (solution.cost, solution.bound, run.solution.cost) == (-6, -6, -6)
    assert run.trace.steps[-1].cost == -6


def test_gains_out_of_reach_do_not_count():
    egraph = egraph_of([(0, [1]), (1, []), (2, [])])
    assert signed(egraph, np.array([1.0, 1, -5])).costs.tolist() == [1, 1, 0]
    assert extract(egraph, np.array([1.0, 1, -5])).cost == 2


@pytest.mark.parametrize("bad", [-math.inf, math.nan])
def test_costs_that_are_not_numbers_are_refused(bad):
    with pytest.raises(NoExtraction, match="must be a number above minus infinity"):
        extract(egraph_of([(0, [])]), np.array([bad]))
