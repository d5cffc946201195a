"""Language models: encoders and decoders, with learned, relative and rotary positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from zoo.exports.parts import Attention, FeedForward


class Bert(nn.Module):
    """An encoder that normalises after every block, with a mask over the positions.

    Args:
        width: The width of the hidden states.
        heads: The number of attention heads.
        layers: The number of layers.
        segments: Whether a token's segment has an embedding.
        inner: The width inside feed-forward blocks; by default four times ``width``.
    """

    def __init__(
        self, width: int, heads: int, layers: int, *, segments: bool = True, inner: int | None = None
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width) if segments else None
        self.norm = nn.LayerNorm(width, 1e-12)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.forwards = nn.ModuleList(FeedForward(width, inner or 4 * width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width, 1e-12) for _ in range(2 * layers))
        self.pooler = nn.Linear(width, width) if segments else None

    def embedded(self, tokens: Tensor) -> Tensor:
        """Return the sum of the embeddings, normalised, batch × positions × width."""
        places = torch.arange(tokens.size(1), device=tokens.device).unsqueeze(0)
        x = self.words(tokens) + self.positions(places)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens))
        return self.norm(x)

    def block(self, number: int, x: Tensor, hidden: Tensor) -> Tensor:
        """Return the result of a layer; ``hidden`` is added to its scores."""
        x = self.norms[2 * number](x + self.attention[number](x, hidden))
        return self.norms[2 * number + 1](x + self.forwards[number](x))

    @staticmethod
    def hidden(mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the addend of scores: nothing, or a large negative number for a masked position."""
        return (1.0 - mask[:, None, None, :].to(dtype)) * -10000.0

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.embedded(tokens)
        hidden = self.hidden(mask, x.dtype)
        for number in range(len(self.attention)):
            x = self.block(number, x, hidden)
        return x if self.pooler is None else (x, torch.tanh(self.pooler(x[:, 0])))


def bert_mini() -> nn.Module:
    """Return BERT-mini, 4 layers of width 256 (arXiv 1908.08962)."""
    return Bert(256, 4, 4)


def bert_base() -> nn.Module:
    """Return BERT-base, uncased (arXiv 1810.04805)."""
    return Bert(768, 12, 12)


def distilbert() -> nn.Module:
    """Return DistilBERT, uncased (arXiv 1910.01108)."""
    return Bert(768, 12, 6, segments=False)


class _NewGelu(nn.Module):
    """The approximation of GELU by a hyperbolic tangent, written out."""

    def forward(self, x: Tensor) -> Tensor:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class Gpt2(nn.Module):
    """A decoder that normalises before every block and uses one matrix for input and output words."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.positions = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.forwards = nn.ModuleList(FeedForward(width, 4 * width, _NewGelu) for _ in range(layers))

    def embedded(self, tokens: Tensor) -> Tensor:
        """Return the sum of the embeddings of words and positions, batch × positions × width."""
        return self.words(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))

    def block(self, number: int, x: Tensor) -> Tensor:
        """Return the result of a layer."""
        batch, count, width = x.size(0), x.size(1), x.size(2)
        causal = torch.ones(count, count, device=x.device).tril().bool()
        parts = self.qkv[number](self.norms[2 * number](x)).split(width, 2)
        split = [p.view(batch, count, self.heads, width // self.heads).transpose(1, 2) for p in parts]
        mixed = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=causal[None, None])
        x = x + self.out[number](mixed.transpose(1, 2).reshape(batch, count, width))
        return x + self.forwards[number](self.norms[2 * number + 1](x))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedded(tokens)
        for number in range(len(self.qkv)):
            x = self.block(number, x)
        return self.norms[-1](x) @ self.words.weight.t()


def gpt2() -> nn.Module:
    """Return GPT-2 small (Radford et al. 2019)."""
    return Gpt2(768, 12, 12)


class _Rms(nn.Module):
    """Values divided by the root of their mean square, and scaled."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(1 + 0.1 * torch.randn(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps)).to(self.weight.dtype)


