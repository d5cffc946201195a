"""The laws of reductions: recorded verdicts, use, and the tempting wrong versions of them."""

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate
from workbench.rules import load_rules
from workbench.rules.verdicts import library

RULES = load_rules(library() / "reductions.rules")


def product_of_the_mean(b):
    x = b.op("relu", b.input("x", (2, 64, 16)))
    y = b.op("add", b.op("matmul", x, b.weight((16, 32))), b.weight((32,)))
    return b.op("reduce_mean", y, axes=(-2,), keepdims=0)


def convolution_of_the_mean(b):
    x = b.op("relu", b.input("x", (1, 8, 14, 14)))
    y = b.op("conv2d", x, b.weight((24, 8, 1, 1)), b.weight((1, 24, 1, 1)))
    return b.op("reduce_mean", y, axes=(-2, -1), keepdims=0)


def convolution_of_the_pool(b):
    x = b.op("relu", b.input("x", (1, 16, 14, 14)))
    y = b.op("conv2d", x, b.weight((24, 16, 1, 1)))
    return b.op("avgpool", y, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))


@pytest.mark.parametrize("make", [product_of_the_mean, convolution_of_the_mean, convolution_of_the_pool])
def test_products_wait_for_reductions(make):
    b = GraphBuilder()
    graph = b.graph({"y": make(b)})
    result = optimize(graph, cost="analytic", time=False)
    feeds = {"x": np.random.default_rng(0).standard_normal(graph.nodes[0].tensor.shape).astype(np.float32)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-5)
    assert work(result.graph) <= work(graph) / 3


def work(graph):
    """Return the number of results of products: rows or places, times columns."""
    return sum(n.tensor.elements for n in graph.nodes if n.op in ("matmul", "conv2d"))
