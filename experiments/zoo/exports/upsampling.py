"""Decoders that double the resolution again and again: images from latents, segmentation, keypoints."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, silu

from zoo.exports.convolutional import stages
from zoo.exports.parts import ConvNorm


class _VaeBlock(nn.Module):
    """A residual block of two 3×3 convolutions, each after a group norm and SiLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inputs, 1e-6), nn.GroupNorm(32, outputs, 1e-6)])
        self.first, self.second = (nn.Conv2d(i, outputs, 3, padding=1) for i in (inputs, outputs))
        self.beside = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(silu(self.norms[0](x)))
        return self.beside(x) + self.second(silu(self.norms[1](inner)))


class _VaeAttention(nn.Module):
    """Attention of one head between the positions of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, 1e-6)
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        y = self.norm(x).view(batch, channels, height * width).transpose(1, 2)
        scores = self.query(y) @ self.key(y).transpose(1, 2) * channels**-0.5
        mixed = self.out(scores.softmax(-1) @ self.value(y))
        return x + mixed.transpose(1, 2).reshape(batch, channels, height, width)


class Doubled(nn.Module):
    """A 3×3 convolution of an image at twice its resolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(interpolate(x, scale_factor=2.0, mode="nearest"))


def sd_vae_decoder() -> nn.Module:
    """Return the decoder of Stable Diffusion's autoencoder (arXiv 2112.10752)."""
    layers: list[nn.Module] = [nn.Conv2d(4, 4, 1), nn.Conv2d(4, 512, 3, padding=1)]
    layers += [_VaeBlock(512, 512), _VaeAttention(512), _VaeBlock(512, 512)]
    channels = 512
    for number, width in enumerate((512, 512, 256, 128)):
        for _ in range(3):
            layers.append(_VaeBlock(channels, width))
            channels = width
        if number < 3:
            layers.append(Doubled(width))
    return nn.Sequential(*layers, nn.GroupNorm(32, 128, 1e-6), nn.SiLU(), nn.Conv2d(128, 3, 3, padding=1))


class Joined(nn.Module):
    """A U-Net's block: twice the resolution, joined with an encoder's value, then two convolutions."""

    def __init__(self, inputs: int, beside: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = ConvNorm(inputs + beside, outputs, 3), ConvNorm(outputs, outputs, 3)

    def forward(self, x: Tensor, beside: Tensor | None = None) -> Tensor:
        x = interpolate(x, scale_factor=2.0, mode="nearest")
        return self.second(self.first(x if beside is None else torch.cat([x, beside], 1)))


class _ResidualUnet(nn.Module):
    """A residual network as an encoder, and a decoder that joins its values from coarse to fine."""

    def __init__(self, counts: Sequence[int], widths: Sequence[int], classes: int) -> None:
        super().__init__()
        self.stem, self.pool = ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)
        self.stages = nn.ModuleList(stages(counts, False))
        found = (512, 256, 128, 64, 64, 0)
        reads = (512, *widths)
        self.blocks = nn.ModuleList(
            Joined(i, b, o) for i, b, o in zip(reads, found[1:], widths, strict=False)
        )
        self.last = nn.Conv2d(widths[-1], classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.stem(x)]
        for number, stage in enumerate(self.stages):
            kept.append(stage(kept[-1] if number else self.pool(kept[-1])))
        x = kept.pop()
        for block in self.blocks:
            x = block(x, kept.pop() if kept else None)
        return self.last(x)


def unet_resnet34() -> nn.Module:
    """Return the U-Net of a ResNet-34 as segmentation_models.pytorch builds it."""
    return _ResidualUnet((3, 4, 6, 3), (256, 128, 64, 32, 16), 1)


def pose_resnet18() -> nn.Module:
    """Return a ResNet-18 with three transposed convolutions for 17 keypoints (arXiv 1804.06208)."""
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *stages((2, 2, 2, 2), False)]
    for inputs in (512, 256, 256):
        layers += [nn.ConvTranspose2d(inputs, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(256, 17, 1))
