"""SqueezeNet 1.1 without biases, as in the published file."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool


def squeezenet(image: int = 224) -> Graph:
    """Return the network of eight fire modules; relus are separate operators."""
    b = GraphBuilder("squeezenet")
    x = b.op("relu", conv(b, b.input("x", (1, 3, image, image)), 64, (3, 3), 2, "VALID"))
    for squeeze, repeats, shrink in ((16, 2, True), (32, 2, True), (48, 2, True), (64, 2, False)):
        # The last two pairs have the same resolution.
        if shrink:
            x = pool(b, x, "maxpool", 3, 2, "VALID")
        for _ in range(repeats):
            x = _fire(b, x, squeeze, 4 * squeeze)
    x = b.op("relu", conv(b, b.op("identity", x), 1000))
    size = b.type(x).shape[2]
    x = pool(b, x, "avgpool", size, size, "VALID")
    return b.graph({"y": b.op("reshape", x, shape=(1, 1000))})


def _fire(b: GraphBuilder, x: int, squeeze: int, expand: int) -> int:
    s = b.op("relu", conv(b, x, squeeze))
    one = b.op("relu", conv(b, s, expand))
    three = b.op("relu", conv(b, s, expand, (3, 3)))
    return b.op("concat", one, three, axis=-3)
