"""Prices of operators in training."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from workbench.costs.model import OpInstance  # noqa: E402
from workbench.ops import TensorType  # noqa: E402
from workbench.torch.dynamo import TrainingCost, cost_of  # noqa: E402

pytestmark = pytest.mark.torch
WIDE, PART = TensorType("float32", (512, 512)), TensorType("float32", (1, 512))


def price(cost, op, attrs, inputs, kind):
    return cost.price([OpInstance(op, attrs, inputs, kind, (False,) * len(inputs))]).item()


def test_a_product_costs_three_times_its_forward_pass():
    forward = price(cost_of(False, "cpu"), "matmul", ("none",), (WIDE, WIDE), WIDE)
    assert price(TrainingCost("cpu"), "matmul", ("none",), (WIDE, WIDE), WIDE) == pytest.approx(3 * forward)


def test_the_gradient_of_a_slice_fills_the_whole():
    attrs = (-2, 0, 1, 1)
    forward = price(cost_of(False, "cpu"), "slice", attrs, (WIDE,), PART)
    assert price(TrainingCost("cpu"), "slice", attrs, (WIDE,), PART) > 10 * forward


def test_views_are_free_and_the_source_is_told():
    assert (
        price(TrainingCost("cpu"), "reshape", ((512 * 512,),), (WIDE,), TensorType("float32", (512 * 512,)))
        == 0
    )
    assert cost_of(True, "t4").source == "analytic roofline, t4, forward and backward"
    assert cost_of(False, "t4").source == "analytic roofline, t4"
