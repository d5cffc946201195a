"""Blocks of known architectures with symbolic sizes: decoders with caches, patches, windows, encoders of signals."""

import numpy as np
from onnx import TensorProto

from tests.generated.blocks import attend, conv, heads, linear, merged, normed


def positions(d, begin, end):
    """Return the numbers from begin to end as int64."""
    return d.node("Range", begin, end, d.int(1))


def feed_forward(d, x, width):
    """Add a gated or a plain block of two products, with a residual."""
    h = normed(d, x, width)
    if d.chance():
        gate = d.node("MatMul", h, d.normal(width, 2 * width, scale=width**-0.5))
        h = d.node("Mul", swish(d, gate), linear(d, h, width, 2 * width, "Identity"))
    else:
        h = linear(d, h, width, 2 * width, "Relu")
    return d.node("Add", linear(d, h, 2 * width, width, "Identity"), x)


def causal(d, begin, total):
    """Return a mask [new, total] that hides later positions; the new ones begin after the past."""
    rows = d.node("Unsqueeze", positions(d, begin, total), d.ints(1))
    columns = d.node("Unsqueeze", positions(d, d.int(0), total), d.ints(0))
    if d.chance():
        return d.node("Where", d.node("Greater", columns, rows), d.float(-1e4), d.float(0))
    return d.node("Mul", d.cast(d.node("Less", rows, columns)), d.float(-1e4))


