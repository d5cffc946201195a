"""Which values of a graph are one number."""

import numpy as np

from workbench.graph import GraphBuilder
from workbench.graph.uniform_constants import numbers_in


def test_weights_and_numbers_are_found():
    b = GraphBuilder()
    x = b.input("x", (2,))
    w, v = b.weight(data=np.ones(2, np.float32)), b.weight((2,))
    half = b.op("scalar", value=0.5)
    y = b.op("add", b.op("mul", b.op("mul", x, w), v), half)
    graph = b.graph({"y": y})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"weight": 1.0, "scalar": 0.5}


def test_what_is_computed_from_numbers_alone_is_one():
    b = GraphBuilder()
    ratio = b.op("sqrt", b.op("div", b.op("scalar", value=2.0), b.op("pi")))
    graph = b.graph({"y": b.op("mul", b.input("x", ()), ratio)})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"scalar": 2.0, "pi": 3.1415927, "div": 0.63661975, "sqrt": 0.7978845}
