"""Architectures rewritten by hand, by published or derived formulas, with the weights of a given module."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from zoo.exports.language import Bert
from zoo.exports.mobile import Branches
from zoo.exports.parts import Attention, ConvNorm, FusedAttention
from zoo.exports.ranking import NeuMf
from zoo.exports.readers import Clip, NextWord, Reader
from zoo.exports.vision_transformers import SegFormer, ViT


def by_hand(module: nn.Module) -> nn.Module | None:
    """Return a module that computes the same values by fewer operations, or None if nobody has a formula."""
    if isinstance(module, SegFormer):
        return _LowResolutionHead(module)
    if isinstance(module, Reader):
        return _FirstPosition(module)
    if isinstance(module, Clip):
        return _ClipFirstPosition(module)
    if isinstance(module, ViT):
        return _ViTFirstPosition(module)
    if isinstance(module, NextWord):
        return _LastPosition(module)
    if isinstance(module, NeuMf):
        return _LookedUpProducts(module)
    if isinstance(module, nn.Sequential) and any(isinstance(m, Branches) for m in module):
        return nn.Sequential(*(_merged(m) if isinstance(m, Branches) else m for m in module)).eval()
    return None


# -- branches ------------------------------------------------------------------------------------------
def _merged(branches: Branches) -> nn.Conv2d:
    """Return all branches as one convolution (RepVGG, section 3.3; MobileOne, section 3.2)."""
    first = branches.convolutions[0][0]
    kernel, bias = torch.zeros_like(first.weight.data), torch.zeros(first.out_channels)
    for part in branches.convolutions:
        weight, shift = _folded(part)
        border = (kernel.size(-1) - weight.size(-1)) // 2
        kernel, bias = kernel + nn.functional.pad(weight, [border] * 4), bias + shift
    if branches.itself is not None:
        factor, shift = _affine(branches.itself)
        middle = kernel.size(-1) // 2
        for channel in range(kernel.size(0)):
            kernel[channel, channel % kernel.size(1), middle, middle] += factor[channel]
        bias = bias + shift
    merged = nn.Conv2d(
        first.in_channels,
        first.out_channels,
        first.kernel_size,
        first.stride,
        first.padding,
        groups=first.groups,
    )
    merged.weight.data, merged.bias.data = kernel, bias
    return merged


def _affine(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Return the factors and the shifts of a batch norm's channels."""
    factor = norm.weight.data / torch.sqrt(norm.running_var + norm.eps)
    return factor, norm.bias.data - factor * norm.running_mean


def _folded(layer: ConvNorm) -> tuple[Tensor, Tensor]:
    """Return the kernel and the bias of a convolution with its batch norm."""
    factor, shift = _affine(layer[1])
    return layer[0].weight.data * factor[:, None, None, None], shift


# -- segmentation --------------------------------------------------------------------------------------
class _LowResolutionHead(nn.Module):
    """SegFormer with its head's linear layers before the resizing.

    A pointwise convolution commutes with an interpolation, and one of concatenated values is the sum of one
    for each of them. So each stage's linear layer, its part of the fusing convolution and the batch norm are
    one small convolution at the stage's own resolution.
    """

    def __init__(self, given: SegFormer) -> None:
        super().__init__()
        self.given, self.classify = given, given.classify
        weight, shift = _folded(given.fuse)
        parts = weight[:, :, 0, 0].chunk(len(given.linear), 1)[::-1]  # the coarsest stage comes first there
        self.points = nn.ModuleList()
        for number, (linear, part) in enumerate(zip(given.linear, parts, strict=True)):
            point = nn.Conv2d(linear.in_features, part.size(0), 1)
            point.weight.data = (part @ linear.weight.data)[:, :, None, None]
            point.bias.data = part @ linear.bias.data + (shift if number == 0 else 0)
            self.points.append(point)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        parts = [point(y) for point, y in zip(self.points, self.given.features(x), strict=True)]
        total, size = parts[0], parts[0].shape[2:]
        for part in parts[1:]:
            total = total + interpolate(part, size=size, mode="bilinear", align_corners=False)
        return self.classify(torch.relu(total))


