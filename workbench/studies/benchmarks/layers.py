"""Layers of the published networks: convolutions and pools with TASO's padding."""

from __future__ import annotations

from workbench.graph import GraphBuilder
from workbench.studies.taso.modes import explicit_pads


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
    """Add a convolution with a new weight.

    Args:
        b: The builder of the graph.
        x: The input [N, C, H, W].
        out: Number of output channels.
        kernel: Height and width of the kernel.
        stride: Stride in both directions.
        padding: ``"SAME"`` or ``"VALID"``.
        act: The activation, ``"none"`` or an operator's name.
        groups: Number of groups.

    Returns:
        The convolution's value in the builder.
    """
    _, channels, height, width = b.type(x).shape
    weight = b.weight((out, channels // groups, *kernel))
    pads = explicit_pads(padding, (height, width), kernel, (stride, stride))
    return b.op("conv2d", x, weight, strides=(stride, stride), pads=pads, groups=groups, act=act)


def pool(b: GraphBuilder, x: int, op: str, kernel: int, stride: int, padding: str = "SAME") -> int:
    """Add a pool over square windows.

    Args:
        b: The builder of the graph.
        x: The input [N, C, H, W].
        op: ``"maxpool"`` or ``"avgpool"``.
        kernel: Extent of the window in both directions.
        stride: Stride in both directions.
        padding: ``"SAME"`` or ``"VALID"``.

    Returns:
        The pool's value in the builder.
    """
    size = (b.type(x).shape[2], b.type(x).shape[3])
    pads = explicit_pads(padding, size, (kernel, kernel), (stride, stride))
    return b.op(op, x, kernel=(kernel, kernel), strides=(stride, stride), pads=pads)
