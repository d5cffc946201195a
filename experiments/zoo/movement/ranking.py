"""Recommenders: embeddings, next to dense features, go into the layers of a ranking model."""

from __future__ import annotations

import numpy as np

from workbench.graph import Graph, GraphBuilder
from zoo.layers import Weights


def recommender(
    *,
    tables: int = 4,
    rows: int = 2000,
    width: int = 64,
    dense: int = 13,
    hidden: int = 256,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return a ranking model whose first layer reads concatenated embeddings (arXiv 1606.07792).

    By hand, every table is multiplied by its part of the first layer's weight before the model runs: rows of
    the products are looked up and added. The bias goes into the first table.

    Args:
        tables: Number of tables of embeddings, each for one feature.
        rows: Number of rows of a table.
        width: Width of an embedding.
        dense: Number of dense features.
        hidden: Width of the first layer; the second one has half of it.
        batch: Number of examples.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    weights, b = Weights(seed), GraphBuilder("recommender", share=False)
    total = dense + tables * width
    found = [weights.normal(rows, width) for _ in range(tables)]
    first, shift = weights.matrix(total, hidden), weights.normal(hidden, size=0.1)

    def constant(data: np.ndarray) -> int:
        return b.weight(data=np.asarray(data, np.float32))

    features = b.input("dense", (batch, dense))
    ids = [b.input(f"feature_{k}", (batch,), "int64") for k in range(tables)]
    if by_hand:
        x = b.op("matmul", features, constant(first[:dense]))
        for k, (table, places) in enumerate(zip(found, ids, strict=True)):
            product = table @ first[dense + k * width : dense + (k + 1) * width] + (shift if k == 0 else 0)
            x = b.op("add", x, b.op("gather", constant(product), places, axis=-2))
    else:
        looked_up = [
            b.op("gather", constant(table), places, axis=-2) for table, places in zip(found, ids, strict=True)
        ]
        x = b.op("matmul", b.op("concat", features, *looked_up, axis=-1), constant(first))
        x = b.op("add", x, constant(shift))
    x = b.op("relu", x)
    for into, out in ((hidden, hidden // 2), (hidden // 2, 1)):
        x = b.op(
            "add",
            b.op("matmul", x, constant(weights.matrix(into, out))),
            constant(weights.normal(out, size=0.1)),
        )
        x = b.op("relu", x) if out > 1 else b.op("sigmoid", x)
    return b.graph({"score": x})
