import itertools
import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph
from workbench.extraction import NoExtraction, Status, extract, extract_weighted


def shared():
    """Return two outputs that can share an expensive e-class, or have a cheaper one each; and the costs."""
    rows = [(0, [2]), (0, [3]), (1, [2]), (1, [4]), (2, []), (3, []), (4, [])]
    return egraph_of(rows, roots=(0, 1)), np.array([1.0, 1, 1, 1, 10, 7, 8])


def test_calls_for_one_output_do_not_share():
    egraph, costs = shared()
    assert extract(egraph, costs).cost == 12  # 10 once, for both
    found = extract_weighted(egraph, costs, {0: 0.75, 1: 0.25})
    assert {root: s.cost for root, s in found.terms.items()} == {0: 8, 1: 9}
    assert found.cost == found.bound == 0.75 * 8 + 0.25 * 9
    assert (found.status, found.gap) == (Status.OPTIMAL, 0.0)
    assert found.weights == {0: 0.75, 1: 0.25}


@pytest.mark.parametrize("seed", range(60))
def test_weighted_costs_against_brute_force(seed):
    egraph, costs = random_egraph(seed)
    roots = tuple(dict.fromkeys(egraph.roots))
    weights = {root: 1.0 + 2 * k for k, root in enumerate(roots)}
    single = [brute_force(egraph_with(egraph, root), costs) for root in roots]
    if None in single:
        with pytest.raises(NoExtraction):
            extract_weighted(egraph, costs, weights)
        return
    found = extract_weighted(egraph, costs, weights)
    expected = math.fsum(w * cost for w, cost in zip(weights.values(), single, strict=True))
    assert found.cost == pytest.approx(expected)
    assert found.bound == pytest.approx(expected)


def egraph_with(egraph, root):
    rows = [(int(c), egraph.operands(i).tolist()) for i, c in enumerate(egraph.eclass)]
    return egraph_of(rows, roots=(root,))


def test_the_scale_of_the_weights_changes_no_term():
    egraph, costs = shared()
    small, large = (extract_weighted(egraph, costs, {0: w, 1: 2 * w}) for w in (0.1, 1e6))
    for root in (0, 1):
        assert (small.terms[root].choice == large.terms[root].choice).all()
    assert large.cost == pytest.approx(1e7 * small.cost)


def test_a_method_without_a_proof_says_so():
    rows = [(0, [1]), (0, [2]), (1, [3, 4]), (2, [3, 5]), *((c, []) for c in (3, 4, 5)), (6, [])]
    egraph = egraph_of(rows, roots=(0, 6))
    found = extract_weighted(egraph, np.ones(len(rows)), {0: 1, 6: 1}, "tree")
    assert found.status is Status.GREEDY
    assert found.bound <= found.cost


@pytest.mark.parametrize(
    "weights",
    [{0: 1.0}, {0: 1.0, 1: 2.0, 2: 1.0}, {0: 0.0, 1: 1.0}, {0: math.inf, 1: 1.0}, {0: math.nan, 1: 1.0}],
)
def test_weights_must_be_positive_and_of_the_roots(weights):
    egraph, costs = shared()
    with pytest.raises(ValueError, match="must be"):
        extract_weighted(egraph, costs, weights)


def test_repeated_roots_count_once():
    rows = [(0, []), (0, [])]
    found = extract_weighted(egraph_of(rows, roots=(0, 0)), np.array([3.0, 2.0]), {0: 4.0})
    assert found.cost == 8
    assert list(itertools.chain(found.terms)) == [0]
