"""The laws of fusion: a batch normalisation goes into the product before it, of any rank."""

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate


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
    found = result.record().operators_after
    assert (found["matmul"], found["add"]) == (1, 1)
    assert not {"batchnorm", "mul"} & set(found)
    feeds = {"x": random.standard_normal(shape, np.float32)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
