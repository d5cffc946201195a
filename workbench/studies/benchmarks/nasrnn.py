"""NasRNN: a recurrent cell found by architecture search, unrolled."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder


def nasrnn(hidden: int = 512, length: int = 5) -> Graph:
    """Return the cell unrolled over ``length`` inputs [1, hidden], with sixteen matrix products per step.

    As in TASO and Tensat, the first state is a weight, and steps do not share weights.
    """
    b = GraphBuilder("nasrnn")
    inputs = [b.input(f"x{i}", (1, hidden)) for i in range(length)]
    state = b.weight((1, hidden))
    for x in inputs:
        state = _cell(b, hidden, x, state)
    return b.graph({"state": state})


def _cell(b: GraphBuilder, hidden: int, x: int, h: int) -> int:
    def gate() -> int:
        w, v = b.weight((hidden, hidden)), b.weight((hidden, hidden))
        return b.op("add", b.op("matmul", x, w), b.op("matmul", h, v))

    t = [gate() for _ in range(8)]
    m0 = b.op("add", b.op("relu", t[0]), b.op("sigmoid", t[3]))
    m1 = b.op("add", b.op("sigmoid", t[1]), b.op("tanh", t[2]))
    m2 = b.op("mul", b.op("sigmoid", t[4]), b.op("tanh", t[5]))
    m3 = b.op("mul", b.op("sigmoid", t[6]), b.op("relu", t[7]))
    m4 = b.op("add", b.op("sigmoid", m1), b.op("tanh", m2))
    m5 = b.op("mul", b.op("tanh", m0), b.op("tanh", m3))
    return b.op("tanh", b.op("mul", b.op("tanh", m4), b.op("tanh", m5)))
