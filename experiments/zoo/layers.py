"""Layers of networks with branches, and the formulas for merging a branch by hand.

A branch is a chain of linear layers: convolutions, batch normalisations, average pools. :func:`separate`
adds the chain as it is trained; :func:`fused` computes the equivalent kernel and bias by the published
formulas, in float64. Neither uses the rewrite rules, so that they can serve to check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.graph import GraphBuilder, Value

Pads = tuple[int, int, int, int]
NOTHING: Pads = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """A batch normalisation in evaluation form: vectors [C], with positive variances."""

    scale: np.ndarray
    shift: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    eps: float = 1e-5

    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the factors and the shifts of the channels, two vectors [C] in float64."""
        factor = self.scale.astype(np.float64) / np.sqrt(self.variance.astype(np.float64) + self.eps)
        return factor, self.shift - factor * self.mean


@dataclass(frozen=True, slots=True, eq=False)
class Conv:
    """A convolution: its weight [O, I/groups, kh, kw], its bias [O] or None, and its window."""

    weight: np.ndarray
    bias: np.ndarray | None = None
    stride: int = 1
    pads: Pads = NOTHING
    dilation: int = 1
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Mean:
    """An average pool over square windows; its padding counts as zeros."""

    kernel: int
    stride: int = 1
    pads: Pads = NOTHING


Layer = Conv | Norm | Mean


@dataclass(slots=True)
class Weights:
    """A seeded source of the random weights of a network."""

    seed: int = 0
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def normal(self, *shape: int, size: float = 1.0) -> np.ndarray:
        """Return normal numbers with standard deviation ``size``, in float32."""
        return (size * self.random.standard_normal(shape)).astype(np.float32)

    def kernel(self, out: int, per_group: int, kernel: tuple[int, int]) -> np.ndarray:
        """Return a kernel [out, per_group, *kernel] of variance 1 / fan-in."""
        fan_in = per_group * kernel[0] * kernel[1]
        return self.normal(out, per_group, *kernel, size=fan_in**-0.5)

    def matrix(self, rows: int, columns: int, rank: int | None = None) -> np.ndarray:
        """Return a matrix [rows, columns] of variance 1 / fan-in; ``rank`` replaces ``rows`` as fan-in."""
        return self.normal(rows, columns, size=(rank or rows) ** -0.5)

    def norm(self, channels: int) -> Norm:
        """Return a batch normalisation like a trained one, with scales and variances in [0.5, 1.5]."""
        scale, variance = self.random.uniform(0.5, 1.5, (2, channels)).astype(np.float32)
        shift, mean = self.normal(channels, size=0.1), self.normal(channels, size=0.1)
        return Norm(scale, shift, mean, variance)


# -- the form that is trained -------------------------------------------------------------------------
def separate(b: GraphBuilder, x: Value, layers: Sequence[Layer]) -> Value:
    """Add a branch layer by layer and return its value; a branch without layers is its input."""
    for layer in layers:
        if isinstance(layer, Norm):
            vectors = (layer.scale, layer.shift, layer.mean, layer.variance)
            x = b.op("batchnorm", x, *(b.weight(data=v) for v in vectors), eps=layer.eps)
        elif isinstance(layer, Mean):
            x = b.op("avgpool", x, kernel=layer.kernel, strides=layer.stride, pads=layer.pads, include_pad=1)
        else:
            x = convolution(b, x, layer)
    return x


def convolution(b: GraphBuilder, x: Value, layer: Conv) -> Value:
    """Add a convolution and return its value."""
    operands = [x, b.weight(data=layer.weight)]
    if layer.bias is not None:
        operands.append(b.weight(data=layer.bias.reshape(1, -1, 1, 1)))
    return b.op(
        "conv2d",
        *operands,
        strides=layer.stride,
        pads=layer.pads,
        dilations=layer.dilation,
        groups=layer.groups,
    )


ORDERS = ("left", "right", "reversed", "pairs")


