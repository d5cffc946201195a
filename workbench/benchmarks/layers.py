"""What the published networks are built of: convolutions and pools padded as TASO pads them."""

from __future__ import annotations

from workbench.graph import GraphBuilder
from workbench.taso.padding import explicit_pads


def conv(
    b: GraphBuilder,
    x: int,
    out: int,
    kernel: tuple[int, int] = (1, 1),
    stride: int = 1,
    padding: str = "SAME",
    act: str = "none",
    groups: int = 1,
) -> int:
    """Return a convolution with a fresh weight."""
    _, channels, height, width = b.type(x).shape
    weight = b.weight((out, channels // groups, *kernel))
    pads = explicit_pads(padding, (height, width), kernel, (stride, stride))
    return b.op("conv2d", x, weight, strides=(stride, stride), pads=pads, groups=groups, act=act)


def pool(b: GraphBuilder, x: int, op: str, kernel: int, stride: int, padding: str = "SAME") -> int:
    """Return a square pool; ``op`` is maxpool or avgpool."""
    size = (b.type(x).shape[2], b.type(x).shape[3])
    pads = explicit_pads(padding, size, (kernel, kernel), (stride, stride))
    return b.op(op, x, kernel=(kernel, kernel), strides=(stride, stride), pads=pads)
