import itertools
import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph, selection_cost, solvable_egraph
from workbench.extraction import NoExtraction, extract
from workbench.extraction.problem import below
from workbench.extraction.whole import (
    critical_path,
    extract_whole,
    fused,
    pareto,
    peak_memory,
    selection,
    summed,
)


def every(egraph, costs):
    """Return all acyclic selections."""
    for picked in itertools.product(*(m or [-1] for m in egraph.members())):
        cost = selection_cost(egraph, costs, picked)
        if cost is not None and cost < math.inf:
            yield selection(egraph, below(egraph, np.array(picked)))


def costs_of(egraph, costs):
    rng = np.random.default_rng(1)
    return {
        "sum": summed(costs),
        "path": critical_path(costs),
        "memory": peak_memory(rng.integers(1, 9, egraph.n_classes).astype(float)),
        "fused": fused(costs, lambda consumer, producer: 0.5 if producer < consumer else 0.0),
        "own": lambda chosen: float(len(chosen.order)) ** 2 - chosen.choice.max(),
    }


@pytest.mark.parametrize("name", ["sum", "path", "memory", "fused", "own"])
def test_small_egraphs_against_all_selections(name):
    equal = compared = 0
    for seed in range(60):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        whole = costs_of(egraph, costs)[name]
        least = min(whole(chosen) for chosen in every(egraph, costs))
        found = extract_whole(egraph, costs, whole)
        assert found.cost >= least - 1e-9
        assert whole(selection(egraph, found.choice)) == found.cost
        equal += found.cost <= least + 1e-9
        compared += 1
    assert compared > 30
    assert equal >= 0.9 * compared


def test_the_costs_of_a_chain_and_of_a_fork():
    #  0 reads 1 and 2, which both read 3
    egraph = egraph_of([(0, [1, 2]), (1, [3]), (2, [3]), (3, [])])
    chosen = selection(egraph, np.arange(4))
    costs = np.array([1.0, 10, 100, 1000])
    assert chosen.order.index(3) < chosen.order.index(1) < chosen.order.index(0)
    assert sorted(chosen.pairs()) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert summed(costs)(chosen) == 1111
    assert critical_path(costs)(chosen) == 1101
    # 3, 1 and 2 are alive while the second of 1 and 2 is computed.
    assert peak_memory(np.array([1.0, 10, 10, 10]))(chosen) == 30
    # 3 has two consumers, so it is fused with neither.
    gains = {("op0", "op1"): 5.0, ("op1", "op3"): 500.0}
    assert fused(costs, lambda consumer, producer: gains.get((consumer, producer), 0.0))(chosen) == 1106


def test_a_fusion_bonus_changes_the_choice():
    egraph = egraph_of([(0, [1]), (1, []), (1, [])])
    costs = np.array([1.0, 2.0, 3.0])
    assert extract(egraph, costs).choice.tolist() == [0, 1]
    whole = fused(costs, lambda consumer, producer: 2.0 if producer == "op2" else 0.0)
    found = extract_whole(egraph, costs, whole)
    assert (found.choice.tolist(), found.cost, found.summed) == ([0, 2], 2.0, 4.0)


def test_the_order_of_the_larger_part_first_needs_less_memory():
    # 1 needs 9 for a moment and leaves 1; 2 leaves 5: first 1, then 2.
    egraph = egraph_of([(0, [2, 1]), (1, [3]), (2, []), (3, [])])
    assert peak_memory(np.array([1.0, 1, 5, 8]))(selection(egraph, np.arange(4))) == 9


@pytest.mark.parametrize("seed", range(12))
def test_a_front_dominates_nothing_and_holds_the_best_of_each(seed):
    egraph, costs, _ = solvable_egraph(seed)
    wholes = {name: costs_of(egraph, costs)[name] for name in ("sum", "path", "memory")}
    front = pareto(egraph, costs, wholes)
    for (_, one), (_, other) in itertools.permutations(front, 2):
        assert any(one[n] < other[n] for n in wholes)
    for name, whole in wholes.items():
        alone = extract_whole(egraph, costs, whole)
        assert min(found[name] for _, found in front) <= alone.cost + 1e-9
    for choice, found in front:
        assert found == {n: w(selection(egraph, choice)) for n, w in wholes.items()}


def test_a_front_of_two_costs_that_disagree():
    egraph = egraph_of([(0, [1]), (1, []), (1, [2, 3]), (2, []), (3, [])])
    costs = np.array([1.0, 5.0, 1.0, 3.0, 3.0])
    front = pareto(egraph, costs, {"sum": summed(costs), "path": critical_path(costs)})
    assert [found for _, found in front] == [{"sum": 6, "path": 6}, {"sum": 8, "path": 5}]


def test_costs_that_cannot_be_used_are_refused():
    egraph = egraph_of([(0, [])])
    with pytest.raises(NoExtraction, match="must be finite for some selection"):
        extract_whole(egraph, np.ones(1), lambda chosen: math.inf)
    with pytest.raises(NoExtraction, match="must be a number, got NaN"):
        extract_whole(egraph, np.ones(1), lambda chosen: math.nan)
    with pytest.raises(ValueError, match="at least one cost"):
        pareto(egraph, np.ones(1), {})
    with pytest.raises(ValueError, match="complete and acyclic"):
        selection(egraph_of([(0, [0])]), np.zeros(1, dtype=np.int64))