def summed(b: GraphBuilder, values: Sequence[Value], order: str = "left") -> Value:
    """Add values from the left, from the right, from the left in reversed order, or in pairs."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    terms = list(values)
    if order == "right":
        total = terms.pop()
        while terms:
            total = b.op("add", terms.pop(), total)
        return total
    if order == "reversed":
        terms.reverse()
    while len(terms) > 1:
        pair = b.op("add", terms[0], terms[1])
        terms = [*terms[2:], pair] if order == "pairs" else [pair, *terms[2:]]
    return terms[0]


# -- merged by hand -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """The convolution that a branch is equal to, in float64; tap ``u`` reads at ``u * dilation - before``."""

    weight: np.ndarray
    bias: np.ndarray
    stride: int
    before: tuple[int, int]
    dilation: int = 1


def fused(layers: Sequence[Layer], channels: int, groups: int) -> Fused:
    """Return a branch as one convolution in ``groups``; ``channels`` are those of its input.

    Raise ValueError if the branch is not a convolution, because a bias precedes a window with padding.
    """
    weight = identity(channels, groups)
    bias, stride, before, dilation = np.zeros(channels), 1, (0, 0), 1
    for layer in layers:
        if isinstance(layer, Norm):
            factor, shift = layer.affine()
            weight, bias = weight * factor[:, None, None, None], bias * factor + shift
            continue
        if any(layer.pads) and (bias != 0).any():
            raise ValueError("a branch with zero padding after a bias is not a convolution of its input")
        taps = (
            layer.weight.astype(np.float64) if isinstance(layer, Conv) else _mean(layer, len(weight), groups)
        )
        own = layer.groups if isinstance(layer, Conv) else groups
        if isinstance(layer, Conv) and layer.dilation != 1 and taps.shape[2:] != (1, 1):
            dilation = layer.dilation
        bias = np.array([taps[o].sum((1, 2)) @ _part(bias, o, own, len(taps)) for o in range(len(taps))])
        weight = _composed(weight, taps, own, groups)
        before = (before[0] + stride * layer.pads[0], before[1] + stride * layer.pads[1])
        stride *= layer.stride
        if isinstance(layer, Conv) and layer.bias is not None:
            bias = bias + layer.bias
    return Fused(weight, bias, stride, before, dilation)


def identity(channels: int, groups: int) -> np.ndarray:
    """Return the 1x1 kernel of a convolution in groups that returns its input."""
    weight = np.zeros((channels, channels // groups, 1, 1))
    weight[np.arange(channels), np.arange(channels) % (channels // groups)] = 1.0
    return weight


def _mean(layer: Mean, channels: int, groups: int) -> np.ndarray:
    taps = np.full((layer.kernel, layer.kernel), layer.kernel**-2.0)
    return np.asarray(identity(channels, groups) * taps)


def _part(vector: np.ndarray, out: int, groups: int, outs: int) -> np.ndarray:
    per_group = len(vector) // groups
    group = out // (outs // groups)
    return vector[group * per_group : (group + 1) * per_group]


def _composed(first: np.ndarray, second: np.ndarray, groups: int, whole: int) -> np.ndarray:
    """Return the kernel of ``second`` after ``first``; one of the two must have a single tap."""
    if first.shape[2:] != (1, 1) and second.shape[2:] != (1, 1):
        raise ValueError(
            "one of two consecutive convolutions must have a 1x1 kernel, "
            f"got {first.shape[2:]} and {second.shape[2:]}"
        )
    if groups != whole:
        raise ValueError(f"the groups of a convolution must be the branch's {whole}, got {groups}")
    parts = []
    for a, b in zip(np.split(first, groups), np.split(second, groups), strict=True):
        parts.append(np.einsum("omuv,mirs->oiurvs", b, a))
    joined = np.concatenate(parts)
    o, i, u, r, v, s = joined.shape
    return joined.reshape(o, i, u * r, v * s)


def merged(branches: Sequence[Fused], groups: int) -> Conv:
    """Return the sum of branches as one convolution with bias.

    The pads at the end are chosen such that stride 1 keeps the extent of the input.
    """
    dilation = max(f.dilation for f in branches)
    if any(f.stride != branches[0].stride for f in branches):
        raise ValueError(f"all branches must have one stride, got {[f.stride for f in branches]}")
    top, left = (max(f.before[i] for f in branches) for i in (0, 1))
    size = [0, 0]
    starts = []
    for f in branches:
        at = [(origin - own) // dilation for origin, own in zip((top, left), f.before, strict=True)]
        starts.append(at)
        size = [max(size[i], at[i] + f.weight.shape[2 + i]) for i in (0, 1)]
    weight = np.zeros((*branches[0].weight.shape[:2], *size))
    for f, (u, v) in zip(branches, starts, strict=True):
        weight[:, :, u : u + f.weight.shape[2], v : v + f.weight.shape[3]] += f.weight
    bias = np.sum([f.bias for f in branches], axis=0)
    bottom, right = (dilation * (size[i] - 1) - (top, left)[i] for i in (0, 1))
    return Conv(
        weight.astype(np.float32),
        bias.astype(np.float32),
        branches[0].stride,
        (top, left, bottom, right),
        dilation,
        groups,
    )


Branches = list[list[Layer]]


def same_pads(kernel: tuple[int, int], dilation: int = 1) -> Pads:
    """Return the pads for which a convolution of stride 1 keeps the size."""
    top, left = (dilation * (k - 1) // 2 for k in kernel)
    return (top, left, dilation * (kernel[0] - 1) - top, dilation * (kernel[1] - 1) - left)


def block(
    b: GraphBuilder, x: Value, branches: Branches, groups: int, order: str, by_hand: bool, relu: bool
) -> Value:
    """Add a block to a network and return its value.

    Args:
        b: The builder of the network.
        x: The input [N, C, H, W].
        branches: The layers of each branch.
        groups: The groups of the merged convolution.
        order: The order of the additions, one of :data:`ORDERS`.
        by_hand: Whether the block is one merged convolution instead of the sum of its branches.
        relu: Whether a relu follows.
    """
    if by_hand:
        channels = b.type(x).shape[1]
        y = convolution(b, x, merged([fused(layers, channels, groups) for layers in branches], groups))
    else:
        y = summed(b, [separate(b, x, layers) for layers in branches], order)
    return b.op("relu", y) if relu else y
