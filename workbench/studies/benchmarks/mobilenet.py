"""MobileNet-v2 as in the published file, which has relu instead of relu6, and MobileNet-v1."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool

#: Expansion, output channels, repeats, stride of the first block; the 64-channel stage keeps its resolution.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 1),
    (6, 96, 3, 2),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

#: Output channels and stride of the thirteen separable blocks of MobileNet-v1 (arXiv 1704.04861, table 1).
_SEPARABLE = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenetv1(image: int = 224) -> Graph:
    """Return MobileNet-v1 with its batch normalisations folded: 27 convolutions and the classifier."""
    b = GraphBuilder("mobilenetv1")

    def step(x: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> int:
        y = conv(b, x, out, (kernel, kernel), stride, groups=groups)
        return b.op("relu", b.op("add", y, b.weight((1, out, 1, 1))))

    x = step(b.input("x", (1, 3, image, image)), 32, 3, 2)
    for out, stride in _SEPARABLE:
        channels = b.type(x).shape[1]
        x = step(step(x, channels, 3, stride, channels), out, 1)
    size = b.type(x).shape[2]
    row = b.op("reshape", pool(b, x, "avgpool", size, size, "VALID"), shape=(1, 1024))
    return b.graph({"y": b.op("add", b.op("matmul", row, b.weight((1024, 1000))), b.weight((1000,)))})


def mobilenetv2(image: int = 224) -> Graph:
    """Return the network with its batch normalisations."""
    b = GraphBuilder("mobilenetv2")
    x = _unit(b, b.input("x", (1, 3, image, image)), 32, 3, 2)
    for expansion, out, repeats, first in _STAGES:
        for block in range(repeats):
            x = _block(b, x, expansion, out, 1 if block else first)
    x = _unit(b, x, 1280, 1)
    size = b.type(x).shape[2]
    x = conv(b, pool(b, x, "avgpool", size, size, "VALID"), 1000)
    return b.graph({"y": b.op("reshape", x, shape=(1, 1000))})


def _unit(
    b: GraphBuilder, x: int, out: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> int:
    y = conv(b, x, out, (kernel, kernel), stride, groups=groups)
    scale, bias, mean = (b.weight((out,)) for _ in range(3))
    # The variance is a squared weight, because it must be positive.
    deviation = b.weight((out,))
    y = b.op("batchnorm", y, scale, bias, mean, b.op("mul", deviation, deviation))
    return b.op("relu", y) if relu else y


def _block(b: GraphBuilder, x: int, expansion: int, out: int, stride: int) -> int:
    channels = b.type(x).shape[1]
    wide = channels * expansion
    y = _unit(b, x, wide, 1)
    y = _unit(b, y, wide, 3, stride, groups=wide)
    y = _unit(b, y, out, 1, relu=False)
    return b.op("add", y, x) if stride == 1 and channels == out else y
