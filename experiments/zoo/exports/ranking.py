"""Models that rank: tables of embeddings together with dense features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


def _mlp(widths: Sequence[int], last: bool) -> nn.Sequential:
    """Return linear layers with ReLUs between them, and with ``last`` another ReLU at the end."""
    layers: list[nn.Module] = []
    for number, (i, o) in enumerate(pairwise(widths)):
        layers.append(nn.Linear(i, o))
        if last or number < len(widths) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class _Dlrm(nn.Module):
    """A score from the products of all pairs of dense and sparse features."""

    def __init__(self, rows: int, tables: int, width: int) -> None:
        super().__init__()
        self.bottom = _mlp((13, 512, 256, 64, width), True)
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        count = tables + 1
        pairs = torch.tensor([i * count + j for i in range(count) for j in range(i)])
        self.register_buffer("pairs", pairs)
        self.top = _mlp((width + len(pairs), 512, 256, 1), False)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        found = [table(sparse[:, number]) for number, table in enumerate(self.tables)]
        together = torch.stack([x, *found], 1)
        products = (together @ together.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))


def dlrm() -> nn.Module:
    """Return DLRM for Criteo's 13 and 26 features, tables of 10 000 rows (arXiv 1906.00091)."""
    return _Dlrm(10_000, 26, 16)


class _WideDeep(nn.Module):
    """The sum of the scores of a linear model and a deep one."""

    def __init__(self, rows: int, tables: int, width: int) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Embedding(rows, 1) for _ in range(tables))
        self.deep = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.linear = nn.Linear(13, 1)
        self.body = _mlp((13 + tables * width, 1024, 512, 256, 1), False)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        wide = self.linear(dense)
        for number, table in enumerate(self.wide):
            wide = wide + table(sparse[:, number])
        deep = [table(sparse[:, number]) for number, table in enumerate(self.deep)]
        return torch.sigmoid(wide + self.body(torch.cat([dense, *deep], 1)))


def wide_and_deep() -> nn.Module:
    """Return Wide & Deep with the layers of its paper, tables of 10 000 rows (arXiv 1606.07792)."""
    return _WideDeep(10_000, 26, 32)


class NeuMf(nn.Module):
    """The score of a user and an item: products of embeddings, and layers above other embeddings.

    Args:
        users: The number of users.
        items: The number of items.
        factors: The width of the embeddings that are multiplied.
        widths: The widths of the layers; the first is that of both other embeddings together.
    """

    def __init__(self, users: int, items: int, factors: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.products = nn.ModuleList([nn.Embedding(users, factors), nn.Embedding(items, factors)])
        half = widths[0] // 2
        self.tables = nn.ModuleList([nn.Embedding(users, half), nn.Embedding(items, half)])
        self.layers = _mlp(widths, True)
        self.score = nn.Linear(widths[-1] + factors, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        deep = self.layers(torch.cat([self.tables[0](user), self.tables[1](item)], -1))
        shallow = self.products[0](user) * self.products[1](item)
        return torch.sigmoid(self.score(torch.cat([deep, shallow], -1)))


def neumf() -> nn.Module:
    """Return NeuMF for MovieLens-1M, with 64 predictive factors (arXiv 1708.05031, section 4.1)."""
    return NeuMf(6040, 3706, 64, (256, 128, 64))
