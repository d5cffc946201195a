"""Image models with attention or similar: ViT, Swin, SegFormer, ConvNeXt, MLP-Mixer, PoolFormer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from zoo.exports.parts import ConvNorm, FeedForward, FusedAttention, Residual


def _before(width: int, block: nn.Module, eps: float = 1e-5) -> nn.Module:
    return Residual(nn.Sequential(nn.LayerNorm(width, eps), block))


class ViT(nn.Module):
    """ViT: patches, a token for the class, positions, and an encoder that normalises first.

    Args:
        width: The width of the hidden states.
        heads: The number of attention heads.
        layers: The number of layers.
        size: Height and width of the image in pixels.
        patch: The extent of a patch in pixels.
    """

    def __init__(self, width: int, heads: int, layers: int = 12, size: int = 224, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        blocks = (
            (
                _before(width, FusedAttention(width, heads), 1e-6),
                _before(width, FeedForward(width, 4 * width), 1e-6),
            )
            for _ in range(layers)
        )
        self.encoder = nn.Sequential(*(part for pair in blocks for part in pair))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

    def embedded(self, x: Tensor) -> Tensor:
        """Return the class token and the patches with their positions, batch × positions × width."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.positions

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.encoder(self.embedded(x)))[:, 0])


def vit_tiny() -> nn.Module:
    """Return DeiT-tiny, a ViT of width 192 (arXiv 2012.12877)."""
    return ViT(192, 3)


def vit_b_16() -> nn.Module:
    """Return ViT-B/16 (arXiv 2010.11929)."""
    return ViT(768, 12)


class _Windows(nn.Module):
    """Attention inside windows of 7×7, shifted by 3 in every other block, with relative positions."""

    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, 7, shift if size > 7 else 0
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        side = 2 * self.window - 1
        self.table = nn.Parameter(0.02 * torch.randn(side * side, heads))
        at = torch.stack(torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + self.window - 1
        self.register_buffer("index", (apart[0] * side + apart[1]).flatten())
        self.register_buffer("mask", self._mask(size) if self.shift else None)

    def _mask(self, size: int) -> Tensor:
        """Return the mask that separates, inside a window, positions that only the shift made neighbours."""
        area = torch.zeros(size, size)
        bounds = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for number, (rows, columns) in enumerate((r, c) for r in bounds for c in bounds):
            area[rows, columns] = number
        count = size // self.window
        parts = area.view(count, self.window, count, self.window).transpose(1, 2).reshape(count * count, -1)
        return (parts[:, None, :] != parts[:, :, None]).float() * -100.0

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.size(0), x.size(1), x.size(2), x.size(3)
        window, area = self.window, self.window * self.window
        rows, columns = height // window, width // window
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(batch, rows, window, columns, window, channels).transpose(2, 3)
        x = x.reshape(batch * rows * columns, area, channels)
        parts = self.qkv(x).reshape(x.size(0), area, 3, self.heads, channels // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query * (channels // self.heads) ** -0.5) @ key.transpose(-2, -1)
        scores = scores + self.table[self.index].view(area, area, -1).permute(2, 0, 1).unsqueeze(0)
        if self.mask is not None:
            scores = scores.view(batch, rows * columns, self.heads, area, area)
            scores = (scores + self.mask[None, :, None]).view(-1, self.heads, area, area)
        x = self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.size(0), area, channels))
        x = x.view(batch, rows, columns, window, window, channels).transpose(2, 3)
        x = x.reshape(batch, height, width, channels)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class _Merging(nn.Module):
    """A layer that joins four neighbours into one position of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.linear(self.norm(torch.cat(corners, -1)))


class _Last(nn.Module):
    """A permutation of axes that moves the channels last."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class _First(nn.Module):
    """A permutation of axes that moves the channels first."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 3, 1, 2)


class _Mean(nn.Module):
    """The mean over some axes."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.axes)


def swin_t() -> nn.Module:
    """Return Swin-T (arXiv 2103.14030)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), _Last(), nn.LayerNorm(96)]
    width, size = 96, 56
    for stage, count in enumerate((2, 2, 6, 2)):
        if stage:
            layers.append(_Merging(width))
            width, size = 2 * width, size // 2
        for number in range(count):
            layers.append(_before(width, _Windows(width, width // 32, size, 3 * (number % 2))))
            layers.append(_before(width, FeedForward(width, 4 * width)))
    return nn.Sequential(*layers, nn.LayerNorm(width), _Mean(1, 2), nn.Linear(width, 1000))


class _Scale(nn.Module):
    """A scale for every channel, initially small."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(0.1 * torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def convnext_tiny() -> nn.Module:
    """Return ConvNeXt-T (arXiv 2201.03545)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), _Last(), nn.LayerNorm(96, 1e-6), _First()]
    for stage, (width, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            layers += [_Last(), nn.LayerNorm(width // 2, 1e-6), _First(), nn.Conv2d(width // 2, width, 2, 2)]
        for _ in range(count):
            depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            inner = (nn.LayerNorm(width, 1e-6), FeedForward(width, 4 * width))
            layers.append(Residual(nn.Sequential(depthwise, _Last(), *inner, _First(), _Scale(width, 1, 1))))
    return nn.Sequential(*layers, _Mean(2, 3), nn.LayerNorm(768, 1e-6), nn.Linear(768, 1000))


class _Across(nn.Module):
    """A block applied to the positions instead of the channels."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x.transpose(1, 2)).transpose(1, 2)


