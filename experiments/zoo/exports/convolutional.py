"""Classifiers of plain, residual, dense and parallel convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.exports.parts import ConvNorm, Gate, Head


class _Block(nn.Module):
    """A residual block: a body, and a projection of the input if the shape changes."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inputs == outputs and stride == 1
        self.beside = nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride, act=None)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.beside(x))


def stages(counts: Sequence[int], bottleneck: bool) -> list[nn.Sequential]:
    """Return the four stages of a residual network; bottlenecks have four times as many outputs."""
    found: list[nn.Sequential] = []
    channels = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        blocks: list[nn.Module] = []
        for number in range(count):
            stride = 2 if stage and not number else 1
            if bottleneck:
                first = [ConvNorm(channels, width), ConvNorm(width, width, 3, stride)]
                body = nn.Sequential(*first, ConvNorm(width, outputs, act=None))
            else:
                body = nn.Sequential(
                    ConvNorm(channels, width, 3, stride), ConvNorm(width, width, 3, act=None)
                )
            blocks.append(_Block(body, channels, outputs, stride))
            channels = outputs
        found.append(nn.Sequential(*blocks))
    return found


def _resnet(counts: Sequence[int], bottleneck: bool) -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for stage in stages(counts, bottleneck):
        layers.extend(stage)
    return nn.Sequential(*layers, Head(2048 if bottleneck else 512))


def resnet18() -> nn.Module:
    """Return ResNet-18 (arXiv 1512.03385)."""
    return _resnet((2, 2, 2, 2), False)


def resnet50() -> nn.Module:
    """Return ResNet-50 with the stride in the 3×3 convolutions (arXiv 1512.03385)."""
    return _resnet((3, 4, 6, 3), True)


def _regnet(widths: Sequence[int], counts: Sequence[int], group: int, gate: bool) -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2)]
    channels = 32
    for width, count in zip(widths, counts, strict=True):
        for number in range(count):
            stride = 1 if number else 2
            body = [ConvNorm(channels, width), ConvNorm(width, width, 3, stride, width // group)]
            if gate:
                body.append(Gate(width, round(channels / 4)))
            body.append(ConvNorm(width, width, act=None))
            layers.append(_Block(nn.Sequential(*body), channels, width, stride))
            channels = width
    return nn.Sequential(*layers, Head(channels))


def regnet_x_400mf() -> nn.Module:
    """Return RegNetX-400MF (arXiv 2003.13678)."""
    return _regnet((32, 64, 160, 400), (1, 2, 7, 12), 16, False)


def regnet_y_400mf() -> nn.Module:
    """Return RegNetY-400MF, with squeeze and excitation (arXiv 2003.13678)."""
    return _regnet((48, 104, 208, 440), (1, 3, 6, 6), 8, True)


class _Fire(nn.Module):
    """A 1×1 convolution that squeezes the channels, then two parallel convolutions that expand them."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.point, self.wide = nn.Conv2d(squeezed, expanded, 1), nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.squeeze(x))
        return torch.cat([self.act(self.point(x)), self.act(self.wide(x))], 1)


def squeezenet1_1() -> nn.Module:
    """Return SqueezeNet 1.1 (arXiv 1602.07360 and its repository)."""
    pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)  # noqa: E731
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool()),
        *(_Fire(64, 16, 64), _Fire(128, 16, 64), pool()),
        *(_Fire(128, 32, 128), _Fire(256, 32, 128), pool()),
        *(_Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256), _Fire(512, 64, 256)),
        *(nn.Dropout(), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


class _Dense(nn.Module):
    """A layer that reads the outputs of all layers before it and appends its own channels."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False)),
            *(nn.BatchNorm2d(4 * growth), nn.ReLU()),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet121() -> nn.Module:
    """Return DenseNet-121 (arXiv 1608.06993)."""
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels, growth, counts = 64, 32, (6, 12, 24, 16)
    for stage, count in enumerate(counts):
        for _ in range(count):
            layers.append(_Dense(channels, growth))
            channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if stage < len(counts) - 1:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, Head(channels))


class _Inception(nn.Module):
    """Four parallel branches: 1×1, two of 3×3 after 1×1, and a pooled one."""

    def __init__(self, inputs: int, a: int, b: Sequence[int], c: Sequence[int], d: int) -> None:
        super().__init__()
        norm = lambda i, o, k=1: ConvNorm(i, o, k, eps=1e-3)  # noqa: E731
        self.branches = nn.ModuleList(
            [
                norm(inputs, a),
                nn.Sequential(norm(inputs, b[0]), norm(b[0], b[1], 3)),
                nn.Sequential(norm(inputs, c[0]), norm(c[0], c[1], 3)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), norm(inputs, d)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet() -> nn.Module:
    """Return GoogLeNet with batch norms and without auxiliary heads (arXiv 1409.4842, torchvision's form)."""
    pool = lambda size=3: nn.MaxPool2d(size, 2, ceil_mode=True)  # noqa: E731
    norm = lambda i, o, k, s=1: ConvNorm(i, o, k, s, eps=1e-3)  # noqa: E731
    return nn.Sequential(
        *(norm(3, 64, 7, 2), pool(), norm(64, 64, 1), norm(64, 192, 3), pool()),
        *(_Inception(192, 64, (96, 128), (16, 32), 32), _Inception(256, 128, (128, 192), (32, 96), 64)),
        pool(),
        *(_Inception(480, 192, (96, 208), (16, 48), 64), _Inception(512, 160, (112, 224), (24, 64), 64)),
        *(_Inception(512, 128, (128, 256), (24, 64), 64), _Inception(512, 112, (144, 288), (32, 64), 64)),
        *(_Inception(528, 256, (160, 320), (32, 128), 128), pool(2)),
        *(_Inception(832, 256, (160, 320), (32, 128), 128), _Inception(832, 384, (192, 384), (48, 128), 128)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 1000)),
    )


def vgg11() -> nn.Module:
    """Return VGG-11, which is configuration A, without batch norms (arXiv 1409.1556)."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
    linear = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *linear, nn.Dropout(), nn.Linear(4096, 1000))


def lenet5() -> nn.Module:
    """Return LeNet-5 with full connections (LeCun et al. 1998)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(16, 120, 5), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
