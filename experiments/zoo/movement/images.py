"""Parts of image networks: layers as they are exported, and their weights rearranged on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.graph import GraphBuilder, Value
from zoo.layers import Norm, Weights


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The weight [O, I, k, k] of a convolution and its bias [O]."""

    weight: np.ndarray
    bias: np.ndarray

    @classmethod
    def drawn(cls, weights: Weights, out: int, into: int, extent: int, groups: int = 1) -> Kernel:
        """Return a random kernel.

        Args:
            weights: The source of random weights.
            out: The number of output channels.
            into: The number of input channels of all groups together.
            extent: The height and the width in elements.
            groups: The number of groups.
        """
        return cls(weights.kernel(out, into // groups, (extent, extent)), weights.normal(out, size=0.1))

    def part(self, start: int, stop: int, *, bias: bool) -> Kernel:
        """Return the part of the kernel that reads some input channels, with the bias or without."""
        return Kernel(self.weight[:, start:stop], self.bias if bias else np.zeros_like(self.bias))

    def normalised(self, weights: Weights) -> Kernel:
        """Return the kernel followed by a random batch normalisation, as exporters merge the two."""
        return self.followed(weights.norm(len(self.bias)))

    def followed(self, norm: Norm) -> Kernel:
        """Return the kernel of a convolution that is followed by a batch normalisation."""
        factor, shift = norm.affine()
        return Kernel(
            (self.weight * factor[:, None, None, None]).astype(np.float32),
            (self.bias * factor + shift).astype(np.float32),
        )


def stored(b: GraphBuilder, array: np.ndarray) -> Value:
    """Add a weight and return its value."""
    return b.weight(data=np.ascontiguousarray(array, dtype=np.float32))


def convolved(b: GraphBuilder, x: Value, kernel: Kernel, **attrs: object) -> Value:
    """Add a convolution and return its value; a bias of zeros is left out."""
    operands = [x, stored(b, kernel.weight)]
    if kernel.bias.any():
        operands.append(stored(b, kernel.bias.reshape(1, -1, 1, 1)))
    return b.op("conv2d", *operands, **attrs)


def square(b: GraphBuilder, x: Value, kernel: Kernel, stride: int = 1, groups: int = 1) -> Value:
    """Add a convolution whose pads are half of its kernel's extent.

    Args:
        b: The graph in progress.
        x: The image, ``[batch, channels, height, width]``.
        kernel: The weight and the bias.
        stride: The stride along both axes.
        groups: The number of groups.
    """
    pad = kernel.weight.shape[-1] // 2
    return convolved(b, x, kernel, strides=stride, pads=(pad,) * 4, groups=groups)


def transposed(b: GraphBuilder, x: Value, kernel: Kernel) -> Value:
    """Add a transposed convolution of stride 2 with a 4x4 kernel, which doubles the extents."""
    operands = [x, stored(b, kernel.weight.transpose(1, 0, 2, 3))]
    if kernel.bias.any():
        operands.append(stored(b, kernel.bias.reshape(1, -1, 1, 1)))
    return b.op("conv_transpose", *operands, strides=2, pads=(1, 1, 1, 1))


def resized(b: GraphBuilder, x: Value, size: Sequence[int]) -> Value:
    """Add a bilinear interpolation to other extents, as torch computes it."""
    if b.type(x).shape[-2:] == tuple(size):
        return x
    return b.op("resize", x, size=tuple(size), mode="linear", coords="half_pixel")


def doubled(b: GraphBuilder, x: int) -> Value:
    """Add a resizing to twice the extents in which every element is repeated."""
    height, width = b.type(x).shape[-2:]
    return b.op("resize", x, size=(2 * height, 2 * width), mode="nearest")


def silu(b: GraphBuilder, x: int) -> Value:
    """Add ``x · sigmoid(x)``."""
    return b.op("mul", x, b.op("sigmoid", x))


def group_normalised(b: GraphBuilder, x: Value, weights: Weights, groups: int = 32) -> Value:
    """Add a normalisation of groups of channels, with a scale and a shift for every channel.

    Args:
        b: The graph in progress.
        x: The image, ``[batch, channels, height, width]``.
        weights: The source of random weights.
        groups: The number of groups of channels.
    """
    n, channels, height, width = b.type(x).shape
    groups = min(groups, channels)
    inner = channels // groups * height * width
    rows = b.op("reshape", x, shape=(n, groups, inner))
    rows = b.op("layernorm", rows, stored(b, np.ones(inner)), axis=-1, eps=1e-6)
    y = b.op("reshape", rows, shape=(n, channels, height, width))
    scale, shift = 1 + weights.normal(channels, size=0.1), weights.normal(channels, size=0.1)
    y = b.op("mul", y, stored(b, scale.reshape(1, -1, 1, 1)))
    return b.op("add", y, stored(b, shift.reshape(1, -1, 1, 1)))


# -- rewritten on paper ----------------------------------------------------------------------------
def _paired(weight: np.ndarray, axis: int, odd: int) -> np.ndarray:
    """Return three taps as two: those that read the same place of the image before doubling are summed."""
    first, second, third = np.moveaxis(weight, axis, 0)
    pair = (first + second, third) if odd else (first, second + third)
    return np.moveaxis(np.stack(pair), 0, axis)


def convolved_doubled(b: GraphBuilder, x: Value, kernel: Kernel) -> Value:
    """Add a 3x3 convolution of a doubled image, computed before it is doubled.

    The elements of even and odd rows and columns are four convolutions with 2x2 kernels.
    """
    weight = kernel.weight.astype(np.float64)
    return _interleaved(
        b, x, lambda row, column: Kernel(_paired(_paired(weight, 2, row), 3, column), kernel.bias)
    )


def spread(b: GraphBuilder, x: Value, kernel: Kernel) -> Value:
    """Add a transposed convolution like :func:`transposed` as four convolutions with 2x2 kernels."""

    def part(row: int, column: int) -> Kernel:
        taps = kernel.weight[:, :, [3 - row, 1 - row]][..., [3 - column, 1 - column]]
        return Kernel(taps, kernel.bias)

    return _interleaved(b, x, part)


def _interleaved(b: GraphBuilder, x: Value, part: Callable[[int, int], Kernel]) -> Value:
    """Add convolutions for even and odd rows and columns, and the image that they make together."""
    parts = [
        convolved(b, x, part(row, column), pads=(1 - row, 1 - column, row, column))
        for row in (0, 1)
        for column in (0, 1)
    ]
    return b.op("depth_to_space", b.op("concat", *parts, axis=-3), block=2)
