"""Heads that fuse features of several resolutions: resized, concatenated, and convolved point by point.

By hand, the fusing convolution is split among the features, each part is computed before resizing, and it is
multiplied into the layer before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from workbench.graph import Graph, GraphBuilder, Value
from zoo.layers import Weights
from zoo.movement.images import Kernel, convolved, resized, square, stored

#: The widths of the four stages and the numbers of their blocks, by model (arXiv 2105.15203).
SEGFORMERS: Final = {
    "b0": ((32, 64, 160, 256), (2, 2, 2, 2), 256),
    "b2": ((64, 128, 320, 512), (3, 4, 6, 3), 768),
}
_HEADS: Final = (1, 2, 5, 8)
_REDUCTIONS: Final = (8, 4, 2, 1)


class _SegFormer:
    """A builder of SegFormer's layers: tokens are [N, places, channels]."""

    def __init__(self, seed: int) -> None:
        self.b = GraphBuilder("segformer", share=False)
        self.weights = Weights(seed)

    def linear(self, x: Value, matrix: np.ndarray, bias: np.ndarray) -> Value:
        """Add a linear layer."""
        return self.b.op("add", self.b.op("matmul", x, stored(self.b, matrix)), stored(self.b, bias))

    def drawn(self, x: Value, out: int) -> Value:
        """Add a linear layer with random weights."""
        into = self.b.type(x).shape[-1]
        return self.linear(x, self.weights.matrix(into, out), self.weights.normal(out, size=0.1))

    def norm(self, x: Value) -> Value:
        """Add a layer normalisation."""
        width = self.b.type(x).shape[-1]
        scale, shift = 1 + self.weights.normal(width, size=0.1), self.weights.normal(width, size=0.1)
        return self.b.op("layernorm", x, stored(self.b, scale), stored(self.b, shift), axis=-1, eps=1e-5)

    def image(self, x: Value, size: tuple[int, int]) -> Value:
        """Add the arrangement of tokens as an image."""
        n, _, channels = self.b.type(x).shape
        turned = self.b.op("transpose", x, perm=(0, 2, 1))
        return self.b.op("reshape", turned, shape=(n, channels, *size))

    def tokens(self, x: Value) -> Value:
        """Add the arrangement of an image as tokens."""
        n, channels, height, width = self.b.type(x).shape
        rows = self.b.op("reshape", x, shape=(n, channels, height * width))
        return self.b.op("transpose", rows, perm=(0, 2, 1))

    def heads(self, x: Value, heads: int) -> Value:
        """Add the division of tokens among heads."""
        n, places, width = self.b.type(x).shape
        split = self.b.op("reshape", x, shape=(n, places, heads, width // heads))
        return self.b.op("transpose", split, perm=(0, 2, 1, 3))

    def attention(self, x: Value, size: tuple[int, int], heads: int, reduction: int) -> Value:
        """Add attention to positions whose number a strided convolution reduces."""
        b, (n, places, width) = self.b, self.b.type(x).shape
        seen = x
        if reduction > 1:
            kernel = Kernel.drawn(self.weights, width, width, reduction)
            seen = self.tokens(convolved(b, self.image(x, size), kernel, strides=reduction))
            seen = self.norm(seen)
        query, key, value = (self.heads(self.drawn(s, width), heads) for s in (x, seen, seen))
        scores = b.op("matmul", query, b.op("transpose", key, perm=(0, 1, 3, 2)))
        scores = b.op("div", scores, b.weight(data=np.array((width // heads) ** 0.5, np.float32)))
        mixed = b.op("matmul", b.op("softmax", scores, axis=-1), value)
        rows = b.op("transpose", mixed, perm=(0, 2, 1, 3))
        return self.drawn(b.op("reshape", rows, shape=(n, places, width)), width)

    def block(self, x: Value, size: tuple[int, int], heads: int, reduction: int) -> Value:
        """Add attention, and a feed-forward layer with a depthwise convolution inside."""
        b, width = self.b, self.b.type(x).shape[-1]
        x = b.op("add", x, self.attention(self.norm(x), size, heads, reduction))
        inner = self.drawn(self.norm(x), 4 * width)
        kernel = Kernel.drawn(self.weights, 4 * width, 4 * width, 3, groups=4 * width)
        inner = self.tokens(square(b, self.image(inner, size), kernel, groups=4 * width))
        return b.op("add", x, self.drawn(b.op("gelu", inner), width))

    def features(self, x: Value, widths: Sequence[int], depths: Sequence[int]) -> list[Value]:
        """Add the four stages; return the tokens after each, as images."""
        found = []
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            extent, stride = (3, 2) if stage else (7, 4)
            kernel = Kernel.drawn(self.weights, width, self.b.type(x).shape[1], extent)
            x = square(self.b, x, kernel, stride)
            height, across = self.b.type(x).shape[-2:]
            x = self.norm(self.tokens(x))
            for _ in range(depth):
                x = self.block(x, (height, across), _HEADS[stage], _REDUCTIONS[stage])
            x = self.image(self.norm(x), (height, across))
            found.append(x)
        return found

    def head(self, features: Sequence[Value], decoder: int, classes: int, by_hand: bool) -> Value:
        """Add the head: a linear layer of each feature, resized, fused and classified."""
        b = self.b
        size = b.type(features[0]).shape[-2:]
        layers: list[tuple[np.ndarray, np.ndarray]] = []
        for x in features:
            into = b.type(x).shape[1]
            layers.append((self.weights.matrix(into, decoder), self.weights.normal(decoder, size=0.1)))
        count = len(features)
        fuse = Kernel.drawn(self.weights, decoder, count * decoder, 1).normalised(self.weights)
        classify = Kernel.drawn(self.weights, classes, decoder, 1)
        parts = []
        for number in reversed(range(count)):
            x, (matrix, bias) = features[number], layers[number]
            if by_hand:
                # The part of the fusing convolution that reads this feature, as a matrix.
                start = (count - 1 - number) * decoder
                fusing = fuse.weight[:, start : start + decoder, 0, 0].T.astype(np.float64)
                matrix, bias = matrix @ fusing, bias @ fusing + (fuse.bias if number == 0 else 0)
            y = self.linear(self.tokens(x), matrix, bias)
            height, width = b.type(x).shape[-2:]
            parts.append(resized(b, self.image(y, (height, width)), size))
        if by_hand:
            total = parts[0]
            for part in parts[1:]:
                total = b.op("add", total, part)
        else:
            total = convolved(b, b.op("concat", *parts, axis=-3), fuse)
        return convolved(b, b.op("relu", total), classify)


def segformer(
    *,
    model: str = "b0",
    size: int = 512,
    classes: int = 150,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return SegFormer (arXiv 2105.15203) as torch exports it.

    Args:
        model: ``b0`` or ``b2``.
        size: Height and width of the image.
        classes: Number of classes.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    widths, depths, decoder = SEGFORMERS[model]
    made = _SegFormer(seed)
    x = made.b.input("image", (batch, 3, size, size))
    return made.b.graph({"logits": made.head(made.features(x, widths, depths), decoder, classes, by_hand)})


def segformer_head(
    *,
    model: str = "b0",
    size: int = 512,
    classes: int = 150,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return the head of SegFormer alone, whose inputs are the features of the four stages.

    The arguments are those of :func:`segformer`.
    """
    widths, _, decoder = SEGFORMERS[model]
    made = _SegFormer(seed)
    features = [
        made.b.input(f"feature{i}", (batch, width, size // (4 << i), size // (4 << i)))
        for i, width in enumerate(widths)
    ]
    return made.b.graph({"logits": made.head(features, decoder, classes, by_hand)})


def pyramid_head(
    *,
    widths: tuple[int, ...] = (48, 96, 192, 384),
    size: int = 64,
    classes: int = 19,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return the head of HRNet (arXiv 1908.07919): branches of several resolutions, joined and convolved.

    Args:
        widths: The channels of the branches; each has half the resolution of the one before.
        size: Height and width of the first branch.
        classes: Number of classes.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    b, weights = GraphBuilder("pyramid_head", share=False), Weights(seed)
    xs = [b.input(f"branch{i}", (batch, w, size >> i, size >> i)) for i, w in enumerate(widths)]
    total = sum(widths)
    fuse = Kernel.drawn(weights, total, total, 1).normalised(weights)
    classify = Kernel.drawn(weights, classes, total, 1)
    if not by_hand:
        joined = b.op("concat", *(resized(b, x, (size, size)) for x in xs), axis=-3)
        return b.graph({"logits": convolved(b, b.op("relu", convolved(b, joined, fuse)), classify)})
    start, parts = 0, []
    for x, width in zip(xs, widths, strict=True):
        part = convolved(b, x, fuse.part(start, start + width, bias=not start))
        parts.append(resized(b, part, (size, size)))
        start += width
    y = parts[0]
    for part in parts[1:]:
        y = b.op("add", y, part)
    return b.graph({"logits": convolved(b, b.op("relu", y), classify)})
