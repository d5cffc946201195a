"""Decoders that double: both forms are equal, and the default rules convolve before doubling."""

import pytest

import workbench
from tests.benchmarks.movement.test_segmentation import differ
from workbench.benchmarks.movement.decoders import (
    autoencoder_decoder,
    pose_head,
    unet_decoder,
    upsampling,
)
from workbench.frontends import import_onnx, to_onnx

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


@pytest.mark.parametrize(
    ("family", "given"),
    [
        ("upsampling", {}),
        ("upsampling", {"channels": 64, "out": 96, "size": 17, "batch": 2}),
        ("autoencoder_decoder", {"size": 8}),
        ("unet_decoder", {}),
        ("pose_head", {}),
        ("pose_head_biased", {"bias": True, "batch": 2, "size": 5}),
    ],
)
def test_the_rules_convolve_before_doubling(family, given):
    make = FAMILIES[family][0]
    result = workbench.optimize(make(**given), cost="analytic", time=False)
    assert result.certificate.passed
    by_hand = make(**given, by_hand=True).operators()
    assert not {"resize", "conv_transpose", "batchnorm"} & set(result.graph.operators())
    assert result.graph.operators()["depth_to_space"] == by_hand["depth_to_space"]
