"""ResNet-50 and ResNeXt-50 as TASO and Tensat published them: no batch normalisation, no head."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool


def resnet50(image: int = 56, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> Graph:
    """Return the four stages, whose input is [1, 64, 56, 56] by default; shortcut convolutions have relu."""
    b = GraphBuilder("resnet50")
    x = b.input("x", (1, width, image, image))
    return b.graph({"y": _stages(b, x, blocks, width, expansion=4, groups=1)})


def resnext50(image: int = 224, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 128) -> Graph:
    """Return the stem and the four stages, whose 3x3 convolutions have 32 groups."""
    b = GraphBuilder("resnext50")
    x = conv(b, b.input("x", (1, 3, image, image)), 64, (7, 7), 2, act="relu")
    x = pool(b, x, "maxpool", 3, 2)
    return b.graph({"y": _stages(b, x, blocks, width, expansion=2, groups=32)})


def _stages(b: GraphBuilder, x: int, blocks: tuple[int, ...], width: int, expansion: int, groups: int) -> int:
    for stage, count in enumerate(blocks):
        out = width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            t = conv(b, x, out, act="relu")
            t = conv(b, t, out, (3, 3), stride, act="relu", groups=groups)
            t = conv(b, t, out * expansion)
            if stride > 1 or b.type(x).shape[1] != out * expansion:
                x = conv(b, x, out * expansion, stride=stride, act="relu")
            x = b.op("relu", b.op("add", x, t))
    return x
