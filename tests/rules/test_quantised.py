"""The laws of quantised tensors: data moves in few bits, per tensor and per axis, exactly."""

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate


def parameters(b, shape, seed):
    """Return a scale and a zero of a shape."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    return b.weight(data=scale), b.weight(data=rng.integers(-5, 6, shape).astype(np.int8))


@pytest.mark.parametrize("axes", [(), (4, 1, 1)], ids=["per tensor", "per axis"])
def test_heads_are_split_in_eight_bits(axes):
    """Exporters write Dequantize, Reshape, Transpose, Quantize where attention splits its heads."""
    b = GraphBuilder()
    scale, zero = parameters(b, axes, 3)
    q = b.input("q", (1, 4, 64, 32), "int8")
    x = b.op("dequantize", q, scale, zero)
    x = b.op("slice", b.op("transpose", x, perm=(0, 1, 3, 2)), axis=-1, start=0, stop=32)
    if not axes:
        x = b.op("reshape", x, shape=(4, 32, 32))
    graph = b.graph({"y": b.op("quantize", x, scale, zero, to="int8")})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert not any(n.op in ("quantize", "dequantize") for n in result.graph.nodes)
    assert result.cost_after < 0.5 * result.cost_before
    feeds = {"q": np.random.default_rng(0).integers(-128, 128, (1, 4, 64, 32)).astype(np.int8)}
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_array_equal(before, after)
