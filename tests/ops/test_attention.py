"""Attention as one operator: its values, its form in ONNX Runtime, and the graphs in which it is found."""

import numpy as np
import onnx
import pytest
from onnx import helper

import workbench
from workbench.frontends import import_onnx, to_onnx
from workbench.frontends.runtime import run_model
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch
from zoo.movement.encoders import pre_normed


def by_parts(q, k, v, heads, scale):
    """Return attention head by head, as its paper defines it (arXiv 1706.03762)."""
    parts = []
    for x, y, z in zip(*(np.split(a, heads, -1) for a in (q, k, v)), strict=True):
        shares = np.exp(scale * x @ y.swapaxes(-1, -2))
        parts.append(shares / shares.sum(-1, keepdims=True) @ z)
    return np.concatenate(parts, -1)


def attention(heads, scale, *shapes):
    b = GraphBuilder()
    return b.graph({"y": b.op("attention", *(b.input(n, s) for n, s in zip("qkv", shapes, strict=True)),
                              heads=heads, scale=scale)})  # fmt: skip


@pytest.mark.parametrize(("heads", "scale"), [(1, 0.3), (2, 0.3), (6, -2.0), (2, 0.0)])
def test_every_head_weighs_its_values(heads, scale):
    graph = attention(heads, scale, (2, 5, 12), (2, 3, 12), (2, 3, 6))
    random = np.random.default_rng(0)
    feeds = {n: random.standard_normal(t.shape).astype(np.float32) for n, t in graph.input_types.items()}
    wanted = by_parts(*feeds.values(), heads, scale)
    np.testing.assert_allclose(evaluate(graph, feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run_model(to_onnx(graph), feeds)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("heads", "shapes", "message"),
    [
        (3, [(1, 2, 8), (1, 2, 8), (1, 2, 9)], "multiple of the heads"),
        (2, [(1, 2, 8), (1, 2, 6), (1, 2, 8)], "same width"),
        (2, [(1, 2, 8), (1, 3, 8), (1, 2, 8)], "as many keys as values"),
        (2, [(2, 2, 8), (1, 2, 8), (1, 2, 8)], "batches"),
        (2, [(2, 8), (2, 8), (2, 8)], r"\[B, S, W\]"),
    ],
)
def test_operands_that_do_not_fit_are_refused(heads, shapes, message):
    with pytest.raises(TypeMismatch, match=message):
        attention(heads, 1.0, *shapes)


@pytest.mark.parametrize("more", [{"unidirectional": 1}, {"mask": True}])
def test_other_attention_stays_opaque(more):
    masked = more.pop("mask", False)
    names = ["q", "k", "v", *(["", "", "m"] if masked else [])]
    node = helper.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=2, **more)
    shapes = {"q": (1, 3, 8), "k": (1, 3, 8), "v": (1, 3, 8), **({"m": (1, 1, 3, 3)} if masked else {})}
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 3, 8))
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    assert import_onnx(model).graph.operators() == {"opaque": 1}


def test_a_scale_that_is_left_out_is_that_of_the_width():
    graph = attention(2, 0.5, *[(1, 3, 8)] * 3)
    model = to_onnx(graph)
    del model.graph.node[0].attribute[[a.name for a in model.graph.node[0].attribute].index("scale")]
    (node,) = (n for n in import_onnx(model).graph.nodes if n.op == "attention")
    assert node.attr("scale") == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"batch": 2}])
def test_attention_is_found_in_what_exporters_write(given):
    graph = pre_normed(layers=2, width=32, heads=2, positions=20, labels=7, **given)
    read = import_onnx(to_onnx(graph)).graph
    result = workbench.optimize(read, rules=["default", "fused"], cost="analytic", time=False)
    assert result.certificate.passed
    assert result.graph.operators()["attention"] >= 1
    assert "attention" not in workbench.optimize(read, cost="analytic", time=False).graph.operators()
