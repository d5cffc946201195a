"""Transformers of which one row is read: encoders at their first token, decoders at their last."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.graph import Graph, GraphBuilder, Value
from zoo.layers import Weights


@dataclass(slots=True)
class _Network:
    """A network under construction, with the parts that transformers share."""

    b: GraphBuilder
    weights: Weights
    heads: int
    positions: int

    def constant(self, data: np.ndarray | float) -> Value:
        """Return a weight with these elements, in float32."""
        return self.b.weight(data=np.asarray(data, np.float32))

    def linear(self, x: int, into: int, out: int) -> Value:
        """Return a linear layer of a value as exporters write it: a product, added to the bias."""
        w, shift = (
            self.constant(self.weights.matrix(into, out)),
            self.constant(self.weights.normal(out, size=0.1)),
        )
        return self.b.op("add", shift, self.b.op("matmul", x, w))

    def norm(self, x: int, width: int, eps: float) -> Value:
        """Return a layer norm of a value."""
        scale, shift = 1 + self.weights.normal(width, size=0.1), self.weights.normal(width, size=0.1)
        return self.b.op("layernorm", x, self.constant(scale), self.constant(shift), axis=-1, eps=eps)

    def split(self, x: int, perm: tuple[int, ...]) -> Value:
        """Return the heads of queries, keys or values."""
        batch, count, width = self.b.type(x).shape
        apart = self.b.op("reshape", x, shape=(batch, count, self.heads, width // self.heads))
        return self.b.op("transpose", apart, perm=perm)

    def row(self, x: int, at: int) -> Value:
        """Return one row of a value, which stays a value of three axes."""
        return self.b.op("slice", x, axis=-2, start=at, stop=at + 1)

    def attention(self, x: int, mask: int | None, read: int | None) -> Value:
        """Return attention; if one row is ``read``, its query alone goes through the weight of the keys."""
        b, width = self.b, self.b.type(x).shape[-1]
        size = width // self.heads
        root = self.constant(math.sqrt(size))
        if read is None:
            q, k, v = (self.split(self.linear(x, width, width), p) for p in _SPLITS)
            scores = b.op("div", b.op("matmul", q, k), root)
            if mask is not None:
                scores = b.op("add", scores, mask)
            mixed = b.op("matmul", b.op("softmax", scores, axis=-1), v)
            return self.linear(self._joined(mixed), width, width)
        batch = b.type(x).shape[0]
        q = self.split(self.linear(self.row(x, read), width, width), _SPLITS[0])
        wk, _ = self.weights.matrix(width, width), self.weights.normal(width, size=0.1)
        wv, shift = self.weights.matrix(width, width), self.weights.normal(width, size=0.1)
        of_heads = (width, self.heads, size)
        q = b.op("matmul", q, self.constant(wk.reshape(of_heads).transpose(1, 2, 0)[None] / math.sqrt(size)))
        q = b.op("reshape", q, shape=(batch, self.heads, width))
        scores = b.op("matmul", q, b.op("transpose", x, perm=(0, 2, 1)))
        if mask is not None:
            scores = b.op("add", scores, b.op("reshape", mask, shape=(batch, 1, self.positions)))
        mixed = b.op("matmul", b.op("softmax", scores, axis=-1), x)
        mixed = b.op("reshape", mixed, shape=(batch, self.heads, 1, width))
        mixed = b.op("matmul", mixed, self.constant(wv.reshape(of_heads).transpose(1, 0, 2)[None]))
        return self.linear(b.op("add", self._joined(mixed), self.constant(shift)), width, width)

    def _joined(self, mixed: int) -> Value:
        batch, heads, count, size = self.b.type(mixed).shape
        rows = self.b.op("transpose", mixed, perm=(0, 2, 1, 3))
        return self.b.op("reshape", rows, shape=(batch, count, heads * size))


_SPLITS = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))


def first_token(
    *,
    layers: int = 2,
    width: int = 128,
    heads: int = 2,
    inner: int | None = None,
    positions: int = 128,
    words: int = 1000,
    mask: bool = True,
    labels: int = 0,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return a BERT-style encoder that is read at its first token (arXiv 1810.04805).

    By hand, the last layer computes the first row alone, whose query goes through the weights of keys and
    values.

    Args:
        layers: Number of layers.
        width: Width of the hidden states.
        heads: Number of attention heads.
        inner: Width between the two linear layers of a block; by default four times ``width``.
        positions: Number of tokens.
        words: Number of words.
        mask: Whether a mask over the tokens is an input.
        labels: Number of labels of a classifier after the pooler; 0 for none.
        batch: Number of sequences.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    weights, b = Weights(seed), GraphBuilder("first_token", share=False)
    net = _Network(b, weights, heads, positions)
    inner = 4 * width if inner is None else inner
    x = b.op(
        "gather",
        net.constant(weights.normal(words, width)),
        b.input("tokens", (batch, positions), "int64"),
        axis=-2,
    )
    x = net.norm(b.op("add", x, net.constant(weights.normal(1, positions, width))), width, 1e-12)
    hidden = None
    if mask:
        seen = b.op("reshape", b.input("mask", (batch, positions)), shape=(batch, 1, 1, positions))
        hidden = b.op("mul", b.op("sub", net.constant(1.0), seen), net.constant(-10000.0))
    for layer in range(layers):
        read = 0 if by_hand and layer == layers - 1 else None
        mixed = net.attention(x, hidden, read)
        x = net.norm(b.op("add", x if read is None else net.row(x, read), mixed), width, 1e-12)
        wide = b.op("gelu", net.linear(x, width, inner))
        x = net.norm(b.op("add", x, net.linear(wide, inner, width)), width, 1e-12)
    first = b.op("reshape", x if by_hand else net.row(x, 0), shape=(batch, width))
    y = b.op("tanh", net.linear(first, width, width))
    return b.graph({"y": net.linear(y, width, labels) if labels else y})


def pre_normed(
    *,
    read: str = "first",
    layers: int = 4,
    width: int = 192,
    heads: int = 3,
    positions: int = 197,
    labels: int = 1000,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return a transformer that normalises before every block, and whose head reads one row.

    Read at the first row it is a vision transformer (arXiv 2010.11929), or CLIP's image encoder; read at the
    last one it is a decoder with a causal mask, of which only the next word is read.

    Args:
        read: ``first`` or ``last``.
        layers: Number of layers.
        width: Width of the hidden states.
        heads: Number of attention heads.
        positions: Number of tokens; of an image, its patches and the class token.
        labels: Number of classes or words.
        batch: Number of images or sequences.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    if read not in ("first", "last"):
        raise ValueError(f"read must be first or last, got {read!r}")
    weights, b = Weights(seed), GraphBuilder("pre_normed", share=False)
    net = _Network(b, weights, heads, positions)
    at, hidden = (0, None) if read == "first" else (positions - 1, net.constant(_causal(positions)))
    x = b.input("x", (batch, positions - (read == "first"), width))
    if read == "first":
        token = net.constant(weights.normal(1, 1, width))
        token = b.op("expand", token, shape=(batch, 1, width)) if batch > 1 else token
        x = b.op("concat", token, net.linear(x, width, width), axis=-2)
    x = b.op("add", x, net.constant(weights.normal(1, positions, width)))
    for layer in range(layers):
        only = at if by_hand and layer == layers - 1 else None
        mixed = net.attention(net.norm(x, width, 1e-6), hidden if only is None else None, only)
        x = b.op("add", x if only is None else net.row(x, at), mixed)
        wide = b.op("gelu", net.linear(net.norm(x, width, 1e-6), width, 4 * width))
        x = b.op("add", x, net.linear(wide, 4 * width, width))
    x = net.norm(x, width, 1e-6)
    x = b.op("reshape", x if by_hand else net.row(x, at), shape=(batch, width))
    return b.graph({"y": net.linear(x, width, labels)})


def _causal(positions: int) -> np.ndarray:
    return np.triu(np.full((positions, positions), -10000.0, np.float32), 1)
