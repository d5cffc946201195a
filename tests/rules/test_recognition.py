"""Operators recognised in the forms that exporters write, with the default rules."""

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder

WIDTH = 8
RANDOM = np.random.default_rng(0)
SCALE, SHIFT = (RANDOM.standard_normal(WIDTH).astype(np.float32) for _ in range(2))


class Written(GraphBuilder):
    """A builder in which ``n`` makes a constant."""

    def n(self, value):
        return self.weight(data=np.asarray(value, np.float32))


def normalised(b, x, power, inverse):
    d = b.op("sub", x, b.op("reduce_mean", x, axes=(-1,)))
    square = b.op("pow", d, b.n(2.0)) if power else b.op("mul", d, d)
    variance = b.op("add", b.op("reduce_mean", square, axes=(-1,)), b.n(1e-5))
    if inverse:
        return b.op("mul", d, b.op("pow", variance, b.n(-0.5)))
    return b.op("div", d, b.op("sqrt", variance))


def layernorm(b, x, power=True, inverse=False):
    return b.op("add", b.op("mul", normalised(b, x, power, inverse), b.n(SCALE)), b.n(SHIFT))


def rmsnorm(b, x):
    square = b.op("reduce_mean", b.op("pow", x, b.n(2.0)), axes=(-1,))
    inverse = b.op("div", b.n(1.0), b.op("sqrt", b.op("add", b.n(1e-6), square)))
    return b.op("mul", b.n(SCALE), b.op("mul", x, inverse))


def gelu(b, x):
    e = b.op("add", b.op("erf", b.op("div", x, b.n(2**0.5))), b.n(1.0))
    return b.op("mul", b.op("mul", x, e), b.n(0.5))


def gelu_half_first(b, x):
    e = b.op("add", b.n(1.0), b.op("erf", b.op("mul", x, b.n(0.5**0.5))))
    return b.op("mul", b.op("mul", b.n(0.5), x), e)


def gelu_by_tanh(b, x):
    cube = b.op("mul", b.n(0.044715), b.op("pow", x, b.n(3.0)))
    inner = b.op("mul", b.n((2 / np.pi) ** 0.5), b.op("add", x, cube))
    return b.op("mul", b.op("mul", b.n(0.5), x), b.op("add", b.n(1.0), b.op("tanh", inner)))


def hardswish(b, x):
    clipped = b.op("clip", b.op("add", x, b.n(3.0)), low=0.0, high=6.0)
    return b.op("mul", b.op("mul", x, clipped), b.n(1 / 6))


FORMS = [
    ("layernorm", {"eps": 1e-5}, layernorm),
    ("layernorm", {"eps": 1e-5}, lambda b, x: layernorm(b, x, power=False)),
    ("layernorm", {"eps": 1e-5}, lambda b, x: layernorm(b, x, inverse=True)),
    ("rmsnorm", {"eps": 1e-6}, rmsnorm),
    ("gelu", {"tanh": 0}, gelu),
    ("gelu", {"tanh": 0}, gelu_half_first),
    ("gelu", {"tanh": 1}, gelu_by_tanh),
    ("swish", {"alpha": 1.0}, lambda b, x: b.op("mul", x, b.op("sigmoid", x))),
    ("swish", {"alpha": 1.0}, lambda b, x: b.op("mul", b.op("sigmoid", x), x)),
    ("swish", {"alpha": 1.702}, lambda b, x: b.op("mul", x, b.op("sigmoid", b.op("mul", b.n(1.702), x)))),
    ("hardswish", {}, hardswish),
]


@pytest.mark.parametrize(
    ("op", "attrs", "form"), FORMS, ids=[f"{op}-{k}" for k, (op, _, _) in enumerate(FORMS)]
)
def test_a_form_is_recognised_and_certified(op, attrs, form):
    b = Written()
    graph = b.graph({"y": form(b, b.input("x", (2, 3, WIDTH)))})
    found = optimize(graph, cost="analytic", time=False)
    assert found.certificate.passed
    (node,) = [n for n in found.graph.nodes if n.op == op]
    assert {name: node.attr(name) for name in attrs} == attrs
    running = [
        n.op for n, constant in zip(found.graph.nodes, found.graph.constant(), strict=True) if not constant
    ]
    assert sorted(running) == sorted(["input", op])


@pytest.mark.parametrize("root", [1.4142, 1.5])
def test_another_number_is_not_recognised(root):
    b = Written()
    x = b.input("x", (2, 3, WIDTH))
    e = b.op("add", b.op("erf", b.op("div", x, b.n(root))), b.n(1.0))
    graph = b.graph({"y": b.op("mul", b.op("mul", x, e), b.n(0.5))})
    found = optimize(graph, cost="analytic", time=False)
    assert "gelu" not in found.graph.operators()


def test_a_recognised_norm_hands_its_scale_to_the_weight_after_it():
    b = Written()
    x = b.input("x", (4, WIDTH))
    y = b.op("mul", normalised(b, x, power=True, inverse=False), b.n(SCALE))
    graph = b.graph({"y": b.op("matmul", y, b.weight((WIDTH, WIDTH)))})
    found = optimize(graph, cost="analytic", time=False)
    assert found.certificate.passed
    running = [
        n.op for n, constant in zip(found.graph.nodes, found.graph.constant(), strict=True) if not constant
    ]
    assert sorted(running) == ["input", "layernorm", "matmul"]


def test_a_maximum_with_zero_is_an_activation():
    b = Written()
    product = b.op("matmul", b.input("x", (4, WIDTH)), b.weight((WIDTH, WIDTH)))
    found = optimize(b.graph({"y": b.op("max", product, b.n(0.0))}), cost="analytic", time=False)
    (node,) = [n for n in found.graph.nodes if n.op == "matmul"]
    assert node.attr("act") == "relu"
    assert "max" not in found.graph.operators()
