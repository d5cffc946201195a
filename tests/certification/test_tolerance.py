"""What the rounding of a model's numbers explains, and what it does not."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.certification.models import chain
from tests.certification.models import model as onnx_model
from workbench import certify
from workbench.certification.model import Model
from workbench.certification.tolerance import (
    MOST_EXPLAINED,
    beyond,
    is_coarse,
    is_noise,
    mismatch,
    moved_model,
    movement,
    shares_of,
)
from workbench.graph import GraphBuilder, evaluate


def gelu_by(root, half=0.5, dtype="float32"):
    """Return gelu written out with the number ``root`` for the root of two."""
    b = GraphBuilder()
    x = b.input("x", (4, 8), dtype)
    numbers = {n: b.weight(data=np.asarray(n, dtype)) for n in (root, 1.0, half)}
    e = b.op("add", b.op("erf", b.op("div", x, numbers[root])), numbers[1.0])
    return b.graph({"y": b.op("mul", b.op("mul", x, e), numbers[half])})


def gelu(dtype="float32"):
    b = GraphBuilder()
    return b.graph({"y": b.op("gelu", b.input("x", (4, 8), dtype))})


def test_a_rounded_number_is_not_a_difference_and_the_certificate_says_so():
    found = certify(gelu_by(2**0.5), gelu(), whole=False)
    assert found.passed
    assert found.error <= found.tolerance
    assert "numbers within their rounding" in found.arithmetic
    assert "numbers" not in certify(gelu(), gelu(), whole=False).arithmetic


@pytest.mark.parametrize("graph", [gelu_by(1.4142), gelu_by(1.414214), gelu_by(2**0.5, 0.5001)])
def test_another_number_is_a_difference(graph):
    assert not certify(graph, gelu(), whole=False).passed


def larger(number, op):
    b = GraphBuilder()
    x = b.input("x", (3,), "float16")
    if op == "clip":
        return b.graph({"y": b.op("clip", x, low=number, high=np.inf)})
    return b.graph({"y": b.op("max", x, b.weight(data=np.asarray(number, np.float16)))})


@pytest.mark.parametrize(("number", "same"), [(1.739, True), (1.7393, True), (1.738, False), (1.741, False)])
def test_a_number_in_half_precision_is_known_to_three_digits(number, same):
    found = certify(larger(1.739, "max"), larger(number, "clip"), whole=False)
    assert found.passed == same


def test_in_double_precision_a_number_of_single_precision_is_another():
    assert certify(gelu_by(2**0.5, dtype="float64"), gelu("float64"), whole=False).passed
    assert not certify(gelu_by(1.4142135, dtype="float64"), gelu("float64"), whole=False).passed


def test_outputs_move_by_what_half_a_unit_changes():
    b = GraphBuilder()
    x = b.input("x", (3,))
    tenth, large = b.weight(data=np.asarray(0.1, np.float32)), b.weight(data=np.array([1, 2, 3], np.float32))
    graph = b.graph({"y": b.op("add", b.op("mul", x, tenth), large)})
    given = {"x": np.array([1.0, -2.0, 0.0], np.float32)}

    def evaluated(one):
        return evaluate(one, given, precise=True)

    half = np.spacing(np.float32(0.1)) / 2
    np.testing.assert_allclose(movement(graph, evaluated)["y"], half * np.abs(given["x"]), rtol=1e-6)


def test_truth_values_and_whole_numbers_are_not_moved():
    b = GraphBuilder()
    x, tenth = b.input("x", (3,)), b.weight(data=np.asarray(0.1, np.float32))
    graph = b.graph({"y": b.op("mul", x, tenth)})

    def evaluated(one):
        y = evaluate(one, {"x": np.array([0.1, -2.0, 1.0], np.float32)}, precise=True)["y"]
        return {"y": y, "less": y < 0.1}

    moved = movement(graph, evaluated)
    assert moved["y"].any()
    assert not moved["less"].any()


@pytest.mark.parametrize("number", [0.0, 1.0, -8.0, 0.5, 384.0, 0.125])
def test_a_number_that_no_rounding_makes_explains_nothing(number):
    b = GraphBuilder()
    x = b.input("x", (3,))
    graph = b.graph({"y": b.op("mul", x, b.weight(data=np.asarray(number, np.float32)))})
    asked = []

    def evaluated(one):
        asked.append(one)
        return evaluate(one, {"x": np.ones(3, np.float32)}, precise=True)

    assert not movement(graph, evaluated)["y"].any()
    assert len(asked) == 1


def test_no_more_is_explained_than_a_few_units():
    b = GraphBuilder()
    x = b.input("x", (2,))
    huge = b.weight(data=np.asarray(1e8, np.float32))
    graph = b.graph({"y": b.op("sub", b.op("add", x, huge), huge)})
    given = {"x": np.array([1.0, 2.0], np.float32)}
    moved = movement(graph, lambda one: evaluate(one, given, precise=True))
    assert moved["y"].max() <= 2 * MOST_EXPLAINED["float32"]


def test_what_is_explained_is_taken_off():
    expected, found = np.array([1.0, 2.0, np.nan, np.inf]), np.array([1.5, 1.0, np.nan, np.inf])
    np.testing.assert_array_equal(beyond(expected, found, np.full(4, 0.5)), [1.0, 1.5, np.nan, np.inf])


def test_noise_is_measured_by_runs_of_the_same_shape():
    x, other = np.array([1.0, 2.0, 3.0], np.float32), np.array([2.0, 2.0, 3.0], np.float32)
    assert is_noise(x, other, [other])
    assert not is_noise(x, x, [other])
    assert not is_noise(x, other, [x])
    assert not is_noise(x, other, [x[:2]])  # as many entries as rounding lets through


def test_whole_numbers_differ_at_no_more_places_than_rounding_moves():
    whole = np.arange(20)
    moved, four, five = whole.copy(), whole.copy(), whole.copy()
    moved[3] += 1
    four[:4] += 1
    five[:5] += 1
    assert mismatch(whole, four, (moved,)) is None
    assert mismatch(whole, five, (moved,)).index == (0,)
    assert mismatch(whole, four, (whole,)).index == (0,)
    assert mismatch(whole, whole + 3 * (whole == 7), (moved,)).index == (7,), "further than twice the move"


ONE, TWO = np.float32(1), np.float32(2)


@pytest.mark.parametrize(
    ("expected", "found", "index", "what"),
    [
        (None, None, None, ""),
        ([ONE, TWO], [ONE, TWO], None, ""),
        ([ONE, TWO], [ONE, ONE], (1,), ""),
        ([ONE, TWO], [ONE], (), "of another length in B"),
        ([ONE], {0: ONE}, (), "of another length in B"),
        ([ONE], None, (), "absent in one model"),
        (None, [ONE], (), "absent in one model"),
        ({"a": ONE, "b": TWO}, {"b": TWO, "a": ONE}, None, ""),
        ({"a": ONE, "b": TWO}, {"a": ONE, "b": ONE}, (1,), ""),
        ({"a": ONE}, {"b": ONE}, (), "other keys in B"),
        ([{"a": ONE}, {"a": np.array([1, 2])}], [{"a": ONE}, {"a": np.array([1, 3])}], (1, 0, 1), ""),
        ([ONE], [np.float64(1)], (0,), "float32[] in A, float64[] in B"),
    ],
)
def test_lists_mappings_and_absent_values_are_compared_by_their_parts(expected, found, index, what):
    at = mismatch(expected, found, ())
    assert (None if at is None else (at.index, at.what)) == (None if index is None else (index, what))


@pytest.mark.parametrize("made", [True, False])
def test_a_bias_is_moved_wherever_the_file_keeps_it(made):
    """Weights are entries of the graph or attributes of Constant nodes; other numbers of nodes are not moved."""
    bias = numpy_helper.from_array(np.full(3, 1e3, np.float32), "k")
    nodes = [helper.make_node("Constant", [], ["k"], value=bias)] if made else []
    nodes += [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Sub", ["e", "k"], ["y"])]
    whole = onnx_model(nodes, [("x", 1, [3])], [("y", 1, [3])])
    whole.graph.initializer.extend([] if made else [bias])
    moved = moved_model(Model.of(whole, None, ""), dict.fromkeys("xey", "float32"), ["y"], 0)
    difference = next(node for node in moved.graph.node if node.op_type == "Sub")
    assert list(difference.input) == ["e__moved", "k__moved"]


@pytest.mark.parametrize(
    ("operators", "coarse"),
    [
        (["Sigmoid"], True),
        (["Sigmoid", "Transpose", "Identity"], True),
        (["Sigmoid", "Relu"], False),
        (["Identity"], False),  # passes on an input, which is right to its own last digit
    ],
)
def test_only_a_sigmoid_and_what_passes_it_on_is_right_to_the_last_digit_of_one_alone(operators, coarse):
    assert is_coarse(Model.of(chain(operators), None, ""), "y") == coarse


def test_units_of_one_are_rounding_of_coarse_values_alone():
    """The largest entry is two units of 1 in float32; the other model differs by two units, within the four allowed."""
    unit = np.float32(2.0**-23)
    x, other, far = (np.full(2, n * unit, np.float32) for n in (2, 4, 7))
    assert is_noise(x, other, [other])
    assert not is_noise(x, other, [other], coarse=True)
    assert is_noise(x, far, [other], coarse=True)


def test_the_share_of_a_column_is_a_bound_if_it_moves_on_enough_draws():
    draws = [
        np.array([[size, size / 100, float(n == 0)]], np.float32) for n, size in enumerate([1e4, 1, 2, 3])
    ]
    moved = [[a * np.float32(1.001), a * np.float32(0.999)] for a in draws]
    share = shares_of(draws, moved)[3]
    np.testing.assert_allclose(share, [1.0, 0.01, 1.0], rtol=1e-3)  # the last one is zero on most draws
    assert (shares_of(draws[:3], moved[:3])[3] == 1.0).all()
    assert shares_of(draws, [[] for _ in draws]) == {}
    assert shares_of([np.arange(3)], [[np.arange(3)] * 9]) == {}
