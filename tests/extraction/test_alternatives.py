import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph, selection_cost
from workbench.extraction import Status, extract
from workbench.extraction import alternatives as module
from workbench.extraction.alternatives import alternatives, k_best
from workbench.extraction.exact.solve import solve_whole
from workbench.extraction.problem import is_acyclic


def every(egraph, costs):
    """Return the costs of all distinct acyclic selections, by what they take below the roots."""
    found = {}
    for picked in itertools.product(*(m or [-1] for m in egraph.members())):
        cost = selection_cost(egraph, costs, picked)
        if cost is not None:
            found[below(egraph, picked)] = cost
    return sorted(found.values())


def below(egraph, picked):
    seen, stack = {}, list(egraph.roots)
    while stack:
        c = stack.pop()
        if c not in seen:
            seen[c] = int(picked[c])
            stack += egraph.operands(picked[c]).tolist()
    return frozenset(seen.items())


@pytest.mark.parametrize("block", range(3))
def test_the_k_best_against_all(block):
    compared = 0
    for seed in range(block * 60, block * 60 + 60):
        egraph, costs = random_egraph(seed)
        costs = costs + 1  # nothing is free, so that every choice counts
        if brute_force(egraph, costs) is None:
            continue
        expected = every(egraph, costs)[:5]
        found = k_best(egraph, costs, 5)
        assert [s.cost for s in found] == pytest.approx(expected)
        assert len({below(egraph, s.choice) for s in found}) == len(found)
        assert all(is_acyclic(egraph, s.choice) for s in found)
        assert all(s.status is Status.OPTIMAL and s.bound == pytest.approx(s.cost) for s in found)
        compared += len(found) > 1
    assert compared > 10


def test_k_is_at_least_1():
    egraph, costs = random_egraph(0)
    with pytest.raises(ValueError, match="at least 1"):
        k_best(egraph, costs, 0)


def test_what_a_class_costs_otherwise():
    nodes = [(0, [1]), (1, []), (1, [2]), (1, [1]), (2, [])]
    egraph, costs = egraph_of(nodes), np.array([1.0, 5, 1, 0.5, 2])
    first, second, third = alternatives(egraph, costs, 1)
    assert (first.node, first.cost, first.more, first.taken) == (2, 4, 0, True)
    assert (second.node, second.cost, second.more, second.taken) == (1, 6, 2, False)
    assert (third.node, third.cost) == (3, math.inf)
    with pytest.raises(IndexError, match="0 to 2"):
        alternatives(egraph, costs, 3)


def test_alternatives_against_brute_force():
    compared = 0
    for seed in range(80):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        eclass = egraph.roots[0]
        best = extract(egraph, costs)
        found = alternatives(egraph, costs, eclass, best=best)
        assert min(a.cost for a in found) == pytest.approx(best.cost)
        for a in found:
            only = np.where((egraph.eclass == eclass) & (np.arange(len(egraph)) != a.node), math.inf, costs)
            expected = brute_force(egraph, only)
            assert a.cost == pytest.approx(math.inf if expected is None else expected)
            compared += math.isfinite(a.cost)
    assert compared > 60


def test_the_alternative_that_is_taken_costs_what_the_best_costs_although_the_original_took_another():
    """With the others forbidden the start graph costs infinitely much, and any selection is better."""
    nodes = [(0, [1]), (1, []), (1, [2]), (2, [])]
    egraph, costs = egraph_of(nodes), np.array([1.0, 5, 1, 2])
    egraph = replace(egraph, original=np.array([0, 1]))
    taken, given = alternatives(egraph, costs, 1)
    assert (taken.node, taken.taken, taken.cost, taken.more) == (2, True, 4.0, 0.0)
    assert (given.node, given.taken, given.cost) == (1, False, 6.0)


def test_a_root_with_a_free_term_has_other_terms_too():
    nodes = [(0, []), (0, [1]), (1, []), (1, [])]
    egraph, costs = egraph_of(nodes), np.array([0.0, 2.0, 3.0, 5.0])
    assert [s.cost for s in k_best(egraph, costs, 5)] == [0.0, 5.0, 7.0]


def test_a_free_enode_that_reads_an_eclass_with_a_paid_term_is_another_extraction():
    """The root takes a leaf for nothing, or an e-node that costs nothing and reads an e-class at 0 or 2."""
    nodes = [(0, []), (0, [1]), (1, []), (1, [])]
    egraph, costs = egraph_of(nodes), np.array([0.0, 0.0, 0.0, 2.0])
    assert [s.cost for s in k_best(egraph, costs, 5)] == [0.0, 2.0]


def test_every_cost_of_a_selection_is_among_the_k_best():
    compared = 0
    for seed in (20013, *range(30)):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        expected = sorted(set(every(egraph, costs)))[:3]
        found = [s.cost for s in k_best(egraph, costs, 20)]
        if len(found) < 20:
            assert found == sorted(found)
            assert sorted(set(found))[:3] == pytest.approx(expected)
            compared += len(expected) > 1
    assert compared > 5


def test_a_distance_makes_the_extractions_diverse():
    rows = [(0, [1, 2, 3])] + [(c, []) for c in (1, 2, 3) for _ in range(2)]
    egraph, costs = egraph_of(rows), np.array([1.0, 1, 2, 1, 3, 1, 4])
    near = k_best(egraph, costs, 3)
    far = k_best(egraph, costs, 3, distance=2)
    assert [s.cost for s in near] == [4, 5, 6]
    assert [s.cost for s in far] == [4, 7, 8]
    for i, one in enumerate(far):
        for other in far[:i]:
            assert len(below(egraph, other.choice) - below(egraph, one.choice)) >= 2
    with pytest.raises(ValueError, match="distance must be at least 1, got 0"):
        k_best(egraph, costs, 3, distance=0)


def test_the_best_extraction_need_not_be_found_again():
    egraph, costs = random_egraph(3)
    first = extract(egraph, costs)
    assert k_best(egraph, costs, 1, first=first) == [first]


def test_the_bound_of_an_unproved_extraction_is_the_best_that_is_known_and_at_most_its_cost(monkeypatch):
    """Four leaves at 1, 3, 5 and 7. The solver proves nothing but bounds: 2, then 0, then 7.5.

    An extraction costs at least as much as all earlier ones, so an earlier bound holds for it, too. A bound above
    the cost is rounding.
    """
    egraph, costs = egraph_of([(0, [])] * 4), np.array([1.0, 3.0, 5.0, 7.0])
    bounds = (2.0, 0.0, 7.5)

    def unproved(job):
        return replace(solve_whole(job), proved=False, bound=bounds[len(job.forbidden) - 1])

    monkeypatch.setattr(module, "solve_whole", unproved)
    found = k_best(egraph, costs, 4)
    assert [s.cost for s in found] == [1.0, 3.0, 5.0, 7.0]
    assert [s.bound for s in found] == [1.0, 2.0, 2.0, 7.0]
    assert [s.status for s in found] == [Status.OPTIMAL] + [Status.FEASIBLE] * 3
