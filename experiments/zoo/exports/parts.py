"""Parts that several architectures share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    """A convolution without bias, a batch norm, and an activation if one is given.

    Args:
        inputs: The number of input channels.
        outputs: The number of output channels.
        kernel: The extent of the kernel.
        stride: The stride.
        groups: The number of groups.
        act: The class of the activation, or None.
        padding: The padding; by default half of the kernel.
        eps: The number added to variances.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        act: type[nn.Module] | None = nn.ReLU,
        padding: int | None = None,
        eps: float = 1e-5,
    ) -> None:
        pad = (kernel - 1) // 2 if padding is None else padding
        layers = [
            nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps),
        ]
        super().__init__(*layers, *([act()] if act is not None else []))


class Residual(nn.Module):
    """The sum of a value and a block's result for it."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


class Gate(nn.Module):
    """Squeeze and excitation: channels scaled by two 1×1 convolutions of their means.

    Args:
        channels: The number of channels.
        inner: The number of channels between the two convolutions.
        act: The class of the activation between them.
        gate: The class of the last activation.
    """

    def __init__(
        self,
        channels: int,
        inner: int,
        act: type[nn.Module] = nn.ReLU,
        gate: type[nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze, self.excite = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.excite(self.act(self.squeeze(self.pool(x)))))


class Head(nn.Module):
    """The mean of every channel, and a linear layer."""

    def __init__(self, channels: int, classes: int = 1000) -> None:
        super().__init__()
        self.pool, self.linear = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.flatten(self.pool(x), 1))


class Attention(nn.Module):
    """Attention of several heads as separate operators; scores are divided by the root of a head's width."""

    def __init__(self, width: int, heads: int, *, key_bias: bool = True) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=key_bias)
        self.out = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """Return batch × heads × positions × width of a head."""
        return x.view(x.size(0), x.size(1), self.heads, self.size).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.size)
        if mask is not None:
            scores = scores + mask
        mixed = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.out(mixed.reshape(x.size(0), x.size(1), self.heads * self.size))


class FusedAttention(nn.Module):
    """Attention of several heads, with one linear layer for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, count, width = x.size(0), x.size(1), x.size(2)
        parts = self.qkv(x).reshape(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = ((query * self.scale) @ key.transpose(-2, -1)).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, count, width))


class FeedForward(nn.Sequential):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, inner: int, act: type[nn.Module] = nn.GELU) -> None:
        super().__init__(nn.Linear(width, inner), act(), nn.Linear(inner, width))


def rounded(value: float, to: int = 8) -> int:
    """Return a number of channels rounded as in the MobileNets: to a multiple, at most 10 % down."""
    found = max(to, int(value + to / 2) // to * to)
    return found + to if found < 0.9 * value else found
