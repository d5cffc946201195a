"""Families of networks with convolutional blocks that are trained with branches and merged by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from workbench.graph import Graph, GraphBuilder
from zoo.layers import (
    NOTHING,
    Branches,
    Conv,
    Layer,
    Mean,
    Pads,
    Weights,
    block,
    convolution,
    same_pads,
)


def _network(
    name: str,
    widths: Sequence[tuple[int, int, int]],
    make: Callable[[int, int, int], list[tuple[Branches, int]]],
    *,
    batch: int,
    size: int,
    order: str,
    by_hand: bool,
    relu: bool,
) -> Graph:
    """Return a chain of blocks.

    ``widths`` has (input channels, output channels, stride) of each block. ``make`` returns the branches and
    groups of a block's parts for these numbers. The other arguments are those of :func:`block`.
    """
    b = GraphBuilder(name, share=False)
    x = b.input("x", (batch, widths[0][0], size, size))
    for into, out, stride in widths:
        for branches, groups in make(into, out, stride):
            x = block(b, x, branches, groups, order, by_hand, relu)
    return b.graph({"y": x})


def _widths(blocks: int, channels: int, stride: int) -> list[tuple[int, int, int]]:
    """Return the widths of a stage; its first block has the stride and, unless it is 1, doubles channels."""
    first = (channels, channels if stride == 1 else 2 * channels, stride)
    return [first, *((first[1], first[1], 1) for _ in range(blocks - 1))]


def repvgg(
    *,
    blocks: int = 4,
    channels: int = 32,
    size: int = 28,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    bias: bool = False,
    order: str = "left",
    batch: int = 1,
    relu: bool = True,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return a stage of RepVGG (arXiv 2101.03697).

    The branches of a block are k x k, 1x1 and identity, each normalised; their sum has a relu. A block that
    changes the resolution or the number of channels has no identity branch.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input.
        size: Height and width of the input.
        kernel: Extent k of the larger kernel.
        stride: Stride of the first block; unless it is 1, that block doubles the channels.
        groups: Groups of the convolutions.
        dilation: Dilation of the convolutions.
        bias: Whether the convolutions have biases.
        order: The order of the additions, one of :data:`.parts.ORDERS`.
        batch: Number of images.
        relu: Whether blocks end with a relu.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        found: Branches = []
        for k in (kernel, 1):
            w = weights.kernel(out, into // groups, (k, k))
            c = weights.normal(out, size=0.1) if bias else None
            conv = Conv(w, c, stride, same_pads((k, k), dilation), dilation, groups)
            found.append([conv, weights.norm(out)])
        if stride == 1 and into == out:
            found.append([weights.norm(out)])
        return [(found, groups)]

    widths = _widths(blocks, channels, stride)
    return _network("repvgg", widths, make, batch=batch, size=size, order=order, by_hand=by_hand, relu=relu)


def acnet(
    *,
    blocks: int = 4,
    channels: int = 32,
    size: int = 28,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    square: bool = True,
    bias: bool = False,
    order: str = "left",
    batch: int = 1,
    relu: bool = True,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return blocks of ACNet (arXiv 1908.03930).

    The branches of a block are k x k, 1 x k and k x 1, each normalised; their sum has a relu. Without
    ``square`` a block has only the two asymmetric kernels.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input.
        size: Height and width of the input.
        kernel: Extent k of the kernels.
        stride: Stride of the first block; unless it is 1, that block doubles the channels.
        groups: Groups of the convolutions.
        square: Whether blocks have the k x k branch.
        bias: Whether the convolutions have biases.
        order: The order of the additions, one of :data:`.parts.ORDERS`.
        batch: Number of images.
        relu: Whether blocks end with a relu.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        found: Branches = []
        for shape in ((kernel, kernel), (1, kernel), (kernel, 1))[0 if square else 1 :]:
            w = weights.kernel(out, into // groups, shape)
            c = weights.normal(out, size=0.1) if bias else None
            found.append([Conv(w, c, stride, same_pads(shape), 1, groups), weights.norm(out)])
        return [(found, groups)]

    widths = _widths(blocks, channels, stride)
    return _network("acnet", widths, make, batch=batch, size=size, order=order, by_hand=by_hand, relu=relu)


#: The treatments of the border between the 1x1 convolution of a diverse branch and its window; see dbb.
BORDERS = ("response", "plain", "biased")


def dbb(
    *,
    blocks: int = 4,
    channels: int = 32,
    size: int = 28,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    border: str = "response",
    order: str = "left",
    batch: int = 1,
    relu: bool = True,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return diverse branch blocks: k x k; 1x1; 1x1 then k x k; 1x1 then mean (arXiv 2103.13425).

    Each branch is normalised at its end, and the last two branches also after their 1x1 convolution, where
    the published block pads with the normalisation's response to zero.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input.
        size: Height and width of the input.
        kernel: Extent k of the larger kernels and of the mean.
        stride: Stride of the first block; unless it is 1, that block doubles the channels.
        groups: Groups of the convolutions.
        border: The padding after the inner 1x1 convolutions. ``"response"`` pads these convolutions
            themselves, which is equivalent to the published block; ``"plain"`` omits their normalisation;
            ``"biased"`` pads with zeros after the normalisation, so that the branch is not a convolution
            (law E1w) and cannot be merged by hand.
        order: The order of the additions, one of :data:`.parts.ORDERS`.
        batch: Number of images.
        relu: Whether blocks end with a relu.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.

    Raises:
        ValueError: ``border`` is unknown, or the form merged by hand does not exist.
    """
    if border not in BORDERS:
        raise ValueError(f"border must be one of {', '.join(BORDERS)}, got {border!r}")
    weights = Weights(seed)
    window = same_pads((kernel, kernel))

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        inner = window if border == "response" else NOTHING
        outer = NOTHING if border == "response" else window

        def point() -> list[Layer]:
            conv = Conv(weights.kernel(out, into // groups, (1, 1)), None, 1, inner, groups=groups)
            return [conv] if border == "plain" else [conv, weights.norm(out)]

        def conv(channels: int, k: int, pads: Pads) -> Conv:
            return Conv(weights.kernel(out, channels // groups, (k, k)), None, stride, pads, groups=groups)

        square, single = conv(into, kernel, window), conv(into, 1, NOTHING)
        first, second = point(), point()
        last = conv(out, kernel, outer)
        branches: Branches = [
            [square, weights.norm(out)],
            [single, weights.norm(out)],
            [*first, last, weights.norm(out)],
            [*second, Mean(kernel, stride, outer), weights.norm(out)],
        ]
        return [(branches, groups)]

    widths = _widths(blocks, channels, stride)
    return _network("dbb", widths, make, batch=batch, size=size, order=order, by_hand=by_hand, relu=relu)


def mobileone(
    *,
    blocks: int = 4,
    channels: int = 32,
    size: int = 28,
    kernel: int = 3,
    stride: int = 1,
    branches: int = 2,
    order: str = "left",
    batch: int = 1,
    relu: bool = True,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return blocks of MobileOne (arXiv 2206.04040), each with a depthwise and a pointwise part.

    The depthwise part has ``branches`` of k x k, one of 1x1 and the normalised input; the pointwise part has
    ``branches`` of 1x1 and the normalised input. A part that changes the resolution or the number of
    channels has no input branch.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input.
        size: Height and width of the input.
        kernel: Extent k of the larger depthwise kernels.
        stride: Stride of the first block; unless it is 1, that block doubles the channels.
        branches: Number of copies of the k x k and of the pointwise convolution.
        order: The order of the additions, one of :data:`.parts.ORDERS`.
        batch: Number of images.
        relu: Whether parts end with a relu.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)

    def part(into: int, out: int, kernels: list[int], stride: int, groups: int) -> tuple[Branches, int]:
        found: Branches = [
            [
                Conv(weights.kernel(out, into // groups, (k, k)), None, stride, same_pads((k, k)), 1, groups),
                weights.norm(out),
            ]
            for k in kernels
        ]
        if stride == 1 and into == out:
            found.append([weights.norm(out)])
        return found, groups

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        depthwise = part(into, into, [kernel] * branches + [1], stride, into)
        return [depthwise, part(into, out, [1] * branches, 1, 1)]

    widths = _widths(blocks, channels, stride)
    return _network(
        "mobileone", widths, make, batch=batch, size=size, order=order, by_hand=by_hand, relu=relu
    )


def inception(
    *,
    blocks: int = 4,
    channels: int = 64,
    size: int = 28,
    branches: int = 4,
    bias: bool = True,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return blocks of parallel 1x1 convolutions on one input with relu and concat; by hand they are one.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input and of each block's result.
        size: Height and width of the input.
        branches: Number of convolutions per block.
        bias: Whether the convolutions have biases.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("inception", share=False)
    x = b.input("x", (batch, channels, size, size))
    widths = [channels // branches] * (branches - 1)
    widths.append(channels - sum(widths))
    for _ in range(blocks):
        convs = [
            Conv(weights.kernel(w, channels, (1, 1)), weights.normal(w, size=0.1) if bias else None)
            for w in widths
        ]
        if by_hand:
            joined = [c.bias for c in convs if c.bias is not None]
            whole = Conv(
                np.concatenate([c.weight for c in convs]), np.concatenate(joined) if joined else None
            )
            x = b.op("relu", convolution(b, x, whole))
        else:
            parts = [b.op("relu", convolution(b, x, c)) for c in convs]
            x = b.op("concat", *parts, axis=-3) if len(parts) > 1 else parts[0]
    return b.graph({"y": x})


def squeeze_excite(
    *,
    blocks: int = 4,
    channels: int = 32,
    size: int = 28,
    reduction: int = 4,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return blocks of convolution, normalisation and squeeze-excite (arXiv 1709.01507).

    Squeeze-excite weights the channels depending on their values. These weights are not constant, so that
    only the normalisations can be merged.

    Args:
        blocks: Number of blocks.
        channels: Channels of the input and of each block's result.
        size: Height and width of the input.
        reduction: The factor by which squeeze-excite reduces the channels.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form merged by hand.
    """
    weights = Weights(seed)
    b = GraphBuilder("squeeze_excite", share=False)
    x = b.input("x", (batch, channels, size, size))
    for _ in range(blocks):
        conv: list[Layer] = [Conv(weights.kernel(channels, channels, (3, 3)), None, 1, (1, 1, 1, 1))]
        conv.append(weights.norm(channels))
        y = block(b, x, [conv], 1, "left", by_hand, False)
        squeezed = b.op("reduce_mean", y, axes=(-2, -1))
        few = max(1, channels // reduction)
        down = Conv(weights.kernel(few, channels, (1, 1)), weights.normal(few, size=0.1))
        up = Conv(weights.kernel(channels, few, (1, 1)), weights.normal(channels, size=0.1))
        inner = b.op("relu", convolution(b, squeezed, down))
        x = b.op("relu", b.op("mul", y, b.op("sigmoid", convolution(b, inner, up))))
    return b.graph({"y": x})