# -- one position --------------------------------------------------------------------------------------
class _OneQuery(nn.Module):
    """Attention of one query per batch: keys and values are never computed.

    q (X K)ᵀ = (q Kᵀ) Xᵀ and p (X V) = (p X) V for every head, and a shift of all keys does not change a
    softmax (the derivation behind the absorption of latent attention, arXiv 2405.04434, section 2.1).
    """

    def __init__(
        self, query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Linear, heads: int
    ) -> None:
        super().__init__()
        self.heads, self.size = heads, query.out_features // heads
        self.query, self.out = query, out
        scaled = key.weight.data / self.size**0.5
        self.key = nn.Parameter(scaled.view(1, heads, self.size, -1).contiguous())
        self.value = nn.Parameter(
            value.weight.data.view(1, heads, self.size, -1).transpose(2, 3).contiguous()
        )
        self.shift = nn.Parameter(value.bias.data)

    def forward(self, one: Tensor, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return the result at the position ``one`` [B, 1, W] of the values ``x`` [B, S, W]."""
        batch, width = x.size(0), self.heads * self.size
        query = self.query(one).view(batch, self.heads, 1, self.size) @ self.key
        scores = query.view(batch, self.heads, -1) @ x.transpose(1, 2)
        if hidden is not None:
            scores = scores + hidden.squeeze(1)
        mixed = (scores.softmax(-1) @ x).view(batch, self.heads, 1, -1) @ self.value
        return self.out(mixed.view(batch, 1, width) + self.shift)


def _one_query(given: Attention) -> _OneQuery:
    return _OneQuery(given.query, given.key, given.value, given.out, given.heads)


def _parts(linear: nn.Linear) -> list[nn.Linear]:
    """Return queries, keys and values of one linear layer as three."""
    found = []
    for weight, bias in zip(linear.weight.data.chunk(3), linear.bias.data.chunk(3), strict=True):
        part = nn.Linear(weight.size(1), weight.size(0))
        part.weight.data, part.bias.data = weight, bias
        found.append(part)
    return found


class _FirstPosition(nn.Module):
    """A reranker whose last layer computes the first position alone."""

    def __init__(self, given: Reader) -> None:
        super().__init__()
        self.given, self.attend = given, _one_query(given.attention[-1])
        self.eval()

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        given: Bert = self.given
        x = given.embedded(tokens)
        hidden = given.hidden(mask, x.dtype)
        for number in range(len(given.attention) - 1):
            x = given.block(number, x, hidden)
        one = given.norms[-2](x[:, :1] + self.attend(x[:, :1], x, hidden))
        one = given.norms[-1](one + given.forwards[-1](one))
        assert given.pooler is not None
        return self.given.classify(torch.tanh(given.pooler(one[:, 0])))


class _ClipFirstPosition(nn.Module):
    """CLIP's image encoder whose last layer computes the class token alone."""

    def __init__(self, given: Clip) -> None:
        super().__init__()
        self.given, self.attend = given, _one_query(given.blocks[-1].attention)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = self.given.embedded(x)
        for block in list(self.given.blocks)[:-1]:
            x = block(x)
        last = self.given.blocks[-1]
        normed = last.before(x)
        one = x[:, :1] + self.attend(normed[:, :1], normed)
        one = one + last.narrow(last.act(last.widen(last.after(one))))
        return self.given.project(self.given.last(one[:, 0]))


class _ViTFirstPosition(nn.Module):
    """A ViT whose last layer computes the class token alone."""

    def __init__(self, given: ViT) -> None:
        super().__init__()
        self.given = given
        self.norm, fused = given.encoder[-2].block
        assert isinstance(fused, FusedAttention)
        query, key, value = _parts(fused.qkv)
        self.attend = _OneQuery(query, key, value, fused.out, fused.heads)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = self.given.encoder[:-2](self.given.embedded(x))
        normed = self.norm(x)
        one = self.given.encoder[-1](x[:, :1] + self.attend(normed[:, :1], normed))
        return self.given.head(self.given.norm(one)[:, 0])


class _LastPosition(nn.Module):
    """A decoder whose last layer computes the last position alone; no mask hides anything from it."""

    def __init__(self, given: NextWord) -> None:
        super().__init__()
        self.given = given
        query, key, value = _parts(given.qkv[-1])
        self.attend = _OneQuery(query, key, value, given.out[-1], given.heads)
        self.eval()

    def forward(self, tokens: Tensor) -> Tensor:
        given = self.given
        x = given.embedded(tokens)
        for number in range(len(given.qkv) - 1):
            x = given.block(number, x)
        normed = given.norms[-3](x)
        one = x[:, -1:] + self.attend(normed[:, -1:], normed)
        one = one + given.forwards[-1](given.norms[-2](one))
        return given.norms[-1](one[:, 0]) @ given.words.weight.t()


# -- tables --------------------------------------------------------------------------------------------
class _LookedUpProducts(nn.Module):
    """NeuMF whose first layer is a sum of rows of two tables: those of its embeddings times its weight."""

    def __init__(self, given: NeuMf) -> None:
        super().__init__()
        self.given, first = given, given.layers[0]
        parts, shifts = first.weight.data.chunk(2, 1), (first.bias.data, 0)
        self.tables = nn.ModuleList(
            nn.Embedding.from_pretrained(table.weight.data @ part.t() + shift)
            for table, part, shift in zip(given.tables, parts, shifts, strict=True)
        )
        self.eval()

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        deep = self.given.layers[1:](self.tables[0](user) + self.tables[1](item))
        shallow = self.given.products[0](user) * self.given.products[1](item)
        return torch.sigmoid(self.given.score(torch.cat([deep, shallow], -1)))
