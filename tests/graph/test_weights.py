"""The number that all elements of a weight are."""

import numpy as np
import pytest

from workbench.graph.weights import Weight
from workbench.ops import TensorType


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_number_is_the_shortest_decimal(dtype):
    for value in (0.1, 1e-5, 2.0, -0.5, 0.0):
        assert Weight.of(np.full((2, 3), value, dtype)).number() == value
    assert Weight.of(np.asarray(0.044715, np.float32)).number() == 0.044715


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.0, 2.0]),
        np.array([1.0, 2.0, 1.0]),
        np.where(np.arange(300_000) == 200_000, 2.0, 1.0),
        np.array(-0.0),
        np.array(np.inf),
        np.array(np.nan),
        np.zeros((0, 2)),
        np.ones(3, np.int64),
    ],
    ids=str,
)
def test_what_is_not_one_finite_number_has_none(data):
    assert Weight.of(data).number() is None


def test_a_generated_weight_has_none():
    assert Weight(TensorType("float32", (1,)), seed=3).number() is None


def test_a_repeated_element_is_not_read_again():
    assert Weight.of(np.broadcast_to(np.float32(3), (1 << 15, 1 << 15))).number() == 3
