"""Branches that people merge by hand: the families, as trained and as merged."""

from collections import Counter

import numpy as np
import pytest

from workbench.benchmarks.branches import UnknownFamily, branched, families, hand_merged
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import evaluate
from workbench.verification import random_inputs

SMALL = {
    "lora": {"hidden": 16, "sequence": 6, "heads": 2, "rank": 2},
    "low_rank": {"hidden": 16, "rank": 12, "rows": 8},
    "projections": {"hidden": 16, "rows": 8, "wide": 24},
    "affine_chain": {"hidden": 16, "rows": 8},
    "inception": {"channels": 16, "size": 6},
} | {name: {"channels": 8, "size": 9} for name in ("repvgg", "acnet", "dbb", "mobileone", "squeeze_excite")}


def operators(graph):
    """Return what a saved model runs: the operators of its ONNX form."""
    return dict(Counter(node.op_type for node in to_onnx(graph).graph.node))


def differ(graph, other, draw=0):
    """Return the largest difference of two graphs in float64, relative to the largest entry."""
    inputs = random_inputs(graph, 7, draw)
    (expected,) = evaluate(graph, inputs, precise=True).values()
    (found,) = evaluate(other, inputs, precise=True).values()
    return float(np.abs(expected - found).max() / np.abs(expected).max())


# -- the families -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", families())
def test_the_merged_form_is_equal(family):
    graph, by_hand = (f(family, blocks=2, **SMALL[family]) for f in (branched, hand_merged))
    assert graph.input_types == by_hand.input_types
    assert 0 <= differ(graph, by_hand) < 1e-5
    assert len(by_hand) <= len(graph)


@pytest.mark.parametrize("family", families())
def test_a_family_goes_through_onnx(family):
    graph = branched(family, blocks=2, **SMALL[family])
    again = import_onnx(to_onnx(graph)).graph
    assert differ(graph, again) < 1e-12
    assert operators(again) == operators(graph)


def test_families_are_seeded():
    one, same, other = (branched("repvgg", blocks=1, channels=4, size=5, seed=s) for s in (1, 1, 2))
    for name, weight in one.weights.items():
        np.testing.assert_array_equal(weight.value(), same.weights[name].value())
    assert differ(one, same) == 0
    assert differ(one, other) > 1e-3


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("repvgg", {"kernel": 5, "groups": 2, "bias": True, "order": "right"}),
        ("repvgg", {"stride": 2, "dilation": 2}),
        ("repvgg", {"kernel": 2}),
        ("acnet", {"stride": 2, "kernel": 5}),
        ("acnet", {"square": False}),
        ("dbb", {"border": "plain", "stride": 2}),
        ("dbb", {"kernel": 5}),
        ("mobileone", {"branches": 3, "stride": 2, "order": "pairs"}),
        ("lora", {"bias": False, "dropout": False, "batch": 2}),
    ],
)
def test_variants_merged_by_hand_are_equal(family, parameters):
    parameters = SMALL[family] | {"blocks": 2} | parameters
    assert differ(branched(family, **parameters), hand_merged(family, **parameters)) < 1e-5


def test_what_nobody_can_merge_is_told():
    with pytest.raises(ValueError, match="after a bias"):
        hand_merged("dbb", border="biased", channels=4, size=5)
    with pytest.raises(UnknownFamily, match="repvgg"):
        branched("repvg")
    with pytest.raises(ValueError, match="block"):
        branched("acnet", blocks=0)
    with pytest.raises(ValueError, match="order"):
        branched("acnet", order="upwards")
    with pytest.raises(ValueError, match="border"):
        branched("dbb", border="none")
