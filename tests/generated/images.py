"""Families of models on images and signals: windows, pads, crops, resizes and skips of symbolic sizes."""

import numpy as np

from tests.generated.blocks import batch_norm, conv, image, linear, neutral


def picture(d, channels=3, height="height", width="width", batch="batch"):
    """Return an input [batch, channels, height, width] after a few blocks; a width may be fixed."""
    wide = d.pick(width, width, 16)
    x = d.input("x", [batch, channels, height, wide])
    for symbol in (height, wide):
        if isinstance(symbol, str):
            d.near(symbol, 16, 24)
            d.largest[symbol] = (33, 50)
    d.largest[batch] = (4, 6)
    return image(d, x, channels) if d.chance(0.7) else x


def signal(d, channels=4, length="length", batch="batch"):
    """Return an input [batch, channels, length] after a few blocks."""
    x = d.input("x", [batch, channels, length])
    d.near(length, 16)
    d.largest[batch] = (4, 7)
    return image(d, x, channels, rank=1) if d.chance(0.6) else x


def closing(d, x, channels, rank=2):
    """Add the last blocks, perhaps a head, and make the value an output."""
    y = image(d, x, channels, rank) if d.chance(0.8) else x
    form = d.pick("none", "none", "pool", "flat")
    if form == "pool":
        y = d.node("GlobalAveragePool", y)
        y = linear(d, d.node("Flatten", y, axis=1), channels, 6)
    elif form == "flat":
        s = d.size(y, 0)
        y = d.node("Transpose", d.node("Reshape", y, d.join(s, channels, -1)), perm=[0, 2, 1])
        y = linear(d, y, channels, 6)
    d.output(y)


def tail(d, x, gaps, rank=2):
    """Pad the ends of the last axes by computed numbers."""
    zeros = [d.ints(*[0] * (2 + rank)), d.ints(0, 0), *map(d.vector, gaps)]
    more = [d.float(d.pick(0, 0.5))] if d.chance() else []
    mode = {"mode": d.pick("constant", "constant", "edge")} if not more else {}
    return d.node("Pad", x, d.node("Concat", *zeros, axis=0), *more, **mode)


def gap_to(d, n, m):
    """Return how much is missing to a multiple of m: by the remainder, or by a ceiling division."""
    if d.chance():
        if d.chance():
            return d.node("Mod", d.node("Neg", n), d.int(m))
        missing = d.node("Sub", d.int(m), d.node("Mod", n, d.int(m)))
        return d.node("Mod", missing, d.int(m))
    up = d.node("Div", d.node("Add", n, d.int(m - 1)), d.int(m))
    return d.node("Sub", d.node("Mul", up, d.int(m)), n)


def padded_multiple(d):
    """An image or a signal is padded to a multiple, cut into windows or halved, and perhaps cropped back."""
    m = d.pick(2, 3, 4, 8)
    if d.chance():
        x = signal(d, 4)
        d.near("length", m, 3 * m)
        n = d.size(x, 2)
        y = tail(d, x, [gap_to(d, n, m)], 1)
        form = d.pick("windows", "conv", "crop")
        if form == "windows":
            y = d.node("Reshape", y, d.join(0, 4, -1, m))
            y = d.mean(y, -1, keepdims=0)
        elif form == "conv":
            y = conv(d, y, 4, 4, m, rank=1, strides=[m])
        else:
            y = d.slice(image(d, y, 4, 1), 0, n, 2)
        return closing(d, y, 4, 1)
    x = picture(d, 3)
    d.near("height", m, 3 * m)
    h, w = d.size(x, 2), d.size(x, 3)
    y = tail(d, x, [gap_to(d, h, m), gap_to(d, w, m)])
    form = d.pick("halve", "windows", "crop")
    if form == "halve":
        y = conv(d, y, 3, 3, m, strides=[m, m])
    elif form == "windows":
        h, w = d.size(y, 2), d.size(y, 3)
        parts = [d.node("Div", e, d.int(m)) for e in (h, w)]
        y = d.node("Reshape", y, d.join(d.size(y, 0), 3, parts[0], m, parts[1], m))
        y = d.node("Transpose", y, perm=[0, 2, 4, 1, 3, 5])
        y = d.node("Reshape", y, d.join(-1, 3, m, m))
    else:
        y = d.slice(d.slice(image(d, y, 3), 0, h, 2), 0, w, 3)
    return closing(d, y, 3)


