"""Which values are needed whole, however parts of others are computed."""

import numpy as np
import pytest

from workbench.graph import GraphBuilder, fold_constants
from workbench.graph.dataflow import cleaned_places, numbers_in, read_transposed, read_whole, without_neutral
from zoo.movement.encoders import pre_normed


def at(graph, op):
    """Return the nodes of an operator."""
    return [i for i, node in enumerate(graph.nodes) if node.op == op]


def test_of_an_encoder_read_at_one_row_the_lower_layers_are_needed_whole():
    graph = pre_normed(layers=3, width=32, heads=2, positions=20, labels=7)
    whole = read_whole(graph)
    assert [i in whole for i in at(graph, "softmax")] == [True, True, False]
    assert [i in whole for i in at(graph, "gelu")] == [True, True, False]


def stack(read, layers=3):
    b = GraphBuilder()
    x = b.input("x", (6, 4))
    for _ in range(layers):
        x = b.op("relu", b.op("matmul", x, b.weight((4, 4))))
    row = b.op("slice", x, axis=-2, start=0, stop=1)
    return b.graph({"y": row} if read == "row" else {"y": row, "x": x})


def test_of_a_stack_of_layers_read_at_one_row_nothing_is_needed_whole():
    graph = stack("row")
    assert not read_whole(graph).intersection(at(graph, "relu") + at(graph, "matmul") + at(graph, "input"))


def test_what_is_an_output_too_is_needed_whole():
    graph = stack("both")
    assert read_whole(graph).issuperset(at(graph, "relu") + at(graph, "input"))


def test_what_is_read_in_several_parts_is_not_needed_whole():
    b = GraphBuilder()
    x = b.op("matmul", b.input("x", (6, 4)), b.weight((4, 9)))
    q, k, v = (b.op("slice", x, axis=-1, start=3 * i, stop=3 * i + 3) for i in range(3))
    graph = b.graph({"y": b.op("add", b.op("add", q, k), v)})
    whole = read_whole(graph)
    assert not whole.intersection(at(graph, "matmul"))
    assert whole.issuperset(at(graph, "slice") + at(graph, "input"))


def test_a_softmax_needs_the_whole_of_its_axis():
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (6, 4)))
    y = b.op("slice", b.op("softmax", x, axis=-1), axis=-1, start=0, stop=1)
    assert 1 in read_whole(b.graph({"y": y}))


def test_an_operator_without_a_rule_may_need_any_part():
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (1, 2, 8, 8)))
    y = b.op("conv2d", x, b.weight((2, 2, 3, 3)))
    graph = b.graph({"y": b.op("slice", y, axis=-2, start=0, stop=2)})
    assert not read_whole(graph).intersection(at(graph, "relu") + at(graph, "conv2d"))
    graph = b.graph({"y": y})
    assert read_whole(graph).issuperset(at(graph, "relu") + at(graph, "conv2d"))


def test_weights_and_numbers_are_found():
    b = GraphBuilder()
    x = b.input("x", (2,))
    w, v = b.weight(data=np.ones(2, np.float32)), b.weight((2,))
    half = b.op("scalar", value=0.5)
    y = b.op("add", b.op("mul", b.op("mul", x, w), v), half)
    graph = b.graph({"y": y})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"weight": 1.0, "scalar": 0.5}


def test_what_is_computed_from_numbers_alone_is_one():
    b = GraphBuilder()
    ratio = b.op("sqrt", b.op("div", b.op("scalar", value=2.0), b.op("pi")))
    graph = b.graph({"y": b.op("mul", b.input("x", ()), ratio)})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"scalar": 2.0, "pi": 3.1415927, "div": 0.63661975, "sqrt": 0.7978845}


def turned(graph):
    return [graph.nodes[i].op for i in sorted(read_transposed(graph))]


def matrix(b, dtype=np.float32):
    return b.op("transpose", b.weight(data=np.ones((4, 3), dtype), name="w"), perm=(1, 0))


def test_a_product_can_read_a_stored_matrix_transposed():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("matmul", b.input("x", (2, 3)), matrix(b))})
    assert turned(graph) == ["transpose"]
    assert fold_constants(graph).operators() == {"matmul": 1}
    kept = fold_constants(graph, keep_transposed=True)
    assert kept.weights["w"] is graph.weights["w"]


