"""Tests of what `costs.pricing` has from `blocked`."""

from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of
from workbench.costs.pricing import KEPT, blocked
from workbench.extraction import extract
from workbench.ops import TensorType


def resized(channels=32, after=16, mode="linear"):
    """Return an e-graph that resizes an image, which a convolution or a reshape makes, and its costs."""
    nodes = [(0, [1]), (1, [2]), (1, [3]), (2, []), (3, [])]
    small, large = (
        TensorType("float32", (1, channels, 8, 8)),
        TensorType("float32", (1, channels, after, after)),
    )
    egraph = replace(
        egraph_of(nodes),
        ops=("resize", "conv2d", "reshape", "input", "matmul"),
        attrs=(((after, after), mode), *egraph_of(nodes).attrs[1:]),
        types=(large, small, small, small),
    )
    return egraph, np.array([100.0, 10, 0, 0, 8])


def test_resizing_is_cheap_after_a_convolution_only():
    egraph, costs = resized()
    moved = blocked(egraph, costs)
    assert moved.tolist() == pytest.approx([100 * KEPT, 10, 100 * (1 - KEPT), 0, 8])
    assert costs[0] == 100


def test_the_choice_is_the_convolution():
    egraph, costs = resized()
    assert extract(egraph, costs).choice[1] == 2
    assert extract(egraph, blocked(egraph, costs)).choice[1] == 1


@pytest.mark.parametrize(
    ("channels", "after", "mode"), [(20, 16, "linear"), (32, 12, "linear"), (32, 16, "cubic")]
)
def test_other_images_are_resized_by_the_other_kernel(channels, after, mode):
    egraph, costs = resized(channels, after, mode)
    assert blocked(egraph, costs).tolist() == costs.tolist()


def test_without_a_convolution_nothing_moves():
    egraph, costs = resized()
    costs[1] = np.inf
    assert blocked(egraph, costs).tolist() == costs.tolist()
