import pickle

import numpy as np
import pytest

from workbench.graph import GraphBuilder, GraphError, Value, evaluate
from workbench.ops import TypeMismatch

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4) / 7
W = np.arange(20, dtype=np.float32).reshape(4, 5) - 7

EXPRESSIONS = [
    lambda x, w: x + x,
    lambda x, w: x - 2,
    lambda x, w: 2 - x,
    lambda x, w: np.float32(3) * x,
    lambda x, w: x / (x + 1),
    lambda x, w: 1 / x,
    lambda x, w: x**2,
    lambda x, w: -x,
    lambda x, w: abs(-x),
    lambda x, w: x @ w,
    lambda x, w: x + np.ones(4),
    lambda x, w: np.ones((3, 1)) - x,
    lambda x, w: x.T @ x,
    lambda x, w: x[0],
    lambda x, w: x[-1, 2:],
    lambda x, w: x[..., 1],
    lambda x, w: x[:, None, ::2],
    lambda x, w: x[None],
    lambda x, w: x[1:, -2:],
    lambda x, w: x[..., :],
    lambda x, w: x.reshape(2, -1),
    lambda x, w: x.reshape((12,)),
    lambda x, w: np.tanh(np.maximum(x, 0.5)),
    lambda x, w: np.exp(-x) / np.sqrt(x),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_operators_compute_what_numpy_computes(expression):
    b = GraphBuilder()
    y = expression(b.input("x", X.shape), b.weight(data=W))
    wanted = expression(X, W)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(evaluate(b.graph({"y": y}), {"x": X})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: x % 2,
        lambda x: x // 2,
        lambda x: x < 2,
        lambda x: not x,
        lambda x: sorted([x, x]),
        lambda x: x + "text",
        lambda x: float(x),
        lambda x: x & 1,
        lambda x: np.floor(x),
        lambda x: np.add.reduce(x),
        lambda x: [*x],
        lambda x: x + "a",
        lambda x: ["a"] @ x,
    ],
)
def test_what_has_no_meaning_raises(expression):
    x = GraphBuilder().input("x", (2, 3))
    with pytest.raises(TypeError):
        expression(x)


@pytest.mark.parametrize("index", [2, -3, slice(None, None, -1), slice(1, 1), 1.5, (0, 0, 0), True])
def test_an_index_out_of_range_is_refused(index):
    x = GraphBuilder().input("x", (2, 3))
    with pytest.raises(TypeMismatch):
        x[index]


def test_values_of_another_builder_are_refused():
    b, other = GraphBuilder(), GraphBuilder().input("y", (2,))
    x = b.input("x", (2,))
    with pytest.raises(GraphError, match="another"):
        x + other
    with pytest.raises(GraphError, match="another"):
        b.op("relu", other)
    with pytest.raises(GraphError, match="another"):
        b.graph({"y": other})


def test_a_fraction_is_no_operand_of_whole_numbers():
    with pytest.raises(TypeMismatch, match="must be whole"):
        GraphBuilder().input("x", (2,), "int64") + 0.5


def test_a_value_is_the_position_of_its_node():
    b = GraphBuilder()
    x = b.input("x", (2,))
    y = b.op("relu", x)
    assert isinstance(y, Value)
    assert (int(y), y == 1, {1: "one"}[y], b.nodes[y].op) == (1, True, "one", "relu")
    assert repr(y) == "Value 1: relu, float32[2]"
    assert type(pickle.loads(pickle.dumps(y))) is int
