"""Decoders that double: both forms are equal, and the default rules convolve before doubling."""

import pytest

import workbench
from tests.zoo.movement.test_segmentation import differ, running
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import import_onnx, to_onnx
from zoo.movement.decoders import (
    autoencoder_decoder,
    pose_head,
    unet_decoder,
    upsampling,
)

FAMILIES = {
    "upsampling": (upsampling, {"channels": 12, "out": 5, "size": 5}),
    "autoencoder_decoder": (autoencoder_decoder, {"widths": (8, 8, 4), "size": 4}),
    "unet_decoder": (unet_decoder, {"widths": (16, 8, 8), "decoder": (8, 4), "size": 3}),
    "pose_head": (pose_head, {"channels": 8, "widths": (6, 4), "joints": 3, "size": 3}),
    "pose_head_biased": (pose_head, {"channels": 8, "widths": (6, 4), "size": 3, "bias": True}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_form_by_hand_is_equal(family):
    make, given = FAMILIES[family]
    graph, by_hand = make(**given), make(**given, by_hand=True)
    assert graph.input_types == by_hand.input_types
    doubling = {"resize", "conv_transpose"}
    assert doubling & set(graph.operators())
    assert not doubling & set(by_hand.operators())
    assert differ(graph, by_hand) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_goes_through_onnx(family):
    make, given = FAMILIES[family]
    graph = make(**given)
    again = import_onnx(to_onnx(graph))
    assert not again.coverage.opaque
    assert differ(graph, again.graph) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "given"),
    [
        ("upsampling", {}),
        ("upsampling", {"channels": 64, "out": 96, "size": 17, "batch": 2}),
        ("autoencoder_decoder", {"size": 8}),
        ("unet_decoder", {}),
    ],
)
def test_the_rules_convolve_before_doubling(family, given):
    make = FAMILIES[family][0]
    result = workbench.optimize(make(**given), cost=AnalyticCost("cpu"), time=False)
    assert result.certificate.passed
    found, by_hand = running(result.graph), running(make(**given, by_hand=True))
    for op in ("conv2d", "concat", "depth_to_space", "resize"):
        assert found[op] == by_hand[op]


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
def test_a_normalisation_moves_into_a_transposed_convolution(bias):
    result = workbench.optimize(pose_head(size=5, batch=2, bias=bias), cost="analytic", time=False)
    assert result.certificate.passed
    found = running(result.graph)
    assert found["batchnorm"] == found["mul"] == found["add"] == 0
    assert found["relu"] == 3


@pytest.mark.slow
def test_a_transposed_convolution_may_be_four():
    # Whether it is cheaper, this machine decides: a roofline sees the same arithmetic in both forms.
    graph = pose_head(channels=8, widths=(6,), joints=3, size=3)
    saturated = workbench.Saturation(graph, workbench.rule_set("default"))
    saturated.run()
    assert "depth_to_space" in set(saturated.egraph().ops)
