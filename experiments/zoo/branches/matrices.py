"""Networks of matrix products that are merged by hand: adapters, low-rank chains, shared operands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.graph import Graph, GraphBuilder, Value
from zoo.layers import Weights


def _constant(b: GraphBuilder, data: np.ndarray) -> Value:
    return b.weight(data=np.asarray(data, np.float32))


@dataclass(frozen=True, slots=True)
class _Adapters:
    """Projections ``x·W + b + s·(x·A)·B`` in a graph that is built; the fields are those of :func:`lora`."""

    b: GraphBuilder
    weights: Weights
    rank: int
    factor: float
    bias: bool
    dropout: bool
    by_hand: bool

    def drawn(self, into: int, out: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Return new random W, A, B and b."""
        w, first = self.weights.matrix(into, out), self.weights.matrix(into, self.rank)
        second = self.weights.matrix(self.rank, out)
        return w, first, second, self.weights.normal(out, size=0.1) if self.bias else None

    def product(self, value: int, whole: np.ndarray, shift: np.ndarray | None) -> Value:
        y = self.b.op("matmul", value, _constant(self.b, whole))
        return y if shift is None else self.b.op("add", y, _constant(self.b, shift))

    def merged(self, w: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the weight W + s·A·B."""
        return w.astype(np.float64) + self.factor * (first.astype(np.float64) @ second.astype(np.float64))

    def linear(self, value: int, into: int, out: int) -> Value:
        w, first, second, shift = self.drawn(into, out)
        if self.by_hand:
            return self.product(value, self.merged(w, first, second), shift)
        y = self.product(value, w, shift)
        dropped = self.b.op("identity", value) if self.dropout else value
        low = self.b.op("matmul", dropped, _constant(self.b, first))
        low = self.b.op("matmul", low, _constant(self.b, second))
        return self.b.op("add", y, self.b.op("mul", low, _constant(self.b, np.array(self.factor))))

    def linears(self, value: int, width: int, count: int, together: bool) -> list[Value]:
        """Return several projections of one operand; ``together`` joins them in one product."""
        if not (self.by_hand and together):
            return [self.linear(value, width, width) for _ in range(count)]
        each = [self.drawn(width, width) for _ in range(count)]
        shifts = [shift for *_, shift in each if shift is not None]
        whole = np.concatenate([self.merged(w, first, second) for w, first, second, _ in each], axis=1)
        y = self.product(value, whole, np.concatenate(shifts) if shifts else None)
        return self.b.split(y, -1, [width] * count)


def lora(
    *,
    blocks: int = 2,
    hidden: int = 64,
    sequence: int = 32,
    heads: int = 4,
    rank: int = 8,
    factor: float = 2.0,
    batch: int = 1,
    bias: bool = True,
    dropout: bool = True,
    together: bool = False,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return transformer blocks with low-rank adapters on all six projections (arXiv 2106.09685).

    Each projection is ``x·W + b + s·(x·A)·B``. Merging by hand replaces the weight by ``W + s·A·B``.

    Args:
        blocks: Number of blocks.
        hidden: Width of the hidden states.
        sequence: Length of the sequence.
        heads: Number of attention heads.
        rank: Rank of the adapters.
        factor: The scale ``s`` of the adapters.
        batch: Number of sequences.
        bias: Whether projections have biases ``b``.
        dropout: Whether the graph has identities in place of dropouts, as exporters write them.
        together: Whether merging by hand also joins q, k and v, which are products of one operand.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("lora", share=False)
    x = b.input("x", (batch, sequence, hidden))
    depth = hidden // heads
    adapters = _Adapters(b, weights, rank, factor, bias, dropout, by_hand)

    def heads_of(value: int, perm: tuple[int, ...]) -> Value:
        split = b.op("reshape", value, shape=(batch, sequence, heads, depth))
        return b.op("transpose", split, perm=perm)

    def norm(value: int) -> Value:
        scale, shift = 1 + weights.normal(hidden, size=0.1), weights.normal(hidden, size=0.1)
        return b.op("layernorm", value, _constant(b, scale), _constant(b, shift), axis=-1)

    for _ in range(blocks):
        of_x = adapters.linears(x, hidden, 3, together)
        q, v = (heads_of(y, (0, 2, 1, 3)) for y in (of_x[0], of_x[2]))
        k = heads_of(of_x[1], (0, 2, 3, 1))
        scores = b.op("mul", b.op("matmul", q, k), _constant(b, np.array(1 / math.sqrt(depth))))
        mixed = b.op("transpose", b.op("matmul", b.op("softmax", scores, axis=-1), v), perm=(0, 2, 1, 3))
        joined = b.op("reshape", mixed, shape=(batch, sequence, hidden))
        x = norm(b.op("add", x, adapters.linear(joined, hidden, hidden)))
        wide = b.op("gelu", adapters.linear(x, hidden, 4 * hidden))
        x = norm(b.op("add", x, adapters.linear(wide, 4 * hidden, hidden)))
    return b.graph({"y": x})


def low_rank(
    *,
    blocks: int = 4,
    hidden: int = 64,
    rank: int = 48,
    rows: int = 32,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return layers ``relu((x·A)·B)``; by hand they become ``relu(x·AB)`` if that is less arithmetic.

    Merging reduces arithmetic if ``rank · (in + out) > in · out``, and increases it for smaller ranks.

    Args:
        blocks: Number of layers.
        hidden: Width of the input and of each layer's result.
        rank: Number of columns of A.
        rows: Number of rows of the input.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("low_rank", share=False)
    x = b.input("x", (rows, hidden))
    for _ in range(blocks):
        first, second = weights.matrix(hidden, rank), weights.matrix(rank, hidden)
        if by_hand and 2 * rank > hidden:
            x = b.op("matmul", x, _constant(b, first.astype(np.float64) @ second.astype(np.float64)))
        else:
            x = b.op("matmul", b.op("matmul", x, _constant(b, first)), _constant(b, second))
        x = b.op("relu", x)
    return b.graph({"y": x})


def projections(
    *,
    blocks: int = 4,
    hidden: int = 64,
    rows: int = 32,
    branches: int = 2,
    wide: int = 128,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return gated layers with several products of one operand, like q, k, v or gate and up.

    The results are multiplied, the first after a sigmoid, and projected back. Merging by hand makes one
    product and splits its result.

    Args:
        blocks: Number of layers.
        hidden: Width of the input and of each layer's result.
        rows: Number of rows of the input.
        branches: Number of products per layer.
        wide: Width of each product.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("projections", share=False)
    x = b.input("x", (rows, hidden))
    for _ in range(blocks):
        matrices = [weights.matrix(hidden, wide) for _ in range(branches)]
        if by_hand:
            whole = b.op("matmul", x, _constant(b, np.concatenate(matrices, axis=1)))
            parts = b.split(whole, -1, [wide] * branches)
        else:
            parts = [b.op("matmul", x, _constant(b, m)) for m in matrices]
        y = b.op("sigmoid", parts[0])
        for part in parts[1:]:
            y = b.op("mul", y, part)
        x = b.op("matmul", y, _constant(b, weights.matrix(wide, hidden)))
    return b.graph({"y": x})


def affine_chain(
    *,
    blocks: int = 4,
    hidden: int = 64,
    rows: int = 32,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return chains of scales and shifts around layernorm and a projection.

    Merged by hand, ``layernorm · g + h`` is a layernorm, and the scale after the projection is part of its
    weight and bias.

    Args:
        blocks: Number of chains.
        hidden: Width of the input and of each chain's result.
        rows: Number of rows of the input.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("affine_chain", share=False)
    x = b.input("x", (rows, hidden))
    for _ in range(blocks):
        scale, shift = 1 + weights.normal(hidden, size=0.1), weights.normal(hidden, size=0.1)
        more, after = 1 + weights.normal(hidden, size=0.1), weights.normal(hidden, size=0.1)
        w, bias = weights.matrix(hidden, hidden), weights.normal(hidden, size=0.1)
        last = 1 + weights.normal(hidden, size=0.1)
        if by_hand:
            x = b.op("layernorm", x, _constant(b, scale * more), _constant(b, shift * more + after))
            x = b.op("matmul", x, _constant(b, w * last))
            x = b.op("add", x, _constant(b, bias * last))
        else:
            x = b.op("layernorm", x, _constant(b, scale), _constant(b, shift))
            x = b.op("add", b.op("mul", x, _constant(b, more)), _constant(b, after))
            x = b.op("add", b.op("matmul", x, _constant(b, w)), _constant(b, bias))
            x = b.op("mul", x, _constant(b, last))
        x = b.op("gelu", x)
    return b.graph({"y": x})
