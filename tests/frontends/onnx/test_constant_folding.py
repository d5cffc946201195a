import numpy as np
import pytest
from onnx import TensorProto

import workbench
from tests.frontends.models import INT64, model, node, normal, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx
from workbench.frontends.onnx.constant_folding import doubled
from workbench.graph import GraphBuilder, evaluate

MANY = 70_000  # more elements than shape arithmetic uses
BIG = np.finfo(np.float32).min


def same(m, feeds):
    graph = import_onnx(m).graph
    expected = run_model(m, feeds, optimise=False)
    for name, array in run_model(to_onnx(graph), feeds).items():
        np.testing.assert_array_equal(array, expected[name])
    return graph


def test_indices_are_computed_in_the_model_s_own_arithmetic():
    nodes = [node("Mul", "w ten", "p"), node("Cast", "p", "i", to=INT64), node("Gather", "t i", "y")]
    weights = [weight("w", np.full(MANY, 0.7)), weight("ten", 10)]
    m = model(nodes, [value("t", [8])], [value("y", [MANY])], weights)
    graph = same(m, {"t": np.arange(8, dtype=np.float32)})
    assert graph.operators() == {"gather": 1}
    assert workbench.optimize(m).certificate.passed


@pytest.mark.parametrize("rounding", ["Floor", "Ceil", "Round", "Sign"])
def test_what_an_opaque_operator_rounds_is_computed_as_the_model_does(rounding):
    nodes = [
        node("Mul", "w ten", "p"),
        node("Div", "p three", "q"),
        node("Add", "x q", "s"),
        node(rounding, "s", "y"),
    ]
    data = np.random.default_rng(0).integers(-9, 9, MANY) / 10
    weights = [weight("w", data), weight("ten", 10), weight("three", 0.3)]
    m = model(nodes, [value("x", [1])], [value("y", [MANY])], weights)
    graph = same(m, {"x": np.zeros(1, np.float32)})
    assert set(graph.operators()) == {"opaque", "add"}


def test_weights_that_nobody_rounds_wait_for_float64():
    nodes = [node("Mul", "w v", "p"), node("MatMul", "x p", "y")]
    m = model(nodes, [value("x", [2, 3])], [value("y", [2, 4])], [normal("w", 3, 4), normal("v", 4)])
    assert import_onnx(m).graph.operators() == {"mul": 1, "matmul": 1}


@pytest.mark.parametrize("size", [16, MANY])
def test_a_constant_that_overflows_is_the_model_s_own_infinity(size):
    nodes = [node("Add", "k l", "mask"), node("Add", "x mask", "s"), node("Softmax", "s", "y", axis=-1)]
    masks = [weight(n, np.where(np.arange(size) < k, 0, BIG)) for n, k in (("k", 8), ("l", 9))]
    m = model(nodes, [value("x", [2, size])], [value("y", [2, size])], masks)
    graph = same(m, {"x": np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)})
    assert graph.operators() == {"add": 1, "softmax": 1}
    result = workbench.optimize(m)
    assert result.certificate.passed


def test_a_half_precision_constant_overflows_as_it_did():
    nodes = [node("Exp", "k", "e"), node("Mul", "x e", "s"), node("Tanh", "s", "y")]
    half = TensorProto.FLOAT16
    k = weight("k", np.linspace(-20, 20, 16), np.float16)
    m = model(nodes, [value("x", [4, 16], half)], [value("y", [4, 16], half)], [k])
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float16)
    graph = import_onnx(m).graph
    expected = run_model(m, {"x": x}, optimise=False)["y"]
    np.testing.assert_allclose(run_model(to_onnx(graph), {"x": x})["y"], expected, rtol=2e-3, atol=1e-6)


def test_what_comes_before_a_tail_is_computed_as_the_model_does():
    nodes = [
        node("Mul", "w ten", "p"),
        node("Sub", "p x", "d"),
        node("NonZero", "d", "y"),
    ]
    weights = [weight("w", np.full(MANY, 0.7)), weight("ten", 10)]
    same(
        model(nodes, [value("x", [1])], [value("y", [1, None], INT64)], weights),
        {"x": np.full(1, 7, np.float32)},
    )


def test_logarithms_of_constants_are_those_of_the_runtime():
    nodes = [
        node("Div", "n eight", "d"),
        node("Log", "d", "l"),
        node("Mul", "l eight", "m"),
        node("Div", "m base", "q"),
        node("Cast", "q", "i", to=INT64),
        node("Gather", "t i", "y"),
    ]
    weights = [weight("n", np.arange(8, 129)), weight("eight", 8), weight("base", np.log(16))]
    m = model(nodes, [value("t", [9])], [value("y", [121])], weights)
    graph = same(m, {"t": np.arange(9, dtype=np.float32)})
    assert graph.operators() == {"gather": 1}


HALF = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
TWICE = np.concatenate([HALF, HALF], -1)


def read(table):
    b = GraphBuilder()
    table = np.asarray(table, np.float32)
    return b.graph({"y": b.op("mul", b.input("x", table.shape), b.weight(data=table, name="table"))})


def test_a_table_is_two_copies_of_its_half():
    given = read(TWICE)
    graph = doubled(given)
    assert graph.operators() == {"slice": 1, "concat": 1, "mul": 1}
    assert set(graph.weights) == {"table"}
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], evaluate(given, {"x": x})["y"])
    assert [n.op_type for n in to_onnx(graph).graph.node] == ["Mul"]


@pytest.mark.parametrize(
    "table",
    [
        np.concatenate([HALF, HALF + np.eye(3, 4)], -1),  # the first rows differ
        np.concatenate([HALF, HALF[[0, 2, 1]]], -1),  # only the first rows are equal
        np.ones((3, 8)),  # one number
        TWICE[:1],  # one row
        TWICE[0],
        TWICE[:, :7],  # no halves
        np.concatenate([HALF * 0, -HALF * 0], -1),  # a negative zero
    ],
)
def test_other_tables_stay(table):
    given = read(table)
    assert doubled(given) is given


def test_what_is_computed_from_such_a_table_is_two_copies_too():
    nodes = [node("Cos", "angles", "c"), node("Cast", "c", "d", to=1), node("Mul", "x d", "y")]
    given = model(nodes, [value("x", [3, 8])], [value("y", [3, 8])], [weight("angles", TWICE)])
    graph = import_onnx(given).graph
    assert graph.operators()["concat"] == 1
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    found = run_model(to_onnx(graph), {"x": x})["y"]
    np.testing.assert_allclose(found, x * np.cos(TWICE), rtol=1e-6)


def test_a_constant_of_places_that_an_axis_lacks_stays():
    b = GraphBuilder()
    rows = b.op("gather", b.weight(data=TWICE), b.weight(data=np.array([0, 7])), axis=-2)
    given = b.graph({"y": b.op("mul", b.input("x", (2, 8)), rows)})
    assert doubled(given) is given