class _T5Encoder(nn.Module):
    """T5's encoder: positions enter the scores by the bucket of their distance, no biases, no scaling."""

    def __init__(self, width: int, heads: int, layers: int, inner: int) -> None:
        super().__init__()
        self.heads, self.size = heads, 64
        self.words, self.buckets = nn.Embedding(32128, width), nn.Embedding(32, heads)
        linear = lambda i, o: nn.Linear(i, o, bias=False)  # noqa: E731
        self.qkvo = nn.ModuleList(
            nn.ModuleList([*(linear(width, heads * 64) for _ in range(3)), linear(heads * 64, width)])
            for _ in range(layers)
        )
        self.widen = nn.ModuleList(linear(width, inner) for _ in range(layers))
        self.narrow = nn.ModuleList(linear(inner, width) for _ in range(layers))
        self.norms = nn.ModuleList(_Rms(width) for _ in range(2 * layers + 1))

    @staticmethod
    def bucket(distance: Tensor) -> Tensor:
        """Return the bucket of a distance: exact up to 7, then logarithmic up to 128, by sign."""
        found = (distance > 0).to(torch.long) * 16
        distance = torch.abs(distance)
        large = 8 + (torch.log(distance.float() / 8) / math.log(128 / 8) * 8).to(torch.long)
        large = torch.min(large, torch.full_like(large, 15))
        return found + torch.where(distance < 8, distance, large)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        batch, count = tokens.size(0), tokens.size(1)
        places = torch.arange(count, device=tokens.device)
        bias = self.buckets(self.bucket(places[None, :] - places[:, None])).permute(2, 0, 1).unsqueeze(0)
        for number, (query, key, value, out) in enumerate(self.qkvo):
            given = self.norms[2 * number](x)
            q, k, v = (f(given).view(batch, count, -1, 64).transpose(1, 2) for f in (query, key, value))
            scores = q @ k.transpose(3, 2) + bias
            weights = scores.float().softmax(-1).type_as(scores)
            x = x + out((weights @ v).transpose(1, 2).reshape(batch, count, -1))
            inner = torch.relu(self.widen[number](self.norms[2 * number + 1](x)))
            x = x + self.narrow[number](inner)
        return self.norms[-1](x)


def t5_small_encoder() -> nn.Module:
    """Return the encoder of T5-small (arXiv 1910.10683)."""
    return _T5Encoder(512, 8, 6, 2048)


class _Llama(nn.Module):
    """LLaMA's decoder: rotary positions, several queries per key, gated feed-forward layers."""

    def __init__(
        self, vocabulary: int, width: int, layers: int, heads: int, keys: int, inner: int, *, tied: bool
    ) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, width // heads
        self.words = nn.Embedding(vocabulary, width)
        linear = lambda i, o: nn.Linear(i, o, bias=False)  # noqa: E731
        reads = (width, keys * self.size)
        self.qkvo = nn.ModuleList(
            nn.ModuleList([linear(width, width), linear(*reads), linear(*reads), linear(width, width)])
            for _ in range(layers)
        )
        self.gates = nn.ModuleList(linear(width, inner) for _ in range(layers))
        self.ups = nn.ModuleList(linear(width, inner) for _ in range(layers))
        self.downs = nn.ModuleList(linear(inner, width) for _ in range(layers))
        self.norms = nn.ModuleList(_Rms(width, 1e-5) for _ in range(2 * layers + 1))
        self.head = None if tied else linear(width, vocabulary)
        powers = 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size)
        self.register_buffer("frequencies", powers, persistent=False)

    @staticmethod
    def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return queries or keys rotated by their positions; a head's halves are real and imaginary parts."""
        half = x.size(-1) // 2
        swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * cosine + swapped * sine

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        batch, count = tokens.size(0), tokens.size(1)
        places = torch.arange(count, device=tokens.device).float()
        angles = (places[:, None] * self.frequencies.float()[None, :]).repeat(1, 2)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        hidden = torch.full((count, count), -10000.0, dtype=x.dtype, device=x.device).triu(1)
        for number, (query, key, value, out) in enumerate(self.qkvo):
            given = self.norms[2 * number](x)
            q = self.turned(query(given).view(batch, count, self.heads, -1).transpose(1, 2), cosine, sine)
            k = self.turned(key(given).view(batch, count, self.keys, -1).transpose(1, 2), cosine, sine)
            v = value(given).view(batch, count, self.keys, -1).transpose(1, 2)
            if self.keys != self.heads:
                copies = self.heads // self.keys
                k, v = (
                    t[:, :, None].expand(batch, self.keys, copies, count, self.size)
                    .reshape(batch, self.heads, count, self.size)
                    for t in (k, v)
                )  # fmt: skip
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + hidden
            weights = scores.float().softmax(-1).to(x.dtype)
            x = x + out((weights @ v).transpose(1, 2).reshape(batch, count, -1))
            given = self.norms[2 * number + 1](x)
            x = x + self.downs[number](silu(self.gates[number](given)) * self.ups[number](given))
        x = self.norms[-1](x)
        return x @ self.words.weight.t() if self.head is None else self.head(x)


def stories_260k() -> nn.Module:
    """Return llama2.c's smallest LLaMA for stories, with grouped queries (arXiv 2307.09288)."""
    return _Llama(512, 64, 5, 8, 4, 172, tied=True)


def tiny_llama() -> nn.Module:
    """Return TinyLlama, 1.1 billion parameters (arXiv 2401.02385)."""
    return _Llama(32000, 2048, 22, 32, 4, 5632, tied=False)
