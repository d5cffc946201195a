"""Branches that people merge by hand: the families, and what the default rules make of them."""

from collections import Counter

import numpy as np
import pytest

import workbench
from tests.sampled import in_turn
from workbench.certification.inputs import random_inputs
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import GraphBuilder, evaluate
from workbench.support.messages import UnknownName
from zoo.branches import BRANCHES, branched, hand_merged

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


def merged(family, **parameters):
    """Optimise a network as anyone would; it must be certified, and as small as the one merged by hand."""
    parameters = SMALL[family] | parameters
    result = workbench.optimize(branched(family, **parameters))
    assert result.certificate.passed
    assert result.graph is not result.original
    return operators(result.graph), operators(hand_merged(family, **parameters))


def assert_as_small(family, ours, by_hand):
    """Require the operators of the form by hand; with attention, by moving heads, even fewer of them."""
    if family == "lora":
        assert sum(ours.values()) <= sum(by_hand.values())
        assert ours["MatMul"] <= by_hand["MatMul"]
    else:
        assert ours == by_hand


# -- the families -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", BRANCHES)
def test_the_merged_form_is_equal(family):
    graph, by_hand = (f(family, blocks=2, **SMALL[family]) for f in (branched, hand_merged))
    assert graph.input_types == by_hand.input_types
    assert 0 <= differ(graph, by_hand) < 1e-5
    assert len(by_hand) <= len(graph)


@pytest.mark.parametrize("family", BRANCHES)
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
        ("dbb", {"groups": 2, "stride": 2}),
        ("mobileone", {"branches": 3, "stride": 2, "order": "pairs"}),
        ("lora", {"bias": False, "dropout": False, "batch": 2}),
        ("lora", {"together": True, "batch": 2}),
    ],
)
def test_variants_merged_by_hand_are_equal(family, parameters):
    parameters = SMALL[family] | {"blocks": 2} | parameters
    assert differ(branched(family, **parameters), hand_merged(family, **parameters)) < 1e-5


def test_what_nobody_can_merge_is_reported():
    with pytest.raises(ValueError, match="after a bias"):
        hand_merged("dbb", border="biased", channels=4, size=5)
    with pytest.raises(UnknownName, match="repvgg"):
        branched("repvg")
    with pytest.raises(TypeError, match="channels"):
        branched("repvgg", width=3)
    with pytest.raises(UnknownName, match="did you mean lora"):
        BRANCHES.parameters("lor")
    with pytest.raises(ValueError, match="block"):
        branched("acnet", blocks=0)
    with pytest.raises(ValueError, match="order"):
        branched("acnet", order="upwards")
    with pytest.raises(ValueError, match="border"):
        branched("dbb", border="none")


# -- merged by the default rules, without a word ----------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        ("repvgg", {}),
        ("acnet", {}),
        ("dbb", {}),
        ("mobileone", {}),
        ("lora", {"together": True}),
        ("low_rank", {}),
        ("affine_chain", {}),
    ],
)
def test_as_small_as_by_hand(family, parameters):
    assert_as_small(family, *merged(family, blocks=2, **parameters))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "parameters"),
    in_turn(
        [
            ("repvgg", {"kernel": 5}),
            ("repvgg", {"kernel": 2}),
            ("repvgg", {"stride": 2}),
            ("repvgg", {"stride": 2, "size": 8}),
            ("repvgg", {"stride": 3}),
            ("repvgg", {"groups": 2}),
            ("repvgg", {"groups": 4, "bias": True}),
            ("repvgg", {"dilation": 2}),
            ("repvgg", {"order": "right"}),
            ("repvgg", {"order": "reversed", "bias": True}),
            ("acnet", {"kernel": 5, "order": "right"}),
            ("acnet", {"stride": 2, "groups": 2}),
            ("acnet", {"square": False}),
            ("acnet", {"bias": True, "order": "reversed"}),
            ("dbb", {"border": "plain"}),
            ("dbb", {"stride": 2}),
            ("dbb", {"kernel": 5, "order": "pairs"}),
            ("dbb", {"groups": 2}),
            ("dbb", {"groups": 4, "stride": 2, "border": "plain"}),
            ("dbb", {"groups": 8}),
            ("mobileone", {"branches": 1}),
            ("mobileone", {"branches": 3, "order": "pairs"}),
            ("mobileone", {"stride": 2, "order": "right"}),
            ("mobileone", {"kernel": 5}),
            ("lora", {"together": True, "bias": False}),
            ("lora", {"together": True, "dropout": False, "batch": 2}),
            ("lora", {"together": True, "factor": 1.0}),
        ],
        3,
    ),
)
def test_unseen_variants_are_as_small_as_by_hand(family, parameters):
    assert_as_small(family, *merged(family, blocks=1, **parameters))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 4, 8])
def test_what_is_merged_in_groups_stays_in_groups(groups):
    parameters = {"blocks": 1, "channels": 64, "size": 14, "groups": groups}
    result = workbench.optimize(branched("dbb", **parameters))
    assert result.certificate.passed
    by_hand = hand_merged("dbb", **parameters)
    for graph in (result.graph, by_hand):
        (conv,) = (n for n in to_onnx(graph).graph.node if n.op_type == "Conv")
        assert {a.name: a.i for a in conv.attribute}["group"] == groups
    assert result.cost_after == pytest.approx(workbench.optimize(by_hand).cost_after)


def test_a_low_rank_chain_that_is_cheaper_apart_stays_apart():
    graph = branched("low_rank", blocks=2, hidden=1024, rank=8, rows=256)
    result = workbench.optimize(graph)
    assert operators(result.graph)["MatMul"] == 4
    apart = workbench.optimize(branched("low_rank", blocks=2, hidden=64, rank=60, rows=64))
    assert operators(apart.graph)["MatMul"] == 2


