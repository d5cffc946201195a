"""The laws of transpositions: past everything that does not mind, at any permutation and rank."""

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate
from workbench.rules import RuleSet, load_rules
from workbench.rules.verdicts import library

RULES = load_rules(library() / "transposes.rules")


def undone(perm):
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def between(b, name, x, other):
    """Return a step between two transpositions."""
    if name == "constant":
        return b.op("add", x, b.weight(other))
    if name == "number":
        return b.op("mul", x, b.weight(()))
    if name == "softmax":
        return b.op("softmax", x, axis=-2)
    if name == "reduce":
        return b.op("reduce_mean", x, axes=(-2,), keepdims=1)
    if name == "two axes":
        return b.op("reduce_max", x, axes=(-3, -1), keepdims=1)
    return b.op(name, x)


STEPS = ("gelu", "number", "clip", "constant", "softmax", "reduce", "two axes")
LAYOUT = RuleSet("layout", (*load_rules(library() / "layout.rules"), *RULES))
PERMS = [(1, 2, 0), (0, 2, 1), (3, 0, 1, 2), (0, 2, 3, 1), (0, 3, 1, 2, 4), (4, 2, 0, 1, 3)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("perm", PERMS, ids=str)
def test_two_transpositions_meet(step, perm):
    b = GraphBuilder()
    shape = (2, 3, 4, 5, 6)[: len(perm)]
    x = b.op("transpose", b.op("relu", b.input("x", shape)), perm=perm)
    y = between(b, step, x, tuple(shape[p] for p in perm))
    graph = b.graph({"y": b.op("transpose", y, perm=undone(perm))})
    result = optimize(graph, rules=LAYOUT, cost="analytic", time=False)
    assert not any(n.op == "transpose" and not constant(result.graph, n) for n in result.graph.nodes)
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6)


def constant(graph, node):
    return all(graph.nodes[i].op == "weight" for i in node.inputs)


def test_a_scale_of_channels_goes_into_the_product_of_channels_last():
    b = GraphBuilder()
    random = np.random.default_rng(0)
    product = b.op(
        "matmul", b.input("x", (1, 5, 6, 8)), b.weight(data=random.standard_normal((8, 4), np.float32))
    )
    biased = b.op("add", product, b.weight(data=random.standard_normal(4, np.float32)))
    scale = b.weight(data=random.standard_normal((4, 1, 1), np.float32))
    graph = b.graph({"y": b.op("mul", b.op("transpose", biased, perm=(0, 3, 1, 2)), scale)})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert "mul" not in result.operators_after
    feeds = {"x": random.standard_normal((1, 5, 6, 8), np.float32)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-5)
