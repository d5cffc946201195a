"""Whole published networks with branches, as they are trained: from the image to the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from workbench.graph import Graph, GraphBuilder
from zoo.layers import Branches, Conv, Weights, block, same_pads

#: RepVGG-A0: the blocks of each stage and their channels (arXiv 2101.03697, table 2).
_REPVGG: Final = ((1, 48), (2, 48), (4, 96), (14, 192), (1, 1280))

#: MobileOne-S0: the same, and the number of copies of each kernel (arXiv 2206.04040, tables 2 and 3).
_MOBILEONE: Final = ((1, 48), (2, 48), (8, 128), (10, 256), (1, 1024))
_COPIES: Final = 4

_CLASSES: Final = 1000


def repvgg_a0(*, size: int = 224, batch: int = 1, seed: int = 0, by_hand: bool = False) -> Graph:
    """Return RepVGG-A0 in evaluation form with random weights: 22 blocks of branches, mean, classifier.

    Args:
        size: Height and width of the image, a multiple of 32.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether every block is one convolution, merged by the published formulas.

    Raises:
        ValueError: ``size`` is not a multiple of 32.
    """
    weights = Weights(seed)

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        return [(_branches(weights, into, out, stride, (3, 1), 1), 1)]

    return _network("repvgg_a0", weights, _REPVGG, make, size, batch, by_hand)


def mobileone_s0(*, size: int = 224, batch: int = 1, seed: int = 0, by_hand: bool = False) -> Graph:
    """Return MobileOne-S0 in evaluation form with random weights: 22 blocks of up to eleven branches each.

    The first block is a 3x3 convolution with branches; every other block has a depthwise and a pointwise
    part.

    Args:
        size: Height and width of the image, a multiple of 32.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether every part is one convolution, merged by the published formulas.

    Raises:
        ValueError: ``size`` is not a multiple of 32.
    """
    weights = Weights(seed)

    def make(into: int, out: int, stride: int) -> list[tuple[Branches, int]]:
        if into == 3:
            return [(_branches(weights, into, out, stride, (3,) * _COPIES + (1,), 1), 1)]
        depthwise = _branches(weights, into, into, stride, (3,) * _COPIES + (1,), into)
        return [(depthwise, into), (_branches(weights, into, out, 1, (1,) * _COPIES, 1), 1)]

    return _network("mobileone_s0", weights, _MOBILEONE, make, size, batch, by_hand)


def _network(
    name: str,
    weights: Weights,
    stages: Sequence[tuple[int, int]],
    make: Callable[[int, int, int], list[tuple[Branches, int]]],
    size: int,
    batch: int,
    by_hand: bool,
) -> Graph:
    if size < 32 or size % 32:
        raise ValueError(f"the size must be a multiple of 32, got {size} (try 224)")
    b = GraphBuilder(name, share=False)
    x = b.input("image", (batch, 3, size, size))
    into = 3
    for blocks, out in stages:
        for number in range(blocks):
            for branches, groups in make(into, out, 1 if number else 2):
                x = block(b, x, branches, groups, "left", by_hand, True)
            into = out
    mean = b.op("reshape", b.op("reduce_mean", x, axes=(-2, -1)), shape=(batch, into))
    classifier = b.weight(data=weights.matrix(into, _CLASSES))
    return b.graph({"classes": b.op("matmul", mean, classifier)})


def _branches(
    weights: Weights, into: int, out: int, stride: int, kernels: Sequence[int], groups: int
) -> Branches:
    found: Branches = []
    for k in kernels:
        kernel = weights.kernel(out, into // groups, (k, k))
        found.append([Conv(kernel, None, stride, same_pads((k, k)), groups=groups), weights.norm(out)])
    if stride == 1 and into == out:
        found.append([weights.norm(out)])
    return found
