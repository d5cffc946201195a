"""Classifiers made for phones: depthwise convolutions, gates, shuffled channels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.exports.parts import ConvNorm, Gate, Head, Residual, rounded


def _inverted(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    expanded: int,
    act: type[nn.Module],
    gate: nn.Module | None = None,
    eps: float = 1e-5,
) -> nn.Module:
    """Return an inverted residual: widened, filtered by channel, gated, narrowed."""
    layers: list[nn.Module] = []
    if expanded != inputs:
        layers.append(ConvNorm(inputs, expanded, act=act, eps=eps))
    layers.append(ConvNorm(expanded, expanded, kernel, stride, expanded, act, eps=eps))
    if gate is not None:
        layers.append(gate)
    layers.append(ConvNorm(expanded, outputs, act=None, eps=eps))
    block = nn.Sequential(*layers)
    return Residual(block) if stride == 1 and inputs == outputs else block


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 (arXiv 1801.04381)."""
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2, act=nn.ReLU6)]
    channels = 32
    table = (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    )
    for factor, outputs, count, stride in table:
        for number in range(count):
            step = 1 if number else stride
            layers.append(_inverted(channels, outputs, 3, step, channels * factor, nn.ReLU6))
            channels = outputs
    return nn.Sequential(*layers, ConvNorm(channels, 1280, act=nn.ReLU6), Head(1280))


def mobilenet_v3_small() -> nn.Module:
    """Return MobileNetV3-Small (arXiv 1905.02244)."""
    table = (
        # kernel, widened, outputs, gate, activation, stride
        *((3, 16, 16, True, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 2), (3, 88, 24, False, nn.ReLU, 1)),
        *((5, 96, 40, True, nn.Hardswish, 2), (5, 240, 40, True, nn.Hardswish, 1)),
        *((5, 240, 40, True, nn.Hardswish, 1), (5, 120, 48, True, nn.Hardswish, 1)),
        *((5, 144, 48, True, nn.Hardswish, 1), (5, 288, 96, True, nn.Hardswish, 2)),
        *((5, 576, 96, True, nn.Hardswish, 1), (5, 576, 96, True, nn.Hardswish, 1)),
    )
    layers: list[nn.Module] = [ConvNorm(3, 16, 3, 2, act=nn.Hardswish, eps=1e-3)]
    channels = 16
    for kernel, wide, outputs, gated, act, stride in table:
        gate = Gate(wide, rounded(wide / 4), gate=nn.Hardsigmoid) if gated else None
        layers.append(_inverted(channels, outputs, kernel, stride, wide, act, gate, 1e-3))
        channels = outputs
    layers += [ConvNorm(96, 576, act=nn.Hardswish, eps=1e-3), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(
        *layers, nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000)
    )


def efficientnet_b0() -> nn.Module:
    """Return EfficientNet-B0 (arXiv 1905.11946)."""
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2, act=nn.SiLU)]
    channels = 32
    table = (
        *((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3)),
        *((6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)),
    )
    for factor, kernel, stride, outputs, count in table:
        for number in range(count):
            wide, step = channels * factor, 1 if number else stride
            gate = Gate(wide, max(1, channels // 4), nn.SiLU)
            layers.append(_inverted(channels, outputs, kernel, step, wide, nn.SiLU, gate))
            channels = outputs
    return nn.Sequential(*layers, ConvNorm(320, 1280, act=nn.SiLU), nn.Dropout(0.2), Head(1280))


class _Shuffled(nn.Module):
    """A block that passes half of the channels, filters the other half, and interleaves both."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.stride = stride
        taken = inputs if stride > 1 else inputs // 2
        self.body = nn.Sequential(
            ConvNorm(taken, half), ConvNorm(half, half, 3, stride, half, None), ConvNorm(half, half)
        )
        if stride > 1:
            self.beside = nn.Sequential(
                ConvNorm(inputs, inputs, 3, stride, inputs, None), ConvNorm(inputs, half)
            )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            x = torch.cat([self.beside(x), self.body(x)], 1)
        else:
            kept, given = x.chunk(2, 1)
            x = torch.cat([kept, self.body(given)], 1)
        batch, channels, height, width = x.size()
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(x.shape)


def shufflenet_v2() -> nn.Module:
    """Return ShuffleNetV2 1.0× (arXiv 1807.11164)."""
    layers: list[nn.Module] = [ConvNorm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for count, outputs in ((4, 116), (8, 232), (4, 464)):
        for number in range(count):
            layers.append(_Shuffled(channels, outputs, 1 if number else 2))
            channels = outputs
    return nn.Sequential(*layers, ConvNorm(channels, 1024), Head(1024))


class Branches(nn.Module):
    """The sum of convolutions of several sizes and of the input, each with a batch norm.

    Args:
        inputs: The number of input channels.
        outputs: The number of output channels.
        kernel: The extent of the largest kernels.
        stride: The stride of all convolutions.
        groups: The number of groups.
        copies: The number of convolutions with the largest kernels.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1, copies: int = 1
    ) -> None:
        super().__init__()
        make = lambda size: ConvNorm(inputs, outputs, size, stride, groups, None)  # noqa: E731
        self.convolutions = nn.ModuleList(make(kernel) for _ in range(copies))
        if kernel > 1:
            self.convolutions.append(make(1))
        same = inputs == outputs and stride == 1
        self.itself = nn.BatchNorm2d(inputs) if same else None

    def forward(self, x: Tensor) -> Tensor:
        total = self.itself(x) if self.itself is not None else 0
        for convolution in self.convolutions:
            total = total + convolution(x)
        return total


def repvgg_a0() -> nn.Module:
    """Return RepVGG-A0 as it is trained, with separate branches (arXiv 2101.03697)."""
    layers: list[nn.Module] = [Branches(3, 48, 3, 2), nn.ReLU()]
    channels = 48
    for count, outputs in ((2, 48), (4, 96), (14, 192), (1, 1280)):
        for number in range(count):
            layers += [Branches(channels, outputs, 3, 1 if number else 2), nn.ReLU()]
            channels = outputs
    return nn.Sequential(*layers, Head(channels))


def mobileone_s0() -> nn.Module:
    """Return MobileOne-S0 as it is trained, with four copies of every convolution (arXiv 2206.04040)."""
    layers: list[nn.Module] = [Branches(3, 48, 3, 2), nn.ReLU()]
    channels = 48
    for count, outputs in ((2, 48), (8, 128), (10, 256), (1, 1024)):
        for number in range(count):
            layers += [Branches(channels, channels, 3, 1 if number else 2, channels, 4), nn.ReLU()]
            layers += [Branches(channels, outputs, 1, 1, 1, 4), nn.ReLU()]
            channels = outputs
    return nn.Sequential(*layers, Head(channels))
