"""The published networks on sequences: BERT, a complete transformer encoder, and NasRNN."""

from __future__ import annotations

import math

import numpy as np

from workbench.graph import Graph, GraphBuilder, Value


def bert(layers: int = 8, sequence: int = 64, hidden: int = 1024, heads: int = 16) -> Graph:
    """Return BERT as TASO and Tensat published it.

    Its attention is dead code: the next layer reads ``x · W``, not the attention's result, and there is
    no softmax, scale, transposed key, feed-forward part or normalisation. The attention results are
    outputs, as in Tensat, whose root joins them.

    Args:
        layers: Number of layers.
        sequence: Length of the sequence; it must equal ``hidden // heads``.
        hidden: Width of the hidden states.
        heads: Number of attention heads.
    """
    b = GraphBuilder("bert")
    depth = hidden // heads
    x = b.op("relu", b.input("x", (sequence, hidden)))
    outputs: dict[str, int] = {}
    for layer in range(layers):
        products = [b.op("matmul", x, b.weight((hidden, hidden))) for _ in range(3)]
        q, k, v = (
            b.op("transpose", b.op("reshape", p, shape=(sequence, heads, depth)), perm=(1, 0, 2))
            for p in products
        )
        # q · k without a transpose has a type only if the sequence is as long as a head is deep.
        scores = b.op("matmul", q, k)
        mixed = b.op("transpose", b.op("matmul", scores, v), perm=(1, 0, 2))
        outputs[f"attention{layer}"] = b.op("reshape", mixed, shape=(sequence, hidden))
        x = b.op("matmul", x, b.weight((hidden, hidden)))
    return b.graph(outputs | {"y": x})


def transformer(
    layers: int = 6, sequence: int = 64, hidden: int = 512, heads: int = 8, batch: int = 1
) -> Graph:
    """Return a transformer encoder as used in practice, from ``x`` to ``y``, both [batch, sequence, hidden].

    It has softmax attention with scaling, residuals, layer normalisation and feed-forward layers.

    Args:
        layers: Number of layers.
        sequence: Length of the sequence.
        hidden: Width of the hidden states.
        heads: Number of attention heads.
        batch: Number of sequences.
    """
    b = GraphBuilder("transformer")
    depth = hidden // heads
    x = b.input("x", (batch, sequence, hidden))
    scale = b.weight(data=np.array(1 / math.sqrt(depth), np.float32), name="scale")

    def linear(value: int, width: int) -> Value:
        product = b.op("matmul", value, b.weight((b.type(value).shape[-1], width)))
        return b.op("add", product, b.weight((width,)))

    def heads_of(value: int, perm: tuple[int, ...]) -> Value:
        split = b.op("reshape", value, shape=(batch, sequence, heads, depth))
        return b.op("transpose", split, perm=perm)

    def norm(value: int) -> Value:
        return b.op("layernorm", value, b.weight((hidden,)), b.weight((hidden,)), axis=-1)

    for _ in range(layers):
        q = heads_of(linear(x, hidden), (0, 2, 1, 3))
        k = heads_of(linear(x, hidden), (0, 2, 3, 1))
        v = heads_of(linear(x, hidden), (0, 2, 1, 3))
        scores = b.op("softmax", b.op("mul", b.op("matmul", q, k), scale), axis=-1)
        mixed = b.op("transpose", b.op("matmul", scores, v), perm=(0, 2, 1, 3))
        joined = b.op("reshape", mixed, shape=(batch, sequence, hidden))
        x = norm(b.op("add", x, linear(joined, hidden)))
        wide = b.op("gelu", linear(x, 4 * hidden))
        x = norm(b.op("add", x, linear(wide, hidden)))
    return b.graph({"y": x})


def nasrnn(hidden: int = 512, length: int = 5) -> Graph:
    """Return NasRNN, a recurrent cell found by architecture search, unrolled over ``length`` inputs.

    Inputs are [1, hidden], and a step has sixteen matrix products. As in TASO and Tensat, the first state is a
    weight, and steps do not share weights.
    """
    b = GraphBuilder("nasrnn")
    inputs = [b.input(f"x{i}", (1, hidden)) for i in range(length)]
    state = b.weight((1, hidden))
    for x in inputs:
        state = _cell(b, hidden, x, state)
    return b.graph({"state": state})


def _cell(b: GraphBuilder, hidden: int, x: int, h: int) -> Value:
    def gate() -> Value:
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