def cropped(d):
    """A crop by a difference of sizes, or of the centre."""
    x = picture(d, 3)
    h, w = d.size(x, 2), d.size(x, 3)
    k = d.pick(2, 3, 7, 16)
    d.near("height", k, 2 * k)
    form = d.pick("centre", "difference", "border", "other")
    if form == "centre":
        for axis, n in ((2, h), (3, w)):
            begin = d.node("Div", d.node("Sub", n, d.int(k)), d.int(2))
            x = d.slice(x, begin, d.node("Add", begin, d.int(k)), axis)
    elif form == "border":
        x = d.slice(d.slice(x, 1, -1, 2), 1, -1, 3)
    elif form == "difference":
        y = conv(d, x, 3, 3, 3)
        for axis, n in ((2, h), (3, w)):
            gap = d.node("Div", d.node("Sub", n, d.size(y, axis)), d.int(2))
            x = d.slice(x, gap, d.node("Sub", n, gap), axis)
        x = d.node("Add", x, y)
    else:
        z = d.input("z", ["batch", 3, "other", d.inputs["x"][0][3]])
        d.near("other", 16)
        d.largest["other"] = (33, 50)
        n = d.size(z, 2)
        x = d.slice(x, 0, n, 2)
        x = d.node("Concat", x, d.slice(z, 0, h, 2), axis=1)
        return closing(d, x, 6)
    return closing(d, x, 3)


def windows(d):
    """Strided convolutions and pools in a row, of which the length is rounded down or up."""
    channels = 4
    rank = d.pick(1, 1, 2)
    x = signal(d, channels) if rank == 1 else picture(d, channels)
    for _ in range(d.number(1, 3)):
        kernel, stride = d.number(1, 5), d.pick(1, 2, 2, 3, 4)
        symbol = "length" if rank == 1 else "height"
        d.near(symbol, kernel, kernel + stride)
        both = {"strides": [stride] * rank}
        if d.chance():
            before, after = d.number(0, kernel // 2), d.number(0, kernel // 2)
            both["pads"] = [before] * rank + [after] * rank
        kind = d.pick("conv", "conv", "max", "average")
        if kind == "conv":
            if d.chance(0.25) and kernel > 1:
                both["dilations"] = [2] * rank
            x = conv(d, x, channels, channels, kernel, rank=rank, **both)
            x = d.node(d.pick("Relu", "Tanh"), x) if d.chance(0.6) else x
        else:
            op = {"max": "MaxPool", "average": "AveragePool"}[kind]
            ceil = {"ceil_mode": 1} if d.chance(0.4) else {}
            x = d.node(op, x, kernel_shape=[kernel] * rank, **both, **ceil)
    if d.chance(0.4):  # the mean, by the computed length
        axes = list(range(2, 2 + rank))
        total = d.sum(x, *axes)
        n = d.size(x, 2)
        n = n if rank == 1 else d.node("Mul", n, d.size(x, 3))
        x = d.node("Div", total, d.cast(n))
    closing(d, x, channels, rank)


def same_padding(d):
    """Convolutions and pools that pad to keep the size over the stride, at the end or at the beginning."""
    channels = 3
    x = picture(d, channels)
    for turn in range(d.number(1, 3)):
        kernel, stride = d.number(2, 5), d.pick(1, 2, 2, 3, 4)
        d.near("height", stride, 3 * stride + 1)
        if turn == 0 and d.chance(0.3):
            x = conv(d, x, channels, channels, 2, strides=[2, 2])
            continue
        auto = d.pick("SAME_UPPER", "SAME_UPPER", "SAME_LOWER")
        more = {"auto_pad": auto, "strides": [stride, stride]}
        kind = d.pick("conv", "conv", "max", "average")
        if kind == "conv":
            x = conv(d, x, channels, channels, kernel, **more)
            x = batch_norm(d, x, channels) if d.chance() else x
        else:
            op = {"max": "MaxPool", "average": "AveragePool"}[kind]
            x = d.node(op, x, kernel_shape=[kernel, kernel], **more)
    closing(d, x, channels)


def resized(d):
    """A resize by a factor, or to the size of another value, after a padded stride."""
    channels = 3
    x = picture(d, channels)
    y = conv(d, x, channels, channels, 3, strides=[2, 2], pads=[1, 1, 1, 1]) if d.chance(0.7) else x
    y = d.node("Relu", y) if d.chance() else y
    form = d.pick("scale", "scale", "sizes", "twice")
    how = d.pick(
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "nearest"},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    )
    if form in ("scale", "twice"):
        scale = d.pick(1.5, 0.5, 2.0, 3.0) if form == "scale" else 2.0
        y = d.node("Resize", y, "", vector(d, 1, 1, scale, scale), **how)
        if form == "twice":
            y = d.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    else:
        sizes = d.node(
            "Concat",
            d.vector(d.size(y, 0)),
            d.ints(channels),
            d.vector(d.size(x, 2)),
            d.vector(d.size(x, 3)),
            axis=0,
        )
        y = d.node("Resize", y, "", "", sizes, **how)
        y = d.node("Add", x, y)
    d.near("height", 3)
    closing(d, y, channels)


