import math

import numpy as np
import pytest

from tests.frontends.models import model, node, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx

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


def read(*nodes):
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
    graph = read(*erf(divided), *ENDS[end])
    assert graph.operators() == {"gelu": 1}
    assert [n.attr("tanh") for n in graph.nodes if n.op == "gelu"] == [0]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("curve", [*CUBES, "factored"])
def test_a_gelu_by_tanh_in_parts_is_one_operator(end, curve):
    nodes = FACTORED if curve == "factored" else [*CUBES[curve], *CURVE]
    graph = read(*nodes, *ENDS[end])
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
    assert read(product, *inner).operators() == {"mul": 1, "gelu": 1}


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
    assert "gelu" not in read(*WRONG[name]).operators()


def test_parts_with_other_readers_stay():
    graph = read(*erf(True), node("Mul", "x t", "p"), node("Mul", "p half", "g"), node("Add", "g e", "y"))
    assert graph.operators() == {"gelu": 1, "erf": 1, "div": 1, "add": 1}
