"""Random inputs fit a graph and repeat; gentle ones divide and index safely."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.certification.models import model
from workbench.certification.inputs import Range, gentle_inputs, index_limits, index_limits_of, random_inputs
from workbench.certification.model import Model
from workbench.graph import GraphBuilder


def lookup():
    b = GraphBuilder()
    i = b.input("i", (50,), "int64")
    n = b.input("n", (4,), "int64")
    x = b.input("x", (4,), "float16")
    table = b.weight((3, 4))
    row = b.op("gather", table, b.op("reshape", i, shape=(5, 10)), axis=-2)
    return b.graph({"y": row, "n2": b.op("cast", n, to="float32"), "x2": b.op("relu", x)})


def test_an_index_stays_in_range_behind_a_reshape():
    graph = lookup()
    assert index_limits(graph)[graph.inputs[0]] == 3
    assert set(np.concatenate([random_inputs(graph, 0, d)["i"] for d in range(3)])) == {0, 1, 2}


def test_same_seed_and_draw_same_inputs_in_the_inputs_dtypes():
    graph = lookup()
    first, second = random_inputs(graph, 5, 0), random_inputs(graph, 5, 0)
    assert {k: str(v.dtype) for k, v in first.items()} == {"i": "int64", "n": "int64", "x": "float16"}
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


@pytest.mark.parametrize(("attempt", "values"), [(0, {1}), (1, {0}), (2, {1, 2, 3})])
def test_gentle_inputs_are_ones_zeros_or_small_and_never_out_of_range(attempt, values):
    found = gentle_inputs(lookup(), 0, attempt)
    assert set(found["n"]) <= values
    assert set(found["i"]) <= {0, 1, 2}


def test_a_range_bounds_the_first_draw():
    seen = Range.of(np.array([1.0, 2.0, np.inf, 3.0]))
    assert (seen.mean, seen.least, seen.most) == (2.0, 1.0, 3.0)
    drawn = random_inputs(lookup(), 0, 0, {"x": seen})["x"]
    assert ((drawn >= 1) & (drawn <= 3)).all()
    assert Range.of(np.array([np.nan])) is None


@pytest.mark.parametrize(
    ("operator", "settings", "limit"),
    [
        ("Gather", {}, 7),  # the first axis unless the node names another
        ("Gather", {"axis": 1}, 5),
        ("Gather", {"axis": -1}, 5),
        ("GatherElements", {"axis": 1}, 5),
        ("GatherND", {}, 5),  # one index has a number for each axis: all stay below the least extent
    ],
)
def test_an_index_of_a_file_reaches_all_places_of_its_axis(operator, settings, limit):
    """A smaller limit would leave places of the table unread, a larger one would make the original fail."""
    inputs = [("t", TensorProto.FLOAT, [7, 5]), ("i", TensorProto.INT64, [2, 2])]
    node = helper.make_node(operator, ["t", "i"], ["y"], **settings)
    file = Model.of(model([node], inputs, [("y", TensorProto.FLOAT, None)]), None, "")
    assert index_limits_of(file, {"t": (7, 5), "i": (2, 2)}) == {"i": limit}


def test_an_index_of_two_tables_stays_below_the_smaller_one():
    inputs = [("t", 1, [7, 5]), ("u", 1, [4]), ("i", TensorProto.INT64, [2])]
    nodes = [helper.make_node("Gather", [table, "i"], [y]) for table, y in (("t", "y"), ("u", "z"))]
    file = Model.of(model(nodes, inputs, [("y", 1, None), ("z", 1, None)]), None, "")
    assert index_limits_of(file, {"t": (7, 5), "u": (4,), "i": (2,)}) == {"i": 4}


def test_an_axis_of_unknown_extent_limits_no_index():
    inputs = [("x", 1, [7]), ("i", TensorProto.INT64, [2])]
    nodes = [helper.make_node("NonZero", ["x"], ["t"]), helper.make_node("Gather", ["t", "i"], ["y"], axis=1)]
    file = Model.of(model(nodes, inputs, [("y", TensorProto.INT64, None)]), None, "")
    assert index_limits_of(file, {"x": (7,), "i": (2,)}) == {}
