"""Decoders that double the resolution step by step, by nearest neighbours or a transposed convolution.

By hand, each step is four convolutions before doubling, one for the even and odd rows and columns each.
"""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from zoo.layers import Weights
from zoo.movement.images import (
    Kernel,
    convolved,
    convolved_doubled,
    doubled,
    group_normalised,
    silu,
    spread,
    square,
    stored,
    transposed,
)


def upsampling(
    *,
    channels: int = 256,
    out: int = 128,
    size: int = 32,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return one step of a decoder: doubling, a convolution, a relu.

    Args:
        channels: Channels of the input.
        out: Channels of the result.
        size: Height and width of the input.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    b, weights = GraphBuilder("upsampling", share=False), Weights(seed)
    x = b.input("x", (batch, channels, size, size))
    kernel = Kernel.drawn(weights, out, channels, 3)
    y = convolved_doubled(b, x, kernel) if by_hand else square(b, doubled(b, x), kernel)
    return b.graph({"y": b.op("relu", y)})


def autoencoder_decoder(
    *,
    widths: tuple[int, ...] = (256, 256, 128),
    blocks: int = 1,
    size: int = 16,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return a decoder like that of latent diffusion (arXiv 2112.10752): residual blocks and doubling.

    Args:
        widths: The channels of each resolution.
        blocks: Residual blocks of each resolution.
        size: Height and width of the latent image.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    b, weights = GraphBuilder("autoencoder_decoder", share=False), Weights(seed)
    x = b.input("latent", (batch, 4, size, size))
    x = square(b, x, Kernel.drawn(weights, widths[0], 4, 3))
    for step, width in enumerate(widths):
        for _ in range(blocks):
            into = b.type(x).shape[1]
            y = square(b, silu(b, group_normalised(b, x, weights)), Kernel.drawn(weights, width, into, 3))
            y = square(b, silu(b, group_normalised(b, y, weights)), Kernel.drawn(weights, width, width, 3))
            if into != width:
                x = square(b, x, Kernel.drawn(weights, width, into, 1))
            x = b.op("add", x, y)
        if step + 1 < len(widths):
            kernel = Kernel.drawn(weights, width, width, 3)
            x = convolved_doubled(b, x, kernel) if by_hand else square(b, doubled(b, x), kernel)
    x = silu(b, group_normalised(b, x, weights))
    return b.graph({"image": square(b, x, Kernel.drawn(weights, 3, widths[-1], 3))})


def unet_decoder(
    *,
    widths: tuple[int, ...] = (512, 256, 128, 64, 64),
    decoder: tuple[int, ...] = (256, 128, 64, 32),
    size: int = 7,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return the decoder of a U-Net over the features of a residual network.

    Each step doubles the image, appends the encoder's feature of that resolution and convolves twice.

    Args:
        widths: The channels of the encoder's features, the deepest first.
        decoder: The channels of each step.
        size: Height and width of the deepest feature.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    b, weights = GraphBuilder("unet_decoder", share=False), Weights(seed)
    features = [b.input(f"feature{i}", (batch, w, size << i, size << i)) for i, w in enumerate(widths)]
    x = features[0]
    for skip, width in zip(features[1:], decoder, strict=True):
        into, more = b.type(x).shape[1], b.type(skip).shape[1]
        kernel = Kernel.drawn(weights, width, into + more, 3).normalised(weights)
        if by_hand:
            below = convolved_doubled(b, x, kernel.part(0, into, bias=True))
            x = b.op("add", below, square(b, skip, kernel.part(into, into + more, bias=False)))
        else:
            x = square(b, b.op("concat", doubled(b, x), skip, axis=-3), kernel)
        x = b.op("relu", x)
        second = Kernel.drawn(weights, width, width, 3).normalised(weights)
        x = b.op("relu", square(b, x, second))
    return b.graph({"y": x})


def pose_head(
    *,
    channels: int = 512,
    widths: tuple[int, ...] = (256, 256, 256),
    joints: int = 17,
    size: int = 8,
    bias: bool = False,
    batch: int = 1,
    seed: int = 0,
    by_hand: bool = False,
) -> Graph:
    """Return the head of a pose network (arXiv 1804.06208): normalised transposed convolutions, heat maps.

    By hand, the normalisation moves into the kernels, and each transposed convolution is four convolutions.

    Args:
        channels: Channels of the feature.
        widths: The channels of each step.
        joints: Number of heat maps.
        size: Height and width of the feature.
        bias: Whether the transposed convolutions have biases.
        batch: Number of images.
        seed: Seed of the weights.
        by_hand: Whether to return the form rewritten by hand.
    """
    b, weights = GraphBuilder("pose_head", share=False), Weights(seed)
    x = b.input("feature", (batch, channels, size, size))
    for width in widths:
        into = b.type(x).shape[1]
        kernel = Kernel.drawn(weights, width, into, 4)
        kernel = kernel if bias else kernel.part(0, into, bias=False)
        norm = weights.norm(width)
        if by_hand:
            y = spread(b, x, kernel.followed(norm))
        else:
            y = transposed(b, x, kernel)
            vectors = (norm.scale, norm.shift, norm.mean, norm.variance)
            y = b.op("batchnorm", y, *(stored(b, v) for v in vectors), eps=norm.eps)
        x = b.op("relu", y)
    return b.graph({"maps": convolved(b, x, Kernel.drawn(weights, joints, widths[-1], 1))})
