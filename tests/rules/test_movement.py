"""The laws of rows: what is read in one row only is computed in one row only."""

import math

import pytest

from workbench import optimize
from workbench.graph import GraphBuilder


def gated(b, x, width):
    """Return a gated block after a root-mean-square norm, plus its input."""
    h = b.op("rmsnorm", x, b.weight((width,)))
    up, gate = (b.op("matmul", h, b.weight((width, 4 * width))) for _ in range(2))
    product = b.op("mul", b.op("mul", gate, b.op("sigmoid", gate)), up)
    return b.op("add", x, b.op("matmul", product, b.weight((4 * width, width))))


def products(graph):
    """Return the elements of all results of products."""
    return sum(n.tensor.elements for n in graph.nodes if n.op == "matmul")


@pytest.mark.parametrize("rows", [16, 40])
def test_the_last_row_goes_through_root_mean_square_norms_and_gates(rows):
    b = GraphBuilder()
    x = gated(b, b.input("x", (1, rows, 8)), 8)
    last = b.op("slice", b.op("rmsnorm", x, b.weight((8,))), axis=-2, start=rows - 1, stop=rows, step=1)
    graph = b.graph({"y": b.op("matmul", last, b.weight((8, 100)))})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert products(result.graph) == products(graph) - (rows - 1) * (4 + 4 + 1) * 8
    assert {math.prod(n.tensor.shape[:-1]) for n in result.graph.nodes if n.op == "rmsnorm"} == {1}
