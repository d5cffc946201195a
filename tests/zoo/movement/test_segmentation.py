"""Heads that fuse resolutions: both forms are equal, and the default rules find the one written by hand."""

from collections import Counter

import numpy as np
import pytest

import workbench
from workbench.certification.inputs import random_inputs
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import evaluate
from zoo.movement.segmentation import pyramid_head, segformer, segformer_head

FAMILIES = {
    "segformer": (segformer, {"size": 64, "classes": 5}),
    "segformer_head": (segformer_head, {"size": 128, "classes": 5}),
    "pyramid_head": (pyramid_head, {"widths": (8, 16, 24, 32), "size": 16}),
}


def differ(graph, other):
    """Return the largest difference of two graphs in float64, relative to the largest entry."""
    inputs = random_inputs(graph, 7, 0)
    (expected,) = evaluate(graph, inputs, precise=True).values()
    (found,) = evaluate(other, inputs, precise=True).values()
    return float(np.abs(expected - found).max() / np.abs(expected).max())


def running(graph):
    """Return the number of each operator that runs with the model, not on weights alone."""
    nodes = zip(graph.nodes, graph.constant(), strict=True)
    return Counter(node.op for node, constant in nodes if not constant)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_form_by_hand_is_equal(family):
    make, given = FAMILIES[family]
    graph, by_hand = make(**given), make(**given, by_hand=True)
    assert graph.input_types == by_hand.input_types
    assert "concat" in graph.operators()
    assert "concat" not in by_hand.operators()
    assert differ(graph, by_hand) < 2e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_goes_through_onnx(family):
    make, given = FAMILIES[family]
    graph = make(**given)
    again = import_onnx(to_onnx(graph))
    assert not again.coverage.opaque
    assert differ(graph, again.graph) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("model", ["b0", "b2"])
def test_the_rules_split_a_head_among_its_resolutions(model, batch):
    given = {"model": model, "size": 256, "batch": batch}
    result = workbench.optimize(segformer_head(**given), cost="analytic", time=False)
    assert result.certificate.passed
    found, by_hand = running(result.graph), running(segformer_head(**given, by_hand=True))
    # A product of tokens that become an image is as well a 1x1 convolution of their image.
    assert found["conv2d"] + found["matmul"] == by_hand["conv2d"] + by_hand["matmul"]
    assert found["add"] <= by_hand["add"]  # a convolution takes its bias
    for op in ("resize", "concat"):
        assert found[op] == by_hand[op]


@pytest.mark.slow
def test_the_rules_convolve_branches_before_they_are_resized():
    result = workbench.optimize(pyramid_head(), cost=AnalyticCost("cpu"), time=False)
    assert result.certificate.passed
    found = result.graph
    for node in found.nodes:
        if node.op == "resize":
            assert found.nodes[node.inputs[0]].op == "conv2d"
    assert sum(n.op == "resize" for n in found.nodes) == 3


@pytest.mark.slow
def test_a_whole_network_is_rewritten_with_few_nodes():
    result = workbench.optimize(segformer(size=256), cost="analytic", time=False)
    assert result.certificate.passed
    assert max(step.e_nodes for step in result.trace.steps) < 20_000
    convolutions = [n for n in result.graph.nodes if n.op == "conv2d" and n.tensor.shape[1] == 256]
    assert all(result.graph.nodes[n.inputs[1]].tensor.shape[1] != 1024 for n in convolutions)
