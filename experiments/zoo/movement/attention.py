"""Attention at decode: one new query against the keys and values of all earlier positions."""

from __future__ import annotations

import math

import numpy as np

from workbench.graph import Graph, GraphBuilder, Value
from zoo.layers import Weights


def _number(b: GraphBuilder, value: float) -> Value:
    return b.weight(data=np.array(value, np.float32))


def grouped_queries(
    *,
    heads: int = 32,
    keys: int = 8,
    depth: int = 64,
    positions: int = 2048,
    queries: int = 1,
    batch: int = 1,
    mask: bool = False,
    by_hand: bool = False,
) -> Graph:
    """Return attention in which several heads share keys and values (arXiv 2305.13245).

    Exporters repeat keys and values for every head of a group. By hand, the queries of a group become the
    rows of one product.

    Args:
        heads: Number of heads of the queries.
        keys: Number of heads of the keys and values, a divisor of ``heads``.
        depth: Width of a head.
        positions: Number of cached positions.
        queries: Number of new positions.
        batch: Number of sequences.
        mask: Whether a mask over the positions is added to the scores.
        by_hand: Whether to return the form rewritten by hand.
    """
    if heads % keys:
        raise ValueError(f"heads must be a multiple of keys, got {heads} and {keys}")
    b = GraphBuilder("grouped_queries", share=False)
    group = heads // keys
    q = b.input("q", (batch, heads, queries, depth))
    k, v = (b.input(name, (batch, keys, positions, depth)) for name in "kv")
    hidden = b.input("mask", (batch, 1, 1, positions)) if mask else None
    if by_hand:
        q = b.op("reshape", q, shape=(batch, keys, group * queries, depth))
    elif group > 1:
        k, v = (b.op("repeat", x, axis=-3, times=group) for x in (k, v))
    scores = b.op("matmul", q, b.op("transpose", k, perm=(0, 1, 3, 2)))
    scores = b.op("div", scores, _number(b, math.sqrt(depth)))
    if hidden is not None:
        scores = b.op("add", scores, hidden)
    mixed = b.op("matmul", b.op("softmax", scores, axis=-1), v)
    if by_hand:
        mixed = b.op("reshape", mixed, shape=(batch, heads, queries, depth))
    rows = b.op("transpose", mixed, perm=(0, 2, 1, 3))
    return b.graph({"y": b.op("reshape", rows, shape=(batch, queries, heads * depth))})


def latent(
    *,
    heads: int = 16,
    depth: int = 128,
    values: int = 128,
    rank: int = 512,
    positions: int = 1024,
    queries: int = 1,
    together: bool = False,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return attention over latent vectors, which are projected to keys and values (arXiv 2405.04434).

    Exporters write the projections of all positions. By hand, the queries are projected into the latent space
    instead, and the mixture of latent vectors is projected to values.

    Args:
        heads: Number of heads.
        depth: Width of a head's queries and keys.
        values: Width of a head's values.
        rank: Width of the latent vectors.
        positions: Number of cached positions.
        queries: Number of new positions.
        together: Whether one matrix projects to keys and values, whose heads are cut apart.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("latent", share=False)
    q = b.input("q", (1, heads, queries, depth))
    c = b.input("c", (1, positions, rank))
    up = weights.normal(rank, heads, depth + values, size=rank**-0.5)
    to_keys, to_values = np.split(up, [depth], axis=-1)
    if by_hand:
        q = b.op("matmul", q, b.weight(data=np.ascontiguousarray(to_keys.transpose(1, 2, 0))[None]))
        q = b.op("reshape", q, shape=(1, heads * queries, rank))
        k = v = c
        turned = b.op("transpose", k, perm=(0, 2, 1))
    else:

        def projected(data: np.ndarray) -> Value:
            y = b.op("matmul", c, b.weight(data=np.ascontiguousarray(data.reshape(rank, -1))))
            y = b.op("reshape", y, shape=(1, positions, heads, data.shape[-1]))
            return b.op("transpose", y, perm=(0, 2, 1, 3))

        k, v = (
            b.split(projected(up), -1, [depth, values]) if together else map(projected, (to_keys, to_values))
        )
        turned = b.op("transpose", k, perm=(0, 1, 3, 2))
    scores = b.op("mul", b.op("matmul", q, turned), _number(b, depth**-0.5))
    mixed = b.op("matmul", b.op("softmax", scores, axis=-1), v)
    if by_hand:
        mixed = b.op("reshape", mixed, shape=(1, heads, queries, rank))
        mixed = b.op("matmul", mixed, b.weight(data=np.ascontiguousarray(to_values.transpose(1, 0, 2))[None]))
    rows = b.op("transpose", mixed, perm=(0, 2, 1, 3))
    return b.graph({"y": b.op("reshape", rows, shape=(1, queries, heads * values))})