def vector(d, *numbers):
    return d.weight(np.array(numbers, np.float32))


def unet(d):
    """Maps halved and doubled once or twice; the skip is cut, or the map padded or resized to it."""
    channels = 3
    x = picture(d, channels)
    levels, skips = d.number(1, 2), []
    y = x
    for _ in range(levels):
        skips.append(y)
        down = d.pick("max", "average", "conv", "padded")
        if down == "conv":
            y = conv(d, y, channels, channels, 2, strides=[2, 2])
        elif down == "padded":
            y = conv(d, y, channels, channels, 3, strides=[2, 2], pads=[1, 1, 1, 1])
        else:
            y = d.node("MaxPool" if down == "max" else "AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
        y = image(d, y, channels) if d.chance() else y
    d.near("height", 4, 16)
    form = d.pick("pad", "cut", "least", "resize", "half", "valid")
    for skip in reversed(skips):
        if form == "resize":
            sizes = d.node(
                "Concat",
                d.slice(d.node("Shape", y), 0, 2, 0),
                d.slice(d.node("Shape", skip), 2, 4, 0),
                axis=0,
            )
            y = d.node("Resize", y, "", "", sizes, mode="nearest")
        else:
            y = d.node(
                "Resize",
                y,
                "",
                vector(d, 1, 1, 2, 2),
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        if form == "pad":
            gaps = [d.node("Sub", d.size(skip, a), d.size(y, a)) for a in (2, 3)]
            y = d.node("Pad", y, d.node("Concat", d.ints(0, 0, 0, 0, 0, 0), *map(d.vector, gaps), axis=0))
        elif form == "half":
            gaps = [d.node("Sub", d.size(skip, a), d.size(y, a)) for a in (2, 3)]
            halves = [d.node("Div", g, d.int(2)) for g in gaps]
            rest = [d.node("Sub", g, h) for g, h in zip(gaps, halves, strict=True)]
            y = d.node(
                "Pad",
                y,
                d.node(
                    "Concat", d.ints(0, 0), *map(d.vector, halves), d.ints(0, 0), *map(d.vector, rest), axis=0
                ),
            )
        elif form == "cut":
            for axis in (2, 3):
                skip = d.slice(skip, 0, d.size(y, axis), axis)
        elif form == "least":
            for axis in (2, 3):
                n = d.node("Min", d.size(y, axis), d.size(skip, axis))
                y, skip = d.slice(y, 0, n, axis), d.slice(skip, 0, n, axis)
        if d.chance():
            y = d.node("Add", y, skip)
        else:
            y = conv(d, d.node("Concat", skip, y, axis=1), 2 * channels, channels, 1)
        y = image(d, y, channels) if d.chance() else y
    closing(d, y, channels)


def conv_block(d):
    """Convolutions with normalisation and a residual, at a dynamic batch, height or width."""
    channels = 4
    shape = d.pick(
        ["batch", channels, 12, 12], ["batch", channels, "height", "width"], [1, channels, "height", 12]
    )
    x = d.input("x", shape)
    for s in shape:
        if isinstance(s, str) and s != "batch":
            d.largest[s] = (33, 40)
    y = x
    for _ in range(d.number(1, 2)):
        z = conv(d, y, channels, channels, 3, pads=[1, 1, 1, 1], **({"group": 1} if d.chance() else {}))
        z = batch_norm(d, z, channels)
        z = d.node("Relu", z) if d.chance() else neutral(d, z)
        y = d.node("Add", z, y) if d.chance(0.7) else z
    form = d.pick("flat", "pool", "map", "gate")
    if form == "flat" and "height" not in shape:
        y = d.node(*d.pick(("Flatten", y), ("Reshape", y, d.join(d.size(y, 0), -1))))
        return d.output(linear(d, y, channels * 144, 5))
    if form == "gate":
        g = d.node("GlobalAveragePool", y)
        y = d.node("Mul", y, d.node("Sigmoid", conv(d, g, channels, channels, 1)))
    return closing(d, y, channels)


def signal_encoder(d):
    """A speech encoder: strided convolutions, then a transformer's block over the frames."""
    channels = 8
    x = d.input("x", ["batch", d.pick("samples", "length")])
    symbol = d.inputs["x"][0][1]
    d.largest["batch"] = (3, 4)
    y = d.node("Unsqueeze", x, d.ints(1))
    given = 1
    for _ in range(d.number(1, 3)):
        kernel, stride = d.number(2, 10), d.number(2, 5)
        d.near(symbol, kernel, kernel + stride)
        y = conv(d, y, given, channels, kernel, rank=1, strides=[stride])
        y = d.node("Relu", y) if d.chance() else y
        given = channels
    d.largest[symbol] = (97, 128, 161, 200, 257, 322, 400, 401)
    y = d.node("Transpose", y, perm=[0, 2, 1])
    y = linear(d, y, channels)
    form = d.pick("frames", "attend", "mask", "pad")
    if form == "attend":
        scores = d.node("MatMul", y, d.node("Transpose", y, perm=[0, 2, 1]))
        y = d.node("MatMul", d.node("Softmax", scores, axis=-1), y)
    elif form == "mask":
        r = d.node("Range", d.int(0), d.size(y, 1), d.int(1))
        y = d.node("Mul", y, d.node("Unsqueeze", d.cast(d.node("Less", r, d.int(5))), d.ints(0, 2)))
    elif form == "pad":
        m = d.pick(2, 4)
        gap = gap_to(d, d.size(y, 1), m)
        y = d.node("Pad", y, d.node("Concat", d.ints(0, 0, 0, 0), d.vector(gap), d.ints(0), axis=0))
        y = d.node("Reshape", y, d.join(0, -1, m * channels))
        return d.output(linear(d, y, m * channels, 6))
    return d.output(linear(d, y, channels, 6))


FAMILIES = {
    f.__name__: f
    for f in (padded_multiple, cropped, windows, same_padding, resized, unet, conv_block, signal_encoder)
}
