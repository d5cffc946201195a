import numpy as np
import pytest

from tests.frontends.models import model, node, normal, value, weight
from workbench.frontends import import_onnx, run_model, to_onnx

WIDTH = 6


def read(nodes, weights, opset=17):
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
    graph = read(nodes, [*CONSTANTS, *SCALES], opset)
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
    graph = read(nodes, [*CONSTANTS, *SCALES])
    assert graph.operators() == {"layernorm": 1, "relu": 1, "add": 1}


def test_a_root_mean_square_norm_passes_through_conversions_that_convert_nothing():
    casts = [node("Cast", "x", "d", to=1), node("Cast", "n", "c", to=1)]
    nodes = [casts[0], *VARIANCE, *INVERSE, casts[1], node("Mul", "s c", "y")]
    graph = read(nodes, [*CONSTANTS, *SCALES])
    assert graph.operators() == {"rmsnorm": 1}


def test_a_shift_after_a_root_mean_square_is_a_sum():
    nodes = [node("Identity", "x", "d"), *VARIANCE, *INVERSE, *AFTER]
    assert read(nodes, [*CONSTANTS, *SCALES]).operators() == {"rmsnorm": 1, "add": 1}


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
    assert not {"layernorm", "rmsnorm"} & set(read([*nodes, last], [*CONSTANTS, *SCALES]).operators())


def test_parts_with_other_readers_stay_beside_the_norm():
    nodes = [*CENTRED, *VARIANCE, *ROOT, node("Mul", "n s", "p"), node("Add", "p d", "y")]
    assert read(nodes, [*CONSTANTS, *SCALES]).operators() == {
        "reduce_mean": 1, "sub": 1, "layernorm": 1, "add": 1,
    }  # fmt: skip
