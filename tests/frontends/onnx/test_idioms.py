import math

import numpy as np
import pytest

from tests.frontends.models import model, node, normal, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx

"""Tests of what `frontends.onnx.idioms` has from `norms`."""


WIDTH = 6


def read_norm(nodes, weights, opset=17):
    given = model(nodes, [value("x", [2, 3, WIDTH])], [value("y", [2, 3, WIDTH])], weights, opset=opset)
    graph = import_onnx(given).graph
    x = np.random.default_rng(0).standard_normal((2, 3, WIDTH)).astype(np.float32)
    (expected,), (found,) = (run_model(m, {"x": x}).values() for m in (given, to_onnx(graph)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return graph


def mean(x, y):
    return node("ReduceMean", x, y, axes=[-1])


CONSTANTS = [
    weight("two", 2),
    weight("eps", 1e-5),
    weight("one", 1),
    weight("minus", -0.5),
    weight("three", 3),
]
SCALES = [normal("s", WIDTH), normal("t", WIDTH)]
CENTRED = [mean("x", "m"), node("Sub", "x m", "d")]
VARIANCE = [node("Pow", "d two", "q"), mean("q", "v"), node("Add", "v eps", "e")]
ROOT = [node("Sqrt", "e", "r"), node("Div", "d r", "n")]
AFTER = [node("Mul", "n s", "p"), node("Add", "p t", "y")]
SQUARED = [node("Mul", "d d", "q"), mean("q", "v"), node("Add", "eps v", "e")]
INVERSE = [node("Sqrt", "e", "r"), node("Reciprocal", "r", "i"), node("Mul", "i d", "n")]
QUOTIENT = [node("Sqrt", "e", "r"), node("Div", "one r", "i"), node("Mul", "d i", "n")]
POWER = [node("Pow", "e minus", "i"), node("Mul", "d i", "n")]
TURNED = [node("Mul", "s n", "p"), node("Add", "t p", "y")]


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize(
    "nodes",
    [
        [*CENTRED, *VARIANCE, *ROOT, *AFTER],
        [*CENTRED, *SQUARED, *INVERSE, *TURNED],
        [*CENTRED, *SQUARED, *QUOTIENT, *AFTER],
        [*CENTRED, *VARIANCE, *POWER, *TURNED],
    ],
)
def test_a_layer_norm_in_parts_is_one_operator(nodes, opset):
    graph = read_norm(nodes, [*CONSTANTS, *SCALES], opset)
    assert graph.operators() == {"layernorm": 1}
    (norm,) = (n for n in graph.nodes if n.op == "layernorm")
    assert len(norm.inputs) == 3
    assert norm.attr("eps") == 1e-5


def test_what_lies_between_scale_and_shift_stays():
    nodes = [
        *CENTRED,
        *VARIANCE,
        *ROOT,
        node("Mul", "n s", "p"),
        node("Relu", "p", "k"),
        node("Add", "k t", "y"),
    ]
    graph = read_norm(nodes, [*CONSTANTS, *SCALES])
    assert graph.operators() == {"layernorm": 1, "relu": 1, "add": 1}


def test_a_root_mean_square_norm_passes_through_conversions_that_convert_nothing():
    casts = [node("Cast", "x", "d", to=1), node("Cast", "n", "c", to=1)]
    nodes = [casts[0], *VARIANCE, *INVERSE, casts[1], node("Mul", "s c", "y")]
    graph = read_norm(nodes, [*CONSTANTS, *SCALES])
    assert graph.operators() == {"rmsnorm": 1}


def test_a_shift_after_a_root_mean_square_is_a_sum():
    nodes = [node("Identity", "x", "d"), *VARIANCE, *INVERSE, *AFTER]
    assert read_norm(nodes, [*CONSTANTS, *SCALES]).operators() == {"rmsnorm": 1, "add": 1}


@pytest.mark.parametrize(
    "nodes",
    [
        [
            *CENTRED,
            node("Pow", "d three", "q"),
            mean("q", "v0"),
            node("Abs", "v0", "v"),
            *VARIANCE[2:],
            *ROOT,
        ],
        [*CENTRED, node("Mul", "x x", "q"), *VARIANCE[1:], *ROOT],  # of x, but it divides d
        [*CENTRED, node("Pow", "d two", "q"), node("ReduceMean", "q", "v", axes=[1]), *VARIANCE[2:], *ROOT],
        [*CENTRED, *VARIANCE, node("Div", "d e", "n")],  # no root
        [  # twice the deviation is not its square
            *CENTRED,
            node("Mul", "d two", "p0"),
            mean("p0", "v0"),
            node("Add", "v0 one", "e"),
            *ROOT,
        ],
    ],
)
def test_other_quotients_stay(nodes):
    last = node("Mul", "n s", "y")
    assert not {"layernorm", "rmsnorm"} & set(read_norm([*nodes, last], [*CONSTANTS, *SCALES]).operators())


def test_parts_with_other_readers_stay_beside_the_norm():
    nodes = [*CENTRED, *VARIANCE, *ROOT, node("Mul", "n s", "p"), node("Add", "p d", "y")]
    assert read_norm(nodes, [*CONSTANTS, *SCALES]).operators() == {
        "reduce_mean": 1, "sub": 1, "layernorm": 1, "add": 1,
    }  # fmt: skip


"""Tests of what `frontends.onnx.idioms` has from `gelus`."""


TANH = math.sqrt(2 / math.pi)
NUMBERS = {
    "half": 0.5,
    "one": 1,
    "two": 2,
    "three": 3,
    "root": math.sqrt(2),
    "inverse": math.sqrt(0.5),
    "tanh": TANH,
    "cubic": 0.044715,
    "other": 1.5,
}


def read_gelu(*nodes):
    """Return the graph of some nodes, whose result is checked to be the model's."""
    used = {name for n in nodes for name in n.input}
    given = model(
        list(nodes),
        [value("x", [2, 3])],
        [value("y", [2, 3])],
        [weight(name, number) for name, number in NUMBERS.items() if name in used],
    )
    graph = import_onnx(given).graph
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    (expected,), (found,) = (run_model(m, {"x": x}).values() for m in (given, to_onnx(graph)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return graph


def erf(divided):
    return [
        node("Div", "x root", "z") if divided else node("Mul", "inverse x", "z"),
        node("Erf", "z", "e"),
        node("Add", "e one" if divided else "one e", "t"),
    ]


CUBES = {
    "power": [node("Pow", "x three", "q"), node("Mul", "q cubic", "c")],
    "products": [node("Mul", "x x", "s"), node("Mul", "x s", "q"), node("Mul", "cubic q", "c")],
    "square": [node("Pow", "x two", "s"), node("Mul", "s cubic", "q"), node("Mul", "q x", "c")],
}
CURVE = [
    node("Add", "x c", "a"),
    node("Mul", "a tanh", "u"),
    node("Tanh", "u", "e"),
    node("Add", "e one", "t"),
]
FACTORED = [
    node("Mul", "x tanh", "w"),
    node("Mul", "x cubic", "v"),
    node("Mul", "v x", "s"),
    node("Add", "s one", "f"),
    node("Mul", "w f", "u"),
    node("Tanh", "u", "e"),
    node("Add", "one e", "t"),
]
ENDS = {
    "half last": [node("Mul", "x t", "p"), node("Mul", "p half", "y")],
    "half first": [node("Mul", "half x", "p"), node("Mul", "p t", "y")],
    "half inside": [node("Mul", "t half", "p"), node("Mul", "x p", "y")],
    "halved": [node("Mul", "t x", "p"), node("Div", "p two", "y")],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("divided", [True, False])
def test_an_exact_gelu_in_parts_is_one_operator(end, divided):
    graph = read_gelu(*erf(divided), *ENDS[end])
    assert graph.operators() == {"gelu": 1}
    assert [n.attr("tanh") for n in graph.nodes if n.op == "gelu"] == [0]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("curve", [*CUBES, "factored"])
def test_a_gelu_by_tanh_in_parts_is_one_operator(end, curve):
    nodes = FACTORED if curve == "factored" else [*CUBES[curve], *CURVE]
    graph = read_gelu(*nodes, *ENDS[end])
    assert graph.operators() == {"gelu": 1}
    assert [n.attr("tanh") for n in graph.nodes if n.op == "gelu"] == [1]


def test_the_gelu_of_a_product_is_found():
    product = node("Mul", "x other", "h")
    inner = [
        node("Div", "h root", "z"),
        node("Erf", "z", "e"),
        node("Add", "e one", "t"),
        node("Mul", "t half", "p"),
        node("Mul", "h p", "y"),
    ]
    assert read_gelu(product, *inner).operators() == {"mul": 1, "gelu": 1}


WRONG = {
    "another argument": [
        node("Mul", "x other", "h"),
        node("Div", "h root", "z"),
        node("Erf", "z", "e"),
        node("Add", "e one", "t"),
        *ENDS["half last"],
    ],
    "another half": [*erf(True), node("Mul", "x t", "p"), node("Mul", "p other", "y")],
    "another sum": [
        node("Div", "x root", "z"),
        node("Erf", "z", "e"),
        node("Add", "e half", "t"),
        *ENDS["half last"],
    ],
    "another cube": [node("Pow", "x two", "q"), node("Mul", "q cubic", "c"), *CURVE, *ENDS["half last"]],
    "no factor": [
        *CUBES["power"],
        node("Add", "x c", "a"),
        node("Tanh", "a", "e"),
        node("Add", "e one", "t"),
        *ENDS["halved"],
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_gelu_stays(name):
    assert "gelu" not in read_gelu(*WRONG[name]).operators()


def test_parts_with_other_readers_stay():
    graph = read_gelu(
        *erf(True), node("Mul", "x t", "p"), node("Mul", "p half", "g"), node("Add", "g e", "y")
    )
    assert graph.operators() == {"gelu": 1, "erf": 1, "div": 1, "add": 1}
