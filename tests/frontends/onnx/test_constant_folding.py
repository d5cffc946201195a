import numpy as np
import pytest
from onnx import TensorProto

import workbench
from tests.frontends.models import INT64, model, node, normal, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx

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
