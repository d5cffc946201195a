"""NasNet-A as TASO and Tensat published it."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool


def nasneta(image: int = 224, channels: int = 128, stages: int = 3, cells: int = 5) -> Graph:
    """Return the network: a stem, then stages of normal cells and a reduction cell.

    Args:
        image: Height and width of the input.
        channels: Channels of the first stage; every reduction doubles them.
        stages: Number of stages.
        cells: Number of normal cells per stage.
    """
    b = GraphBuilder("nasneta")
    x = conv(b, b.input("x", (1, 3, image, image)), 64, (7, 7), 2, act="relu")
    x = pool(b, x, "maxpool", 3, 2)
    for _ in range(stages):
        previous = current = x
        for _ in range(cells):
            previous, current = current, _normal(b, previous, current, channels)
        channels *= 2
        x = _reduction(b, previous, current, channels)
    return b.graph({"y": x})


def _fit(b: GraphBuilder, current: int, value: int) -> int:
    channels, height = b.type(current).shape[1:3]
    if b.type(value).shape[2] == height:
        return conv(b, value, channels, act="relu")
    return conv(b, value, channels, (3, 3), 2, act="relu")


def _separable(b: GraphBuilder, x: int, channels: int, kernel: int, stride: int = 1) -> int:
    depthwise = conv(b, x, channels, (kernel, kernel), stride, groups=channels)
    return conv(b, depthwise, channels)


def _normal(b: GraphBuilder, previous: int, current: int, channels: int) -> int:
    current = conv(b, current, channels, act="relu")
    previous = _fit(b, current, previous)

    def sep(value: int) -> int:
        return _separable(b, value, channels, 3)

    def mean(value: int) -> int:
        return pool(b, value, "avgpool", 3, 1)

    pairs = [
        (sep(current), current),
        (sep(previous), sep(current)),
        (mean(current), previous),
        (mean(previous), mean(previous)),
        (sep(previous), sep(previous)),
    ]
    return b.op("concat", *(b.op("add", x, y) for x, y in pairs), axis=-3)


def _reduction(b: GraphBuilder, previous: int, current: int, channels: int) -> int:
    current = conv(b, current, channels, act="relu")
    previous = _fit(b, current, previous)

    def sep(value: int, kernel: int, stride: int = 2) -> int:
        return _separable(b, value, channels, kernel, stride)

    def largest(value: int) -> int:
        return pool(b, value, "maxpool", 3, 2)

    first = b.op("add", sep(previous, 7), sep(current, 5))
    second = b.op("add", largest(current), sep(previous, 7))
    third = b.op("add", pool(b, current, "avgpool", 3, 2), sep(previous, 5))
    fourth = b.op("add", largest(current), sep(first, 3, 1))
    fifth = b.op("add", pool(b, first, "avgpool", 3, 1), second)
    return b.op("concat", first, second, third, fourth, fifth, axis=-3)
