"""VGG-19 without biases, as in the published file."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool


def vgg19(image: int = 224, width: float = 1.0) -> Graph:
    """Return the network; its classifier multiplies by transposed weights."""
    b = GraphBuilder("vgg19")
    x = b.input("x", (1, 3, image, image))
    for channels, repeats in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(repeats):
            x = b.op("relu", conv(b, x, max(1, round(channels * width)), (3, 3)))
        x = pool(b, x, "maxpool", 2, 2, "VALID")
    for layer, out in enumerate((4096, 4096, 1000)):
        # The published file flattens before each layer, even if the value is flat already.
        x = b.op("reshape", x, shape=(1, b.type(x).elements))
        features = max(1, round(out * width)) if out != 1000 else out
        weight = b.op("transpose", b.weight((features, b.type(x).shape[1])), perm=(1, 0))
        x = b.op("matmul", x, weight)
        if layer < 2:
            x = b.op("identity", b.op("relu", x))
    return b.graph({"y": x})
