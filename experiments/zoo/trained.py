"""Networks whose training step is measured: those in which a law moves or drops work, and one without any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Trained(NamedTuple):
    """A network with the arguments of its loss."""

    module: nn.Module
    arguments: tuple[torch.Tensor, ...]


def _layers(width: int, heads: int, count: int) -> nn.Sequential:
    made = (
        nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        for _ in range(count)
    )
    return nn.Sequential(*made)


class LastPosition(nn.Module):
    """A language model of which only the last position is asked for a word."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = _layers(width, heads, layers)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.head(self.layers(self.words(tokens)))[:, -1], target)


class FirstToken(nn.Module):
    """An encoder whose first token is classified."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = _layers(width, heads, layers)
        self.pooler, self.classes = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        first = self.layers(self.words(tokens))[:, 0]
        return functional.cross_entropy(self.classes(torch.tanh(self.pooler(first))), target)


class NonLocal(nn.Module):
    """A block in which every pixel reads all others, without a softmax, between two convolutions."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.before, self.after = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.query, self.key, self.value = (nn.Conv2d(channels, inner, 1) for _ in range(3))
        self.out = nn.Conv2d(inner, channels, 1)

    def forward(self, image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        x = torch.relu(self.before(image))
        q, k, v = (part(x).flatten(2) for part in (self.query, self.key, self.value))
        read = ((q.transpose(1, 2) @ k) / q.shape[-1]) @ v.transpose(1, 2)
        mixed = self.out(read.transpose(1, 2).reshape(x.shape[0], -1, *x.shape[2:]))
        return functional.mse_loss(self.after(x + mixed), target)


class Stack(nn.Module):
    """Convolutions with batch norms, whose statistics in training leave nothing to gain."""

    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        parts = (
            nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
            for _ in range(layers)
        )
        self.body = nn.Sequential(*parts)

    def forward(self, image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return functional.mse_loss(self.body(image), target)


class Segmented(nn.Module):
    """SegFormer-B0 with random weights, for 150 classes."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import SegformerConfig, SegformerForSemanticSegmentation

        settings: Any = SegformerConfig
        config = settings(num_labels=150, classifier_dropout_prob=0.0, drop_path_rate=0.0)
        self.model = SegformerForSemanticSegmentation(config)

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        return self.model(image, labels=labels).loss


def _last(size: float) -> Trained:
    words = int(16_000 * size)
    return Trained(
        LastPosition(words, 256, 4, 2), (torch.randint(words, (4, 128)), torch.randint(words, (4,)))
    )


def _first(size: float) -> Trained:
    tokens = torch.randint(8192, (8, int(128 * size)))
    return Trained(FirstToken(8192, 512, 8, 4), (tokens, torch.randint(2, (8,))))


def _non_local(size: float) -> Trained:
    extent = int(48 * size)
    return Trained(
        NonLocal(128, 64), (torch.randn(1, 128, extent, extent), torch.randn(1, 128, extent, extent))
    )


def _stack(size: float) -> Trained:
    extent = int(48 * size)
    return Trained(Stack(32, 6), (torch.randn(4, 32, extent, extent), torch.randn(4, 32, extent, extent)))


def _segformer(size: float) -> Trained:
    extent = 32 * int(16 * size)
    image, labels = torch.randn(2, 3, extent, extent), torch.randint(150, (2, extent, extent))
    made = Segmented()
    with torch.no_grad():  # hooks that the first call installs would break the graph
        made.eval()(image[:1, :, :64, :64], labels[:1, :64, :64])
    return Trained(made, (image, labels))


#: The networks by name, each for a size: 1 is that of the table.
NETWORKS: Final[dict[str, Callable[[float], Trained]]] = {
    "segformer": _segformer,
    "last-position": _last,
    "first-token": _first,
    "non-local": _non_local,
    "stack": _stack,
}


def trained(name: str, size: float, seed: int) -> Trained:
    """Return a network in training mode with its arguments."""
    torch.manual_seed(seed)
    made = NETWORKS[name](size)
    made.module.train()
    return made


def gradients(module: nn.Module, arguments: tuple[Any, ...], call: Callable[..., Any]) -> list[torch.Tensor]:
    """Return the gradients of all parameters, after one call."""
    module.zero_grad(set_to_none=True)
    call(*arguments).backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in module.parameters()]
    module.zero_grad(set_to_none=True)
    return found


def furthest(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """Return the largest relative distance of a gradient, of those that do not nearly vanish."""
    top = max(float(g.norm()) for g in exact)
    return max(
        float((a.double() - b.double()).norm()) / max(float(b.double().norm()), 1e-4 * top)
        for a, b in zip(found, exact, strict=True)
    )
