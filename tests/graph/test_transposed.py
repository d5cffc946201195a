import numpy as np
import pytest

from workbench.graph import GraphBuilder, fold_constants
from workbench.graph.transposed import read_transposed


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