def test_the_left_side_can_be_read_transposed_too():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("matmul", matrix(b), b.input("x", (4, 2)))})
    assert turned(graph) == ["transpose"]


@pytest.mark.parametrize("other", ["a sum reads it", "a batch", "an output", "a computed matrix"])
def test_a_transpose_with_another_use_is_stored(other):
    b = GraphBuilder()
    w, x = matrix(b), b.input("x", (5, 2, 3) if other == "a batch" else (2, 3))
    if other == "a computed matrix":
        w = b.op("transpose", b.op("exp", b.weight(data=np.ones((4, 3), np.float32))), perm=(1, 0))
    outputs = {"y": b.op("matmul", x, w)}
    if other == "a sum reads it":
        outputs["z"] = b.op("add", b.input("z", (3, 4)), w)
    if other == "an output":
        outputs["z"] = w
    graph = b.graph(outputs)
    assert turned(graph) == []
    assert "transpose" not in fold_constants(graph, keep_transposed=True).operators()


NOTHING = {
    "times one": lambda b, x: b.op("mul", x, filled(b, (3,), 1)),
    "one times": lambda b, x: b.op("mul", filled(b, (2, 1), 1), x),
    "over one": lambda b, x: b.op("div", x, filled(b, (), 1)),
    "plus zero": lambda b, x: b.op("add", x, filled(b, (2, 3), 0)),
    "minus zero": lambda b, x: b.op("sub", x, filled(b, (1,), 0)),
    "a slice of everything": lambda b, x: b.op("slice", x, axis=-1, start=0, stop=3),
    "a pad of nothing": lambda b, x: b.op("pad", x),
    "its own shape": lambda b, x: b.op("expand", b.op("reshape", x, shape=(2, 3)), shape=(2, 3)),
    "its own order": lambda b, x: b.op("transpose", x, perm=(0, 1)),
    "its own type": lambda b, x: b.op("cast", b.op("identity", x), to="float32"),
}
SOMETHING = {
    "one more axis": lambda b, x: b.op("mul", x, filled(b, (1, 1, 1), 1)),
    "more rows": lambda b, x: b.op("add", b.op("slice", x, axis=-2, start=0, stop=1), filled(b, (2, 3), 0)),
    "zero minus": lambda b, x: b.op("sub", filled(b, (), 0), x),
    "one over": lambda b, x: b.op("div", filled(b, (), 1), x),
    "times zero": lambda b, x: b.op("mul", x, filled(b, (), 0)),
    "another type": lambda b, x: b.op("cast", x, to="float16"),
    "another order": lambda b, x: b.op("transpose", b.op("matmul", x, b.weight((3, 2))), perm=(1, 0)),
}


def filled(b, shape, number):
    return b.weight(data=np.full(shape, number, np.float32))


@pytest.mark.parametrize("case", NOTHING)
def test_an_operator_that_leaves_a_value_as_it_is_goes(case):
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (2, 3)))
    found = without_neutral(b.graph({"y": NOTHING[case](b, x), "z": x}))
    assert found.operators() == {"relu": 1}
    assert found.outputs[0][1] == found.outputs[1][1]


@pytest.mark.parametrize("case", SOMETHING)
def test_an_operator_that_changes_shape_type_or_number_stays(case):
    b = GraphBuilder()
    graph = b.graph({"y": SOMETHING[case](b, b.input("x", (2, 3)))})
    assert without_neutral(graph) is graph


def test_the_places_of_a_cleaned_graph_have_the_values_of_the_given_one():
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    y = b.op("mul", x, b.weight(data=np.float32(1)))
    z = b.op("relu", b.op("reshape", y, shape=(4, 8)))
    graph = b.graph({"z": b.op("exp", z), "y": y})
    cleaned = without_neutral(graph)
    places = cleaned_places(graph, cleaned)
    shown = [None if i < 0 else cleaned.nodes[i].op for i in places]
    assert shown == ["input", None, "input", "input", "relu", "exp"]
