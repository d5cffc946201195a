"""Encoders and decoders of which one position is read: rerankers, classifiers, CLIP, the next word."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.exports.language import Bert, Gpt2
from zoo.exports.parts import Attention


class Reader(Bert):
    """A BERT whose scores depend on its first position alone.

    Args:
        width: The width of the hidden states.
        heads: The number of attention heads.
        layers: The number of layers.
        outputs: The number of scores.
        inner: The width inside feed-forward blocks; by default four times ``width``.
    """

    def __init__(
        self, width: int, heads: int, layers: int, outputs: int = 1, inner: int | None = None
    ) -> None:
        super().__init__(width, heads, layers, inner=inner)
        self.classify = nn.Linear(width, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.classify(super().forward(tokens, mask)[1])


def ms_marco_tinybert_l2() -> nn.Module:
    """Return the reranker ms-marco-TinyBERT-L2, 2 layers of width 128 (arXiv 1908.08962)."""
    return Reader(128, 2, 2)


def ms_marco_minilm_l6() -> nn.Module:
    """Return the reranker ms-marco-MiniLM-L6, 6 layers of width 384 (arXiv 2002.10957)."""
    return Reader(384, 12, 6)


def tinybert_l4() -> nn.Module:
    """Return TinyBERT with 4 layers of width 312, classifying into two classes (arXiv 1909.10351)."""
    return Reader(312, 12, 4, 2, 1200)


class QuickGelu(nn.Module):
    """The approximation of GELU by a sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class ClipBlock(nn.Module):
    """A transformer's block that normalises first, with separate queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.after, self.act = nn.LayerNorm(width), QuickGelu()
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.narrow(self.act(self.widen(self.after(x))))


class Clip(nn.Module):
    """CLIP's image encoder: a ViT whose class token is projected into the space of texts.

    Args:
        width: The width of the hidden states.
        heads: The number of attention heads.
        layers: The number of layers.
        patch: The extent of a patch in pixels.
        outputs: The width of the result.
        size: Height and width of the image in pixels.
    """

    def __init__(
        self, width: int, heads: int, layers: int, patch: int, outputs: int, size: int = 224
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch, bias=False)
        self.token = nn.Parameter(0.02 * torch.randn(width))
        self.positions = nn.Embedding((size // patch) ** 2 + 1, width)
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(ClipBlock(width, heads) for _ in range(layers))
        self.project = nn.Linear(width, outputs, bias=False)

    def embedded(self, x: Tensor) -> Tensor:
        """Return the class token and the patches, batch × positions × width."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.size(0), 1, -1)
        return self.first(torch.cat([token, x], 1) + self.positions.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedded(x)
        for block in self.blocks:
            x = block(x)
        return self.project(self.last(x[:, 0, :]))


def clip_vit_b_32() -> nn.Module:
    """Return the image encoder of CLIP ViT-B/32 (arXiv 2103.00020)."""
    return Clip(768, 12, 12, 32, 512)


class NextWord(Gpt2):
    """GPT-2 with the scores of the next word after a text alone, as the first step of a generation has it."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens)[:, -1, :]


def gpt2_next_word() -> nn.Module:
    """Return GPT-2 small with the scores after the last position (Radford et al. 2019)."""
    return NextWord(768, 12, 12)
