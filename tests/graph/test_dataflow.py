"""Which values are needed whole, and which matrices products read transposed."""

import numpy as np
import pytest

from workbench.graph import GraphBuilder, fold_constants
from workbench.graph.dataflow import read_transposed, read_whole
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