@pytest.mark.slow
def test_a_bias_before_a_padded_window_is_kept_apart():
    # Law E1w: a tensor that is padded with zeros after a bias is not a convolution of the input.
    parameters = SMALL["dbb"] | {"blocks": 1}
    result = workbench.optimize(branched("dbb", border="biased", **parameters))
    assert result.certificate.passed
    assert operators(result.graph)["AveragePool"] == 1
    plain = workbench.optimize(branched("dbb", border="plain", **parameters))
    assert "AveragePool" not in operators(plain.graph)


def block(make, relu=True):
    b = GraphBuilder("block", seed=3)
    x = b.input("x", (1, 8, 7, 7))
    y = make(b, x)
    return b.graph({"y": b.op("relu", y) if relu else y})


def conv(b, x, kernel, pads, out=8, groups=1, **attrs):
    w = b.weight((out, b.type(x).shape[1] // groups, *kernel))
    return b.op("conv2d", x, w, pads=pads, groups=groups, **attrs)


def stranger_between(b, x):
    z = b.op("sigmoid", x)
    return b.op("add", b.op("add", conv(b, x, (3, 3), (1, 1, 1, 1)), z), conv(b, x, (1, 1), (0, 0, 0, 0)))


def other_input(b, x):
    z = b.op("sigmoid", x)
    return b.op("add", conv(b, x, (3, 3), (1, 1, 1, 1)), conv(b, z, (1, 1), (0, 0, 0, 0)))


def uneven(b, x):
    return b.op("add", conv(b, x, (2, 2), (0, 0, 1, 1)), conv(b, x, (3, 3), (1, 1, 1, 1)))


def residual(b, x):
    return b.op("add", conv(b, x, (3, 3), (1, 1, 1, 1)), x)


def averaged(b, x):
    mean = b.op("avgpool", x, kernel=3, pads=(1, 1, 1, 1), include_pad=1)
    return b.op("add", mean, conv(b, x, (3, 3), (1, 1, 1, 1), groups=2))


def averaged_uncounted(b, x):
    mean = b.op("avgpool", x, kernel=3, pads=(1, 1, 1, 1), include_pad=0)
    return b.op("add", mean, conv(b, x, (3, 3), (1, 1, 1, 1)))


def two_strides(b, x):
    return b.op("add", conv(b, x, (7, 7), (0, 0, 0, 0)), conv(b, x, (1, 1), (0, 0, 0, 0), strides=7))


def broadcast(b, x):
    return b.op("add", conv(b, x, (7, 7), (0, 0, 0, 0)), conv(b, x, (1, 1), (0, 0, 0, 0)))


def mixed_groups(b, x):
    return b.op("add", conv(b, x, (3, 3), (1, 1, 1, 1), groups=8), conv(b, x, (1, 1), (0, 0, 0, 0)))


def shared_weight(b, x):
    w, z = b.weight((8, 8, 3, 3)), b.op("tanh", x)
    return b.op("add", *(b.op("conv2d", v, w, pads=(1, 1, 1, 1)) for v in (x, z)))


@pytest.mark.parametrize(
    ("make", "convs"),
    [
        (stranger_between, 1),
        (uneven, 1),
        (residual, 1),
        (averaged, 1),
        (averaged_uncounted, 1),
        (broadcast, 2),
        (mixed_groups, 1),
        (shared_weight, 1),
        (other_input, None),
        (two_strides, None),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_blocks_nobody_published(make, convs):
    graph = block(make)
    result = workbench.optimize(graph)
    assert result.certificate.passed
    assert differ(graph, result.graph, 1) < 1e-6
    if convs is not None:
        assert operators(result.graph)["Conv"] == convs
    pools = "AveragePool" in operators(result.graph)
    assert pools == (make is averaged_uncounted)


@pytest.mark.slow
def test_e_nodes_grow_with_the_blocks():
    sizes = []
    for blocks in (2, 4, 8):
        graph = branched("mobileone", blocks=blocks, **SMALL["mobileone"])
        sizes.append(workbench.optimize(graph, certify=False).e_nodes)
    # About linear: each block adds the same.
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", in_turn(["repvgg", "acnet", "dbb", "mobileone"], 4))
def test_thirty_blocks(family):
    ours, by_hand = merged(family, blocks=30)
    assert ours == by_hand


@pytest.mark.slow
def test_thirty_blocks_with_adapters():
    # Where it pays, the products of one operand are merged as well, which nobody does by hand.
    ours, by_hand = merged("lora", blocks=30)
    assert ours["MatMul"] <= by_hand["MatMul"]
    assert ours["Add"] <= by_hand["Add"]
    assert ours.get("Mul", 0) <= by_hand["Mul"]


@pytest.mark.slow
def test_a_biased_1x1_before_padding_leaves_a_constant_next_to_one_convolution():
    # Zero padding does not see the bias: its sum is another number at the border.
    builder, rng = GraphBuilder(), np.random.default_rng(3)

    def weight(name, *shape):
        return builder.weight(data=rng.standard_normal(shape).astype("float32"), name=name)

    x = builder.input("x", (1, 256, 28, 28))
    inner = builder.op("conv2d", x, weight("w", 256, 256, 1, 1), weight("a", 1, 256, 1, 1))
    outer = builder.op("conv2d", inner, weight("v", 64, 256, 3, 3), pads=(1, 1, 1, 1))
    result = workbench.optimize(builder.graph({"y": outer}))
    assert result.certificate.passed
    assert "conv-of-biased-padded-point" in result.rules
    assert operators(result.graph) == {"Conv": 1, "Add": 1}
    assert differ(result.original, result.graph) < 1e-5
