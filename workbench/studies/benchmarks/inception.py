"""Inception-v3 as Tensat reads its published file: batch 1, convolutions with relu, mostly binary concats.

The published file also has a relu on the average pools of stride 1, which Tensat's reader ignores.
"""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder
from workbench.studies.benchmarks.layers import conv, pool


def inceptionv3(image: int = 299, width: float = 1.0) -> Graph:
    """Return the network; ``width`` scales all channels, for small versions."""
    net = _Inception(width)
    return net.build(image)


class _Inception:
    def __init__(self, width: float) -> None:
        self.b = GraphBuilder("inceptionv3")
        self.width = width

    def conv(
        self, x: int, out: int, kernel: tuple[int, int] = (1, 1), stride: int = 1, padding: str = "SAME"
    ) -> int:
        channels = max(1, round(out * self.width))
        return conv(self.b, x, channels, kernel, stride, padding, act="relu")

    def join(self, *parts: int) -> int:
        """Join two parts, or four in pairs, as the published file does."""
        if len(parts) == 4:
            parts = (self.join(*parts[:2]), self.join(*parts[2:]))
        return self.b.op("concat", *parts, axis=-3)

    def mean(self, x: int) -> int:
        return pool(self.b, x, "avgpool", 3, 1)

    def build(self, image: int) -> Graph:
        b = self.b
        x = self.conv(b.input("x", (1, 3, image, image)), 32, (3, 3), 2, "VALID")
        x = self.conv(self.conv(x, 32, (3, 3), 1, "VALID"), 64, (3, 3))
        x = pool(b, x, "maxpool", 3, 2, "VALID")
        x = self.conv(self.conv(x, 80, (1, 1), 1, "VALID"), 192, (3, 3), 1, "VALID")
        x = pool(b, x, "maxpool", 3, 2, "VALID")
        for features in (32, 64, 64):
            x = self.block_a(x, features)
        x = self.block_b(x)
        for channels in (128, 160, 160, 192):
            x = self.block_c(x, channels)
        x = self.block_d(x)
        x = self.block_e(self.block_e(x))
        size = b.type(x).shape[2]
        return b.graph({"y": pool(b, x, "avgpool", size, 1, "VALID")})

    def block_a(self, x: int, features: int) -> int:
        one = self.conv(x, 64)
        five = self.conv(self.conv(x, 48), 64, (5, 5))
        three = self.conv(self.conv(self.conv(x, 64), 96, (3, 3)), 96, (3, 3))
        return self.join(one, five, three, self.conv(self.mean(x), features))

    def block_b(self, x: int) -> int:
        three = self.conv(x, 384, (3, 3), 2, "VALID")
        double = self.conv(self.conv(self.conv(x, 64), 96, (3, 3)), 96, (3, 3), 2, "VALID")
        return self.join(pool(self.b, x, "avgpool", 3, 2, "VALID"), self.join(three, double))

    def block_c(self, x: int, c: int) -> int:
        one = self.conv(x, 192)
        seven = self.conv(self.conv(self.conv(x, c), c, (1, 7)), 192, (7, 1))
        double = self.conv(x, c)
        for out, kernel in ((c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))):
            double = self.conv(double, out, kernel)
        return self.join(one, seven, double, self.conv(self.mean(x), 192))

    def block_d(self, x: int) -> int:
        three = self.conv(self.conv(x, 192), 320, (3, 3), 2, "VALID")
        seven = self.conv(self.conv(self.conv(x, 192), 192, (1, 7)), 192, (7, 1))
        seven = self.conv(seven, 192, (3, 3), 2, "VALID")
        largest = pool(self.b, x, "maxpool", 3, 2, "VALID")
        return self.b.op("concat", three, seven, largest, axis=-3)

    def block_e(self, x: int) -> int:
        def fork(value: int) -> int:
            return self.join(self.conv(value, 384, (1, 3)), self.conv(value, 384, (3, 1)))

        one = self.conv(x, 320)
        three = fork(self.conv(x, 384))
        double = fork(self.conv(self.conv(x, 448), 384, (3, 3)))
        last = self.conv(pool(self.b, x, "maxpool", 3, 1), 192)
        return self.b.op("concat", one, three, double, last, axis=-3)