def turned(d, x, cos, sin, part):
    """Turn pairs of entries by an angle: rotary positions."""
    first, second = d.slice(x, 0, part // 2, 3), d.slice(x, part // 2, 2**62, 3)
    other = d.node("Concat", d.node("Neg", second), first, axis=-1)
    return d.node("Add", d.node("Mul", x, cos), d.node("Mul", other, sin))


def swish(d, x):
    return d.node("Mul", x, d.node("Sigmoid", x))


def rotary_decoder(d):
    """A decoder's layer with rotary positions, a cache and keys that several heads share."""
    width, count, part = 16, 4, 4
    shared = d.pick(1, 2, 4)
    vocabulary = 20
    ids = d.input("input_ids", ["batch", "seq"], np.int64, limit=vocabulary)
    past = [d.input(f"past_{n}", ["batch", shared, "past", part]) for n in ("key", "value")]
    d.largest |= {"seq": (33,), "past": (33, 64), "batch": (3,)}
    x = d.node("Gather", d.normal(vocabulary, width), ids, axis=0)
    h = normed(d, x, width)
    q = heads(d, linear(d, h, width, act="Identity"), width, count)
    k, v = (heads(d, linear(d, h, width, shared * part, "Identity"), shared * part, shared) for _ in range(2))
    begin = d.size(past[0], 2)
    total = d.node("Add", begin, d.size(ids, 1))
    form = d.pick("table", "frequencies", "slice")
    if form == "frequencies":
        angle = d.node(
            "Mul", d.node("Unsqueeze", d.cast(positions(d, begin, total)), d.ints(1)), d.normal(1, part // 2)
        )
        angle = d.node("Concat", angle, angle, axis=-1)
        cos, sin = d.node("Cos", angle), d.node("Sin", angle)
    else:
        extent = d.pick(48, 100)
        d.near("past", extent)
        tables = [d.normal(extent, part) for _ in range(2)]
        if form == "table":
            cos, sin = (d.node("Gather", t, positions(d, begin, total), axis=0) for t in tables)
        else:
            cos, sin = (d.slice(t, begin, total, 0) for t in tables)
    q, k = turned(d, q, cos, sin, part), turned(d, k, cos, sin, part)
    keys, values = (d.node("Concat", p, n, axis=2) for p, n in zip(past, (k, v), strict=True))
    d.output(keys, values)
    if shared < count:
        keys, values = (repeated(d, t, count // shared, shared, part) for t in (keys, values))
    mask = causal(d, begin, total) if d.chance(0.8) else None
    y = merged(d, attend(d, q, keys, values, part, mask), ids, width)
    y = feed_forward(d, d.node("Add", linear(d, y, width, act="Identity"), x), width)
    if d.chance():
        y = d.slice(y, -1, 2**62, 1)
    d.output(linear(d, normed(d, y, width), width, vocabulary, "Identity"))


def repeated(d, x, times, shared, part):
    """Repeat each head of [batch, heads, length, part]."""
    n, s = d.size(x, 0), d.size(x, 2)
    wide = d.node("Expand", d.node("Unsqueeze", x, d.ints(2)), d.join(n, shared, times, s, part))
    return d.node("Reshape", wide, d.join(n, shared * times, s, part))


def stacked_decoder(d):
    """A decoder's layer as of GPT-2: one product for all of query, key and value, and a table as the mask."""
    width, count, extent = 8, 2, d.pick(16, 64, 200)
    part = width // count
    x = d.input("x", ["batch", "seq", width])
    past = d.input("past", [2, "batch", count, "past", part])
    d.near("past", extent - 1)
    d.largest |= {"seq": (33,), "past": (33,), "batch": (3,)}
    parts = d.nodes_of(
        "Split",
        linear(d, normed(d, x, width), width, 3 * width, "Identity"),
        d.ints(*[width] * 3),
        outputs=3,
        axis=2,
    )
    q, k, v = (heads(d, p, width, count) for p in parts)
    keys, values = (
        d.node("Concat", d.node("Gather", past, d.int(i), axis=0), new, axis=2)
        for i, new in enumerate((k, v))
    )
    present = [d.node("Unsqueeze", t, d.ints(0)) for t in (keys, values)]
    d.output(d.node("Concat", *present, axis=0))
    total, new = d.size(keys, 2), d.size(q, 2)
    table = d.weight(np.tril(np.ones((1, 1, extent, extent), bool)))
    cut = d.slice(d.slice(table, d.node("Sub", total, new), total, 2), 0, total, 3)
    scores = d.node("MatMul", q, d.node("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = d.node("Where", cut, d.node("Div", scores, d.float(part**0.5)), d.float(-1e4))
    y = merged(d, d.node("MatMul", d.node("Softmax", scores, axis=-1), values), x, width)
    d.output(feed_forward(d, d.node("Add", linear(d, y, width), x), width))


def relative_attention(d):
    """Attention with biases by distance, in buckets as of T5, or falling with it."""
    width, count = 8, 2
    x = d.input("x", ["batch", "seq", width])
    d.largest |= {"seq": (33, 70), "batch": (3,)}
    s = d.size(x, 1)
    r = positions(d, d.int(0), s)
    apart = d.node("Sub", d.node("Unsqueeze", r, d.ints(0)), d.node("Unsqueeze", r, d.ints(1)))
    form = d.pick("buckets", "clipped", "slope")
    if form == "slope":
        slopes = d.weight(np.array([0.5, 0.25], np.float32).reshape(1, count, 1, 1))
        bias = d.node("Mul", d.cast(d.node("Neg", d.node("Abs", apart))), slopes)
    else:
        most = d.pick(3, 8)
        d.near("seq", most)
        if form == "clipped":
            bucket = d.node(
                "Add", d.node("Min", d.node("Max", apart, d.int(-most)), d.int(most)), d.int(most)
            )
        else:
            far = d.node("Abs", apart)
            large = d.node(
                "Add",
                d.cast(d.node("Log", d.node("Add", d.cast(far), d.float(1))), TensorProto.INT64),
                d.int(2),
            )
            bucket = d.node(
                "Where",
                d.node("Less", far, d.int(most)),
                far,
                d.node("Min", d.node("Add", large, d.int(most)), d.int(2 * most)),
            )
        table = d.normal(2 * most + 1, count)
        bias = d.node(
            "Unsqueeze",
            d.node("Transpose", d.node("Gather", table, bucket, axis=0), perm=[2, 0, 1]),
            d.ints(0),
        )
    h = normed(d, x, width)
    q, k, v = (heads(d, linear(d, h, width, act="Identity"), width, count) for _ in range(3))
    y = merged(d, attend(d, q, k, v, width // count, bias), x, width)
    d.output(feed_forward(d, d.node("Add", linear(d, y, width), x), width))


def patches(d):
    """Patches of an image, a class token and positions that are stored, cut or resized to the grid."""
    patch, width, grid = d.pick(2, 4), 8, d.pick(3, 4)
    x = d.input("pixel_values", ["batch", 3, "height", "width"])
    for side in ("height", "width"):
        d.near(side, patch, patch * grid)
        d.largest[side] = (6 * patch, 7 * patch + 1)
    d.largest["batch"] = (3,)
    y = conv(d, x, 3, width, patch, strides=[patch, patch])
    form = d.pick("resize", "none", "cut", "resize")
    if form == "resize":
        table = d.normal(1, width, grid, grid)
        sizes = d.node("Concat", d.ints(1, width), d.vector(d.size(y, 2)), d.vector(d.size(y, 3)), axis=0)
        how = d.pick({"mode": "nearest"}, {"mode": "linear"}, {"mode": "cubic"})
        y = d.node("Add", y, d.node("Resize", table, "", "", sizes, **how))
    n = d.size(y, 0)
    if d.chance():
        y = d.node("Reshape", y, d.join(n, width, d.node("Mul", d.size(y, 2), d.size(y, 3))))
    else:
        y = d.node("Reshape", y, d.ints(0, width, -1))
    y = d.node("Transpose", y, perm=[0, 2, 1])
    if d.chance(0.7):
        y = d.node("Concat", d.node("Expand", d.normal(1, 1, width), d.join(n, 1, width)), y, axis=1)
    if form == "cut":
        y = d.node("Add", y, d.slice(d.normal(60, width), 0, d.size(y, 1), 0))
    h = normed(d, y, width)
    q, k, v = (heads(d, linear(d, h, width, act="Identity"), width, 2) for _ in range(3))
    y = d.node("Add", merged(d, attend(d, q, k, v, width // 2), y, width), y)
    y = feed_forward(d, y, width)
    d.output(linear(d, d.node("Gather", y, d.int(0), axis=1), width, 5) if d.chance() else y)


def shifted_windows(d):
    """Attention in windows of an image padded to a multiple of them, rolled, and cropped back (Swin)."""
    window, width = d.pick(2, 3, 4), 8
    x = d.input("x", ["batch", "height", "width", width])
    for side in ("height", "width"):
        d.near(side, window, 2 * window)
        d.largest[side] = (3 * window, 14)
    d.largest["batch"] = (3,)
    h, w = d.size(x, 1), d.size(x, 2)
    y = normed(d, x, width)
    missing = [
        d.node("Mod", d.node("Sub", d.int(window), d.node("Mod", n, d.int(window))), d.int(window))
        for n in (h, w)
    ]
    zeros = [d.ints(0, 0, 0, 0, 0), *map(d.vector, missing), d.ints(0)]
    y = d.node("Pad", y, d.node("Concat", *zeros, axis=0))
    shift = d.pick(0, 1)
    y = rolled(d, rolled(d, y, shift, 1), shift, 2)
    n, high, wide = (d.size(y, a) for a in (0, 1, 2))
    rows, columns = d.node("Div", high, d.int(window)), d.node("Div", wide, d.int(window))
    y = d.node("Reshape", y, d.join(n, rows, window, columns, window, width))
    y = d.node("Reshape", d.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), d.ints(-1, window * window, width))
    q, k, v = (linear(d, y, width, act="Identity") for _ in range(3))
    scores = d.node(
        "Add", d.node("MatMul", q, d.node("Transpose", k, perm=[0, 2, 1])), d.normal(window**2, window**2)
    )
    y = d.node("MatMul", d.node("Softmax", scores, axis=-1), v)
    y = d.node("Reshape", y, d.join(n, rows, columns, window, window, width))
    y = d.node("Reshape", d.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), d.join(n, high, wide, width))
    y = rolled(d, rolled(d, y, -shift, 1), -shift, 2)
    y = d.slice(d.slice(y, 0, h, 1), 0, w, 2)
    d.output(feed_forward(d, d.node("Add", y, x), width))


def rolled(d, x, shift, axis):
    """Roll an axis by a shift, as exporters write it."""
    if not shift:
        return x
    return d.node("Concat", d.slice(x, shift, 2**62, axis), d.slice(x, 0, shift, axis), axis=axis)


def group_norm(d, x, channels, groups, rank):
    """Normalise groups of channels, as exporters write it."""
    whole = d.node("Shape", x)
    form = d.pick("zeros", "computed")
    shape = d.ints(0, groups, -1) if form == "zeros" else d.join(d.size(x, 0), groups, -1)
    flat = d.node("Reshape", x, shape)
    ones, none = (d.weight(np.full(groups, v, np.float32)) for v in (1, 0))
    y = d.node("Reshape", d.node("InstanceNormalization", flat, ones, none), whole)
    scale, shift = (d.normal(channels, *[1] * rank) for _ in range(2))
    return d.node("Add", d.node("Mul", y, scale), shift)


def diffusion_unet(d):
    """A step down and up with group normalisation, a transposed convolution or a resize, and a skip."""
    channels = 4
    x = d.input("sample", ["batch", channels, "height", "width"])
    for side in ("height", "width"):
        d.near(side, 4, 8)
        d.largest[side] = (16, 22)
    d.largest["batch"] = (3,)
    steps = d.input("timestep", ["batch"])
    time = linear(d, d.node("Unsqueeze", steps, d.ints(1)), 1, channels, "Relu")
    h = conv(d, swish(d, group_norm(d, x, channels, 2, 2)), channels, channels, 3, pads=[1] * 4)
    h = d.node("Add", h, d.node("Unsqueeze", time, d.ints(2, 3)))
    down = conv(d, h, channels, channels, 3, strides=[2, 2], pads=d.pick([1] * 4, [0, 0, 1, 1]))
    down = conv(d, swish(d, group_norm(d, down, channels, 2, 2)), channels, channels, 3, pads=[1] * 4)
    form = d.pick("transposed", "twice", "sizes", "shuffle")
    if form == "transposed":
        up = d.node(
            "ConvTranspose", down, d.normal(channels, channels, 2, 2), strides=[2, 2], kernel_shape=[2, 2]
        )
    elif form == "twice":
        up = d.node("Resize", down, "", d.weight(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    elif form == "sizes":
        sizes = d.node(
            "Concat", d.slice(d.node("Shape", down), 0, 2, 0), d.slice(d.node("Shape", h), 2, 4, 0), axis=0
        )
        up = d.node("Resize", down, "", "", sizes, mode="nearest")
    else:
        up = d.node("DepthToSpace", conv(d, down, channels, 4 * channels, 1), blocksize=2, mode="CRD")
    if form != "sizes" and d.chance(0.7):
        for axis in (2, 3):
            up = d.slice(up, 0, d.size(h, axis), axis)
    y = d.node("Concat", up, h, axis=1)
    d.output(conv(d, swish(d, group_norm(d, y, 2 * channels, 2, 2)), 2 * channels, channels, 3, pads=[1] * 4))


def speech_encoder(d):
    """A stack of strided convolutions, positions by a convolution of even width, and attention (wav2vec 2)."""
    width = 8
    x = d.input("input_values", ["batch", "samples"])
    d.largest |= {"samples": (100, 133, 160, 257, 400), "batch": (3,)}
    y = d.node("Unsqueeze", x, d.ints(1))
    given, reach, step = 1, 1, 1
    for kernel, stride in d.pick([(10, 5), (3, 2)], [(10, 5), (3, 2), (2, 2)], [(4, 2), (3, 3)]):
        y = conv(d, y, given, width, kernel, rank=1, strides=[stride])
        y = group_norm(d, y, width, 2, 1) if d.chance(0.3) else y
        y = d.node("Relu", y)
        given, reach, step = width, reach + (kernel - 1) * step, step * stride
    d.near("samples", reach, reach + step, reach + 5 * step)
    y = d.node("Transpose", y, perm=[0, 2, 1])
    y = normed(d, y, width)
    even = d.pick(2, 4)
    place = conv(d, d.node("Transpose", y, perm=[0, 2, 1]), width, width, even, rank=1, pads=[even // 2] * 2)
    place = d.node("Transpose", d.slice(place, 0, -1, 2), perm=[0, 2, 1])
    y = d.node("Add", y, d.node("Relu", place))
    q, k, v = (heads(d, linear(d, y, width, act="Identity"), width, 2) for _ in range(3))
    y = feed_forward(d, d.node("Add", merged(d, attend(d, q, k, v, 4), y, width), y), width)
    d.output(linear(d, y, width, 6, "Identity"))


def detection_head(d):
    """Boxes of two maps flattened and joined; the best are chosen, at most k."""
    channels, most = 4, d.pick(3, 10, 30)
    x = d.input("image", ["batch", 3, "height", "width"])
    for side in ("height", "width"):
        d.near(side, 8)
        d.largest[side] = (16, 21)
    d.largest["batch"] = (3,)
    maps, y = [], conv(d, x, 3, channels, 3, strides=[2, 2], pads=[1] * 4)
    for _ in range(2):
        maps.append(y)
        y = d.node("Relu", conv(d, y, channels, channels, 3, strides=[2, 2], pads=[1] * 4))
    flat = [d.node("Reshape", conv(d, m, channels, 6, 1), d.ints(0, 6, -1)) for m in maps]
    joined = d.node("Transpose", d.node("Concat", *flat, axis=2), perm=[0, 2, 1])
    boxes, scores = d.nodes_of("Split", joined, d.ints(4, 2), outputs=2, axis=2)
    best, _ = d.nodes_of("TopK", d.node("Sigmoid", scores), d.ints(1), outputs=2, axis=2)
    best = d.node("Squeeze", best, d.ints(2))
    count = d.node("Min", d.int(most), d.size(best, 1)) if d.chance(0.8) else d.int(3)
    values, indices = d.nodes_of("TopK", best, d.vector(count), outputs=2, axis=1)
    wide = d.node("Expand", d.node("Unsqueeze", indices, d.ints(2)), d.join(1, 1, 4))
    d.output(values, d.node("GatherElements", boxes, wide, axis=1))


def guided(d):
    """One input doubled along the batch, a network on both, and the halves taken apart and mixed."""
    width = 8
    x = d.input("x", ["batch", "seq", width])
    d.largest |= {"batch": (5, 9), "seq": (33,)}
    n = d.size(x, 0)
    y = d.node("Concat", x, d.node("Neg", x) if d.chance() else x, axis=0)
    if d.chance(0.4):
        y = d.node("Tile", x, d.ints(2, 1, 1))
    y = feed_forward(d, y, width)
    form = d.pick("chunk", "slice", "split", "reshape")
    if form == "chunk":
        half = d.node("Div", d.node("Add", d.size(y, 0), d.int(1)), d.int(2))
        a, b = d.slice(y, 0, half, 0), d.slice(y, half, d.node("Mul", half, d.int(2)), 0)
    elif form == "slice":
        a, b = d.slice(y, 0, n, 0), d.slice(y, n, 2**62, 0)
    elif form == "split":
        a, b = d.nodes_of("Split", y, d.node("Concat", d.vector(n), d.vector(n), axis=0), outputs=2, axis=0)
    else:
        pair = d.node("Reshape", y, d.join(2, n, d.size(x, 1), width))
        a, b = (d.node("Gather", pair, d.int(i), axis=0) for i in (0, 1))
    d.output(d.node("Add", a, d.node("Mul", d.node("Sub", b, a), d.float(7.5))))


FAMILIES = {
    f.__name__: f
    for f in (
        rotary_decoder, stacked_decoder, relative_attention, patches, shifted_windows, diffusion_unet,
        speech_encoder, detection_head, guided,
    )
}  # fmt: skip
