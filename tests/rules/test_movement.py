"""The laws of movement: one row is computed if one row is read; a norm of rows goes into their product."""

import math

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate


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


def normalised(b, x, columns):
    """Return the batch normalisation of rows, as an image of one place."""
    random = np.random.default_rng(1)
    statistics = [b.weight(data=random.uniform(0.5, 1.5, columns).astype(np.float32)) for _ in range(4)]
    rows = b.nodes[x].tensor.elements // columns
    image = b.op("reshape", x, shape=(rows, columns, 1, 1))
    return b.op("reshape", b.op("batchnorm", image, *statistics), shape=b.nodes[x].tensor.shape)


@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_takes_its_normalisation(shape, bias):
    b = GraphBuilder()
    random = np.random.default_rng(0)
    product = b.op("matmul", b.input("x", shape), b.weight(data=random.standard_normal((8, 5), np.float32)))
    if bias:
        product = b.op("add", product, b.weight(data=random.standard_normal(5, np.float32)))
    graph = b.graph({"y": normalised(b, product, 5)})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    found = result.operators_after
    assert (found["matmul"], found["add"]) == (1, 1)
    assert not {"batchnorm", "mul"} & set(found)
    feeds = {"x": random.standard_normal(shape, np.float32)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
