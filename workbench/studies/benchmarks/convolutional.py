"""The published convolutional networks, of convolutions and pools with TASO's padding."""

from __future__ import annotations

from workbench.graph import Graph, GraphBuilder, Value
from workbench.studies.taso.core import explicit_pads


def conv(
    b: GraphBuilder,
    x: int,
    out: int,
    kernel: tuple[int, int] = (1, 1),
    stride: int = 1,
    padding: str = "SAME",
    act: str = "none",
    groups: int = 1,
) -> Value:
    """Add a convolution with a new weight, and return its value.

    Args:
        b: The builder of the graph.
        x: The input [N, C, H, W].
        out: Number of output channels.
        kernel: Height and width of the kernel.
        stride: Stride in both directions.
        padding: ``"SAME"`` or ``"VALID"``.
        act: The activation, ``"none"`` or an operator's name.
        groups: Number of groups.
    """
    _, channels, height, width = b.type(x).shape
    weight = b.weight((out, channels // groups, *kernel))
    pads = explicit_pads(padding, (height, width), kernel, (stride, stride))
    return b.op("conv2d", x, weight, strides=(stride, stride), pads=pads, groups=groups, act=act)


def pool(b: GraphBuilder, x: int, op: str, kernel: int, stride: int, padding: str = "SAME") -> Value:
    """Add a pool over square windows, and return its value.

    Args:
        b: The builder of the graph.
        x: The input [N, C, H, W].
        op: ``"maxpool"`` or ``"avgpool"``.
        kernel: Extent of the window in both directions.
        stride: Stride in both directions.
        padding: ``"SAME"`` or ``"VALID"``.
    """
    size = (b.type(x).shape[2], b.type(x).shape[3])
    pads = explicit_pads(padding, size, (kernel, kernel), (stride, stride))
    return b.op(op, x, kernel=(kernel, kernel), strides=(stride, stride), pads=pads)


def resnet50(image: int = 56, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> Graph:
    """Return ResNet-50 as published: four stages without batch normalisation and head; shortcuts have relu."""
    b = GraphBuilder("resnet50")
    x = b.input("x", (1, width, image, image))
    return b.graph({"y": _stages(b, x, blocks, width, expansion=4, groups=1)})


def resnext50(image: int = 224, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 128) -> Graph:
    """Return ResNeXt-50 as published: the stem and four stages, whose 3x3 convolutions have 32 groups."""
    b = GraphBuilder("resnext50")
    x = conv(b, b.input("x", (1, 3, image, image)), 64, (7, 7), 2, act="relu")
    x = pool(b, x, "maxpool", 3, 2)
    return b.graph({"y": _stages(b, x, blocks, width, expansion=2, groups=32)})


def _stages(
    b: GraphBuilder, x: Value, blocks: tuple[int, ...], width: int, expansion: int, groups: int
) -> Value:
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


def inceptionv3(image: int = 299, width: float = 1.0) -> Graph:
    """Return Inception-v3 as Tensat reads its published file; ``width`` scales all channels.

    The batch is 1, convolutions have relu, and most concats are binary. The published file also has a relu on
    the average pools of stride 1, which Tensat's reader ignores.
    """
    return _Inception(width).build(image)


class _Inception:
    def __init__(self, width: float) -> None:
        self.b = GraphBuilder("inceptionv3")
        self.width = width

    def conv(
        self, x: int, out: int, kernel: tuple[int, int] = (1, 1), stride: int = 1, padding: str = "SAME"
    ) -> Value:
        channels = max(1, round(out * self.width))
        return conv(self.b, x, channels, kernel, stride, padding, act="relu")

    def join(self, *parts: int) -> Value:
        """Join two parts, or four in pairs, as the published file does."""
        if len(parts) == 4:
            parts = (self.join(*parts[:2]), self.join(*parts[2:]))
        return self.b.op("concat", *parts, axis=-3)

    def mean(self, x: int) -> Value:
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

    def block_a(self, x: int, features: int) -> Value:
        one = self.conv(x, 64)
        five = self.conv(self.conv(x, 48), 64, (5, 5))
        three = self.conv(self.conv(self.conv(x, 64), 96, (3, 3)), 96, (3, 3))
        return self.join(one, five, three, self.conv(self.mean(x), features))

    def block_b(self, x: int) -> Value:
        three = self.conv(x, 384, (3, 3), 2, "VALID")
        double = self.conv(self.conv(self.conv(x, 64), 96, (3, 3)), 96, (3, 3), 2, "VALID")
        return self.join(pool(self.b, x, "avgpool", 3, 2, "VALID"), self.join(three, double))

    def block_c(self, x: int, c: int) -> Value:
        one = self.conv(x, 192)
        seven = self.conv(self.conv(self.conv(x, c), c, (1, 7)), 192, (7, 1))
        double = self.conv(x, c)
        for out, kernel in ((c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))):
            double = self.conv(double, out, kernel)
        return self.join(one, seven, double, self.conv(self.mean(x), 192))

    def block_d(self, x: int) -> Value:
        three = self.conv(self.conv(x, 192), 320, (3, 3), 2, "VALID")
        seven = self.conv(self.conv(self.conv(x, 192), 192, (1, 7)), 192, (7, 1))
        seven = self.conv(seven, 192, (3, 3), 2, "VALID")
        largest = pool(self.b, x, "maxpool", 3, 2, "VALID")
        return self.b.op("concat", three, seven, largest, axis=-3)

    def block_e(self, x: int) -> Value:
        def fork(value: int) -> Value:
            return self.join(self.conv(value, 384, (1, 3)), self.conv(value, 384, (3, 1)))

        one = self.conv(x, 320)
        three = fork(self.conv(x, 384))
        double = fork(self.conv(self.conv(x, 448), 384, (3, 3)))
        last = self.conv(pool(self.b, x, "maxpool", 3, 1), 192)
        return self.b.op("concat", one, three, double, last, axis=-3)


def squeezenet(image: int = 224) -> Graph:
    """Return SqueezeNet 1.1 without biases, as in the published file; relus are separate operators."""
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


def _fire(b: GraphBuilder, x: int, squeeze: int, expand: int) -> Value:
    s = b.op("relu", conv(b, x, squeeze))
    one = b.op("relu", conv(b, s, expand))
    three = b.op("relu", conv(b, s, expand, (3, 3)))
    return b.op("concat", one, three, axis=-3)


def vgg19(image: int = 224, width: float = 1.0) -> Graph:
    """Return VGG-19 without biases, as in the published file; its classifier multiplies by transposed weights."""
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


#: Expansion, output channels, repeats, stride of the first block; the 64-channel stage keeps its resolution.
_INVERTED_RESIDUALS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 1), (6, 96, 3, 2), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip

#: Output channels and stride of the thirteen separable blocks of MobileNet-v1 (arXiv 1704.04861, table 1).
_SEPARABLE_BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenetv1(image: int = 224) -> Graph:
    """Return MobileNet-v1 with its batch normalisations folded: 27 convolutions and the classifier."""
    b = GraphBuilder("mobilenetv1")

    def step(x: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Value:
        y = conv(b, x, out, (kernel, kernel), stride, groups=groups)
        return b.op("relu", b.op("add", y, b.weight((1, out, 1, 1))))

    x = step(b.input("x", (1, 3, image, image)), 32, 3, 2)
    for out, stride in _SEPARABLE_BLOCKS:
        channels = b.type(x).shape[1]
        x = step(step(x, channels, 3, stride, channels), out, 1)
    size = b.type(x).shape[2]
    row = b.op("reshape", pool(b, x, "avgpool", size, size, "VALID"), shape=(1, 1024))
    return b.graph({"y": b.op("add", b.op("matmul", row, b.weight((1024, 1000))), b.weight((1000,)))})


def mobilenetv2(image: int = 224) -> Graph:
    """Return MobileNet-v2 with its batch normalisations, as in the published file: relu instead of relu6."""
    b = GraphBuilder("mobilenetv2")
    x = _normed(b, b.input("x", (1, 3, image, image)), 32, 3, 2)
    for expansion, out, repeats, first in _INVERTED_RESIDUALS:
        for block in range(repeats):
            x = _inverted_residual(b, x, expansion, out, 1 if block else first)
    x = _normed(b, x, 1280, 1)
    size = b.type(x).shape[2]
    x = conv(b, pool(b, x, "avgpool", size, size, "VALID"), 1000)
    return b.graph({"y": b.op("reshape", x, shape=(1, 1000))})


def _normed(
    b: GraphBuilder, x: int, out: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> Value:
    y = conv(b, x, out, (kernel, kernel), stride, groups=groups)
    scale, bias, mean = (b.weight((out,)) for _ in range(3))
    # The variance is a squared weight, because it must be positive.
    deviation = b.weight((out,))
    y = b.op("batchnorm", y, scale, bias, mean, b.op("mul", deviation, deviation))
    return b.op("relu", y) if relu else y


def _inverted_residual(b: GraphBuilder, x: int, expansion: int, out: int, stride: int) -> Value:
    channels = b.type(x).shape[1]
    wide = channels * expansion
    y = _normed(b, x, wide, 1)
    y = _normed(b, y, wide, 3, stride, groups=wide)
    y = _normed(b, y, out, 1, relu=False)
    return b.op("add", y, x) if stride == 1 and channels == out else y


def nasneta(image: int = 224, channels: int = 128, stages: int = 3, cells: int = 5) -> Graph:
    """Return NasNet-A as TASO and Tensat published it: a stem, then stages of normal cells and a reduction.

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


def _fit(b: GraphBuilder, current: int, value: int) -> Value:
    channels, height = b.type(current).shape[1:3]
    if b.type(value).shape[2] == height:
        return conv(b, value, channels, act="relu")
    return conv(b, value, channels, (3, 3), 2, act="relu")


def _separable(b: GraphBuilder, x: int, channels: int, kernel: int, stride: int = 1) -> Value:
    depthwise = conv(b, x, channels, (kernel, kernel), stride, groups=channels)
    return conv(b, depthwise, channels)


def _normal(b: GraphBuilder, previous: int, current: int, channels: int) -> Value:
    current = conv(b, current, channels, act="relu")
    previous = _fit(b, current, previous)

    def sep(value: int) -> Value:
        return _separable(b, value, channels, 3)

    def mean(value: int) -> Value:
        return pool(b, value, "avgpool", 3, 1)

    pairs = [
        (sep(current), current),
        (sep(previous), sep(current)),
        (mean(current), previous),
        (mean(previous), mean(previous)),
        (sep(previous), sep(previous)),
    ]
    return b.op("concat", *(b.op("add", x, y) for x, y in pairs), axis=-3)


def _reduction(b: GraphBuilder, previous: int, current: int, channels: int) -> Value:
    current = conv(b, current, channels, act="relu")
    previous = _fit(b, current, previous)

    def sep(value: int, kernel: int, stride: int = 2) -> Value:
        return _separable(b, value, channels, kernel, stride)

    def largest(value: int) -> Value:
        return pool(b, value, "maxpool", 3, 2)

    first = b.op("add", sep(previous, 7), sep(current, 5))
    second = b.op("add", largest(current), sep(previous, 7))
    third = b.op("add", pool(b, current, "avgpool", 3, 2), sep(previous, 5))
    fourth = b.op("add", largest(current), sep(first, 3, 1))
    fifth = b.op("add", pool(b, first, "avgpool", 3, 1), second)
    return b.op("concat", first, second, third, fourth, fifth, axis=-3)