class _Patches(nn.Module):
    """Patches of an image as a sequence."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, size, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x).flatten(2).transpose(1, 2)


def mixer_s16() -> nn.Module:
    """Return MLP-Mixer-S/16 (arXiv 2105.01601)."""
    width, positions = 512, 196
    layers: list[nn.Module] = [_Patches(width, 16)]
    for _ in range(8):
        layers.append(_before(width, _Across(FeedForward(positions, 256)), 1e-6))
        layers.append(_before(width, FeedForward(width, 2048), 1e-6))
    return nn.Sequential(*layers, nn.LayerNorm(width, 1e-6), _Mean(1), nn.Linear(width, 1000))


class _Pooling(nn.Module):
    """The mean of the neighbours minus the value itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) - x


def poolformer_s12() -> nn.Module:
    """Return PoolFormer-S12 (arXiv 2111.11418)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 4, 2)]
    for stage, (width, count) in enumerate(((64, 2), (128, 2), (320, 6), (512, 2))):
        if stage:
            layers.append(nn.Conv2d((64, 128, 320)[stage - 1], width, 3, 2, 1))
        for _ in range(count):
            inner = (nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1))
            for body in ((_Pooling(),), inner):
                block = nn.Sequential(nn.GroupNorm(1, width), *body, _Scale(width, 1, 1))
                layers.append(Residual(block))
    return nn.Sequential(*layers, nn.GroupNorm(1, 512), _Mean(2, 3), nn.Linear(512, 1000))


class _Reduced(nn.Module):
    """Attention to positions whose number a strided convolution reduces."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads, self.reduction = heads, reduction
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        if reduction > 1:
            self.reduce = nn.Conv2d(width, width, reduction, reduction)
            self.norm = nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        """Return batch × heads × positions × width of a head."""
        return x.view(x.size(0), -1, self.heads, x.size(2) // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, height: int, width: int) -> Tensor:
        seen = x
        if self.reduction > 1:
            seen = self.reduce(x.transpose(1, 2).reshape(x.size(0), -1, height, width))
            seen = self.norm(seen.flatten(2).transpose(1, 2))
        query, key, value = (
            self.split(self.query(x)),
            self.split(self.key(seen)),
            self.split(self.value(seen)),
        )
        scores = query @ key.transpose(-1, -2) / (x.size(2) // self.heads) ** 0.5
        mixed = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.out(mixed.reshape(x.size(0), -1, x.size(2)))


class _SegBlock(nn.Module):
    """Attention and a feed-forward layer with a depthwise convolution inside."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width), _Reduced(width, heads, reduction)
        self.after, self.widen = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.depthwise = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)
        self.act, self.narrow = nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, height: int, width: int) -> Tensor:
        x = x + self.attention(self.before(x), height, width)
        inner = self.widen(self.after(x))
        inner = self.depthwise(inner.transpose(1, 2).reshape(x.size(0), -1, height, width))
        return x + self.narrow(self.act(inner.flatten(2).transpose(1, 2)))


class SegFormer(nn.Module):
    """Four stages of overlapping patches, and a head of linear layers.

    Args:
        widths: The number of channels of each stage.
        counts: The number of blocks of each stage.
        decoder: The number of channels of the head.
        classes: The number of classes.
    """

    def __init__(
        self,
        widths: Sequence[int],
        counts: Sequence[int] = (2, 2, 2, 2),
        decoder: int = 256,
        classes: int = 150,
    ) -> None:
        super().__init__()
        sources = (3, *widths)
        self.patches = nn.ModuleList(
            nn.Conv2d(sources[i], w, 3 if i else 7, 2 if i else 4, 1 if i else 3)
            for i, w in enumerate(widths)
        )
        self.first = nn.ModuleList(nn.LayerNorm(w) for w in widths)
        plan = zip(widths, counts, (1, 2, 5, 8), (8, 4, 2, 1), strict=True)
        self.blocks = nn.ModuleList(
            nn.ModuleList(_SegBlock(width, heads, reduction) for _ in range(count))
            for width, count, heads, reduction in plan
        )
        self.last = nn.ModuleList(nn.LayerNorm(w) for w in widths)
        self.linear = nn.ModuleList(nn.Linear(w, decoder) for w in widths)
        self.fuse, self.classify = ConvNorm(4 * decoder, decoder), nn.Conv2d(decoder, classes, 1)

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the images of the four stages, batch × channels × height × width, the largest first."""
        found: list[Tensor] = []
        for number, patches in enumerate(self.patches):
            x = patches(x)
            height, width = x.size(2), x.size(3)
            x = self.first[number](x.flatten(2).transpose(1, 2))
            for block in self.blocks[number]:
                x = block(x, height, width)
            x = self.last[number](x).transpose(1, 2).reshape(x.size(0), -1, height, width)
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for image, linear in zip(self.features(x), self.linear, strict=True):
            y = linear(image.flatten(2).transpose(1, 2)).transpose(1, 2)
            found.append(y.reshape(x.size(0), -1, image.size(2), image.size(3)))
        size = found[0].shape[2:]
        same = [interpolate(y, size=size, mode="bilinear", align_corners=False) for y in found]
        return self.classify(self.fuse(torch.cat(same[::-1], 1)))


def segformer_b0() -> nn.Module:
    """Return SegFormer-B0 for the 150 classes of ADE20K (arXiv 2105.15203)."""
    return SegFormer((32, 64, 160, 256))


def segformer_b0_512() -> nn.Module:
    """Return SegFormer-B0 for images of 512 × 512, the size that it was trained for (arXiv 2105.15203)."""
    return segformer_b0()


def segformer_b2_512() -> nn.Module:
    """Return SegFormer-B2 for images of 512 × 512 (arXiv 2105.15203)."""
    return SegFormer((64, 128, 320, 512), (3, 4, 6, 3), 768)
