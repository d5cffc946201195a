"""Families of models on sequences: each draws one pattern of symbolic sizes inside a small network."""

import numpy as np
from onnx import TensorProto

from tests.generated.blocks import attend, heads, linear, merged, neutral, normed, rows, scaled


def tokens(d, width=8, batch="batch", length="seq", name="x"):
    """Return an input [batch, length, width] after a few blocks."""
    x = d.input(name, [batch, length, width])
    return rows(d, x, width) if d.chance(0.8) else x


def finish(d, x, width=8):
    """Add the last blocks, and make the value an output."""
    y = rows(d, x, width) if d.chance(0.85) else x
    d.output(y)
    if d.chance(0.15) and x != y and x not in d.inputs:
        d.output(x)


def compared(d, n, symbol, limit=24):
    """Return a condition on a size as a scalar of booleans."""
    k = d.number(2, limit)
    form = d.pick(
        "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "mod", "floor", "not", "both", "bool"
    )
    if form == "mod":
        k = d.pick(2, 3, 4, 8, 16)
        d.near(symbol, k, 3 * k)
        return d.node("Equal", d.node("Mod", n, d.int(k)), d.int(d.pick(0, 0, 1)))
    d.near(symbol, k)
    if form == "floor":
        d.near(symbol, 2 * k)
        return d.node("Greater", d.node("Div", n, d.int(k)), d.int(d.pick(0, 1)))
    if form == "not":
        return d.node("Not", d.node("Equal", n, d.int(k)))
    if form == "both":
        other = d.number(1, k)
        d.near(symbol, other)
        low = d.node("Greater", n, d.int(other))
        return d.node(d.pick("And", "Or"), low, d.node("Less", n, d.int(k)))
    if form == "bool":
        return d.cast(d.node("Sub", n, d.int(k)), TensorProto.BOOL)
    return d.node(form, n, d.int(k))


def condition(d):
    """A condition on a size chooses a factor, a branch or an activation."""
    x = tokens(d)
    symbol, axis = d.pick(("batch", 0), ("seq", 1), ("seq", 1))
    c = compared(d, d.size(x, axis), symbol)
    form = d.pick("where", "if", "if", "cast", "mask")
    if form == "where":
        x = d.node("Mul", x, d.node("Where", c, d.float(2), d.float(3)))
    elif form == "cast":
        x = d.node("Add", x, d.cast(c))
    elif form == "mask":
        x = d.node("Where", c, x, d.node("Relu", x))
    else:
        x = d.branches(c, lambda: linear(d, x, 8), lambda: d.node("Mul", x, d.float(0.5)))
    finish(d, x)


def clipped_size(d):
    """A size goes through Min, Max, Clip, Sign, a OneHot or a table before it is used."""
    x = tokens(d)
    symbol, axis = d.pick(("batch", 0), ("seq", 1))
    n, k = d.size(x, axis), d.number(2, 20)
    d.near(symbol, k)
    form = d.pick("Min", "Max", "clip", "sign", "onehot", "gather", "abs", "bool")
    if form in ("Min", "Max"):
        f = d.cast(d.node(form, n, d.int(k)))
    elif form == "clip":
        low = d.number(1, k)
        d.near(symbol, low)
        f = d.cast(d.node("Clip", n, d.int(low), d.int(k)))
    elif form == "sign":
        f = d.cast(d.node("Sign", d.node("Sub", n, d.int(k))))
    elif form == "onehot":
        row = d.node("OneHot", d.vector(n), d.int(k), d.weight(np.array([0, 1], np.float32)))
        f = d.sum(d.node("Mul", row, d.normal(k)), 1, keepdims=0)
        f = d.node("Add", f, d.float(1))
    elif form == "gather":
        index = d.node("Min", n, d.int(k - 1))
        f = d.node("Gather", d.normal(k), index, axis=0)
    elif form == "abs":
        f = d.cast(d.node("Abs", d.node("Sub", n, d.int(k))))
    else:
        f = d.cast(d.cast(d.node("Sub", n, d.int(k)), TensorProto.BOOL))
    finish(d, d.node(d.pick("Mul", "Add"), x, f))


def squeezed(d):
    """An axis is dropped if its size is one, as torch writes ``squeeze``."""
    x = tokens(d)
    axis, symbol = d.pick((0, "batch"), (1, "seq"), (1, "seq"))
    d.near(symbol, 1)
    c = d.node("Equal", d.size(x, axis), d.int(1))
    y = d.branches(c, lambda: d.node("Squeeze", x, d.ints(axis)), lambda: d.node("Identity", x))
    finish(d, y)


def sliced(d):
    """A slice with constant ends, of which the axis may be shorter."""
    x = tokens(d)
    axis, symbol = d.pick((0, "batch"), (1, "seq"), (1, "seq"))
    k, far = d.pick(1, 2, 3, 8, 20, 100), 2**62
    d.near(symbol, k)
    form = d.pick("head", "tail", "skip", "drop", "row", "last", "middle", "step", "reverse")
    if form == "head":
        y = d.slice(x, 0, k, axis)
    elif form == "tail":
        y = d.slice(x, -k, far, axis)
    elif form == "skip":
        y = d.slice(x, k, far, axis)
    elif form == "drop":
        y = d.slice(x, 0, -k, axis)
    elif form == "row":
        y = d.node("Gather", x, d.int(min(k, 3)), axis=axis)
    elif form == "last":
        y = d.node("Gather", x, d.int(-min(k, 3)), axis=axis)
    elif form == "middle":
        d.near(symbol, 2 * k)
        y = d.slice(x, k, d.pick(-k, 2 * k), axis)
    elif form == "step":
        y = d.slice(x, d.pick(0, 1), far, axis, d.pick(2, 3))
    else:
        y = d.slice(x, -1, -far, axis, -1)
    use = d.pick("rows", "mean", "length", "heads")
    if form in ("row", "last") or use == "rows":
        return finish(d, y)
    if use == "mean":
        return finish(d, d.sum(y, axis))
    if use == "length":
        f = d.node("Add", d.cast(d.size(y, axis)), d.float(1))
        return finish(d, d.node("Div", y, f))
    h = heads(d, y, 8, 2)
    return finish(d, merged(d, h, y, 8))


def sliced_by_size(d):
    """A slice whose ends are computed from sizes."""
    x = tokens(d)
    n, k = d.size(x, 1), d.pick(1, 2, 3, 8)
    d.near("seq", k, 2 * k)
    form = d.pick("half", "rest", "less", "min", "from", "two", "max")
    half = d.node("Div", n, d.int(2))
    if form == "half":
        y = d.slice(x, 0, half, 1)
    elif form == "rest":
        y = d.slice(x, half, n, 1)
    elif form == "less":
        y = d.slice(x, 0, d.node("Sub", n, d.int(k)), 1)
    elif form == "from":
        y = d.slice(x, d.node("Sub", n, d.int(k)), n, 1)
    elif form == "min":
        y = d.slice(x, 0, d.node("Min", n, d.int(k)), 1)
    elif form == "max":
        y = d.slice(x, d.node("Max", d.node("Sub", n, d.int(k)), d.int(0)), n, 1)
    else:
        a, b = d.slice(x, 0, half, 1), d.slice(x, half, n, 1)
        y = d.node("Concat", *d.pick((a, b), (b, a)), axis=1)
    finish(d, y)


def chunked(d):
    """A batch or a sequence is split into computed parts."""
    x = tokens(d)
    axis, symbol = d.pick((0, "batch"), (0, "batch"), (1, "seq"))
    n = d.size(x, axis)
    parts = d.pick(2, 2, 3)
    d.near(symbol, parts, 2 * parts)
    form = d.pick("chunk", "split", "halves", "fixed") if d.opset >= 18 else d.pick("chunk", "split", "fixed")
    if form == "chunk":  # torch: k = (n + parts - 1) / parts; x[:k], x[k:2k]
        k = d.node("Div", d.node("Add", n, d.int(parts - 1)), d.int(parts))
        end = d.node("Mul", k, d.int(2))
        a, b = d.slice(x, 0, k, axis), d.slice(x, k, end, axis)
    elif form == "split":
        k = d.node("Div", n, d.int(parts))
        rest = d.node("Sub", n, k)
        a, b = d.nodes_of(
            "Split", x, d.node("Concat", d.vector(k), d.vector(rest), axis=0), outputs=2, axis=axis
        )
    elif form == "halves":
        a, b = d.nodes_of("Split", x, outputs=2, axis=axis, num_outputs=2)
    else:
        k = d.pick(1, 2, 5)
        d.near(symbol, k)
        sizes = d.node("Concat", d.ints(k), d.vector(d.node("Sub", n, d.int(k))), axis=0)
        a, b = d.nodes_of("Split", x, sizes, outputs=2, axis=axis)
    use = d.pick("guide", "swap", "both")
    if use == "guide" and form in ("chunk", "halves") and parts == 2:
        y = d.node("Add", a, d.node("Mul", d.node("Sub", b, a), d.float(7.5)))
        return finish(d, y)
    if use == "both":
        d.output(linear(d, a, 8))
        return finish(d, b)
    return finish(d, d.node("Concat", scaled(d, b, 8), a, axis=axis))


def cached(d):
    """A decoder's step: new keys are appended to past ones, with positions and a mask after the past."""
    width, count = 8, 2
    x = tokens(d, width)
    part = width // count
    past = [d.input(f"past_{n}", ["batch", count, "past", part]) for n in ("key", "value")]
    d.near("past", 1, 4)
    q, k, v = (heads(d, linear(d, x, width, act="Identity"), width, count) for _ in range(3))
    keys, values = (d.node("Concat", p, n, axis=2) for p, n in zip(past, (k, v), strict=True))
    mask = None
    form = d.pick("none", "mask", "given", "table", "window")
    total = d.size(keys, 2)
    if form == "mask":
        old, new = d.size(past[0], 2), d.size(x, 1)
        rows_ = d.node("Unsqueeze", d.node("Range", old, d.node("Add", old, new), d.int(1)), d.ints(1))
        columns = d.node("Unsqueeze", d.node("Range", d.int(0), total, d.int(1)), d.ints(0))
        mask = d.node("Where", d.node("Less", rows_, columns), d.float(-1e4), d.float(0))
    elif form == "given":
        name = d.pick("total", "past + seq")
        given = d.input("mask", ["batch", name], np.int64)
        d.tie(name, "past", "seq")
        wide = d.node("Unsqueeze", d.cast(given), d.ints(1, 2))
        mask = d.node("Mul", d.node("Sub", d.float(1), wide), d.float(-1e4))
    elif form == "table":
        extent = d.pick(16, 40, 300)
        d.near("past", extent - 1)
        table = d.normal(1, 1, extent, extent)
        old = d.size(past[0], 2)
        cut = d.slice(table, old, total, 2)
        mask = d.slice(cut, 0, total, 3)
    elif form == "window":
        k = d.pick(4, 8)
        d.near("past", k)
        keys, values = d.slice(keys, -k, 2**62, 2), d.slice(values, -k, 2**62, 2)
    y = merged(d, attend(d, q, keys, values, part, mask), x, width)
    d.output(keys, values)
    finish(d, d.node("Add", linear(d, y, width), x), width)


def cut_heads(d):
    """Attention whose heads, batch or length are cut from computed sizes."""
    width, count = 12, d.pick(2, 3, 4)
    x = tokens(d, width)
    n, s = d.size(x, 0), d.size(x, 1)
    form = d.pick("flat", "product", "merge", "batchwise", "count")
    if form == "flat":
        y = linear(d, d.node("Reshape", x, d.join(-1, width)), width)
        y = d.node("Reshape", y, d.join(n, s, width))
    elif form == "product":
        y = d.node("Reshape", x, d.node("Concat", d.vector(d.node("Mul", n, s)), d.ints(width), axis=0))
    elif form == "merge":
        h = heads(d, x, width, count)
        y = d.node("Reshape", h, d.join(-1, s, width // count))
        y = d.node("MatMul", y, d.node("Transpose", y, perm=[0, 2, 1]))
        y = d.node("Softmax", y, axis=-1)
        d.output(y)
        return
    elif form == "batchwise":
        y = d.node("Reshape", x, d.join(n, -1))
        y = d.node("Reshape", d.node("Relu", y), d.join(n, s, width))
    else:
        total = d.node("Div", d.node("Size", x), d.node("Mul", n, s))
        part = d.node("Div", total, d.int(count))
        y = d.node("Reshape", x, d.join(0, 0, count, part))
        y = d.node("Transpose", y, perm=[0, 2, 1, 3])
        y = d.node("Softmax", y, axis=-1)
        y = d.node("Transpose", y, perm=[0, 2, 1, 3])
        y = d.node("Reshape", y, d.join(n, s, width))
    finish(d, y, width)


def broadcast(d):
    """Two symbols that broadcast; sometimes only a row of the sum is read."""
    width = 8
    form = d.pick("sum", "sum", "outer", "where", "expand", "max", "product")
    x = rows(d, d.input("x", ["A", width]), width)
    z = rows(d, d.input("z", ["B", width]), width)
    d.near("A", 1)
    d.near("B", 1)
    if form == "sum":
        y = d.node(d.pick("Add", "Mul", "Sub", "Max"), x, z)
    elif form == "outer":
        y = d.node("Add", d.node("Unsqueeze", x, d.ints(1)), d.node("Unsqueeze", z, d.ints(0)))
        y = d.mean(y, d.pick(0, 1), keepdims=0)
    elif form == "where":
        y = d.node("Where", d.node("Greater", x, d.float(0)), x, z)
    elif form == "expand":
        y = d.node("Add", d.node("Expand", x, d.node("Shape", z)), d.float(1))
    elif form == "max":
        n = d.node("Max", d.size(x, 0), d.size(z, 0))
        y = d.node("Expand", x, d.join(n, width))
        y = d.node("Add", y, z)
    else:
        y = d.node("MatMul", x, d.node("Transpose", z, perm=[1, 0]))
        return d.output(d.node("Softmax", y, axis=-1))
    read = d.pick("all", "all", "first", "last", "slice")
    if read == "first":
        y = d.node("Gather", y, d.int(0), axis=0)
    elif read == "last":
        y = d.node("Gather", y, d.int(-1), axis=0)
    elif read == "slice":
        y = d.slice(y, 0, 1, 0)
    return finish(d, y, width)


def least_length(d):
    """Min or Max of two lengths cuts both, or points at the last row."""
    width = 8
    x, z = tokens(d, width, length="A", name="x"), tokens(d, width, length="B", name="z")
    a, b = d.size(x, 1), d.size(z, 1)
    form = d.pick("cut", "cut", "last", "max", "const")
    if form == "cut":
        n = d.node("Min", a, b)
        y = d.node("Add", d.slice(x, 0, n, 1), d.slice(z, 0, n, 1))
    elif form == "last":
        n = d.node("Sub", d.node("Min", a, b), d.int(1))
        y = d.node("Add", d.node("Gather", x, n, axis=1), d.node("Gather", z, n, axis=1))
    elif form == "max":
        n = d.node("Max", a, b)
        zeros = d.node("Concat", d.ints(0, 0, 0, 0), d.vector(d.node("Sub", n, a)), d.ints(0), axis=0)
        y = d.node("Pad", x, zeros)
        y = d.node("Gather", y, d.node("Sub", n, d.int(1)), axis=1) if d.chance() else y
        d.output(linear(d, z, width))
    else:
        k = d.number(2, 20)
        d.near("A", k)
        n = d.node(d.pick("Min", "Max"), a, d.int(k))
        last = d.node("Sub", d.node("Min", n, a), d.int(1))
        y = d.node("Gather", x, last, axis=1)
        d.output(z)
    finish(d, y, width)


def joined_rows(d):
    """The first or last row of a join with a part that may be empty."""
    x = tokens(d)
    k = d.pick(1, 2, 4)
    d.near("seq", k, 2 * k)
    form = d.pick("tail", "drop", "half", "past")
    if form == "tail":
        part = d.slice(x, k, 2**62, 1)
    elif form == "drop":
        part = d.slice(x, 0, -k, 1)
    elif form == "half":
        part = d.slice(x, 0, d.node("Div", d.size(x, 1), d.int(2)), 1)
    else:
        part = d.input("past", ["batch", "P", 8])
    other = d.node("Neg", d.slice(x, 0, k, 1)) if d.chance() else x
    order = (part, other) if d.chance() else (other, part)
    y = d.node("Concat", *order, axis=1)
    y = rows(d, y, 8) if d.chance() else y
    read = d.pick("first", "last", "head", "end", "all")
    if read == "first":
        y = d.node("Gather", y, d.int(0), axis=1)
    elif read == "last":
        y = d.node("Gather", y, d.int(-1), axis=1)
    elif read == "head":
        y = d.slice(y, 0, 1, 1)
    elif read == "end":
        y = d.slice(y, -1, 2**62, 1)
    finish(d, y)


def tables(d):
    """A stored table or mask is cut to the size of the input, and may be shorter than a usual size."""
    width = 8
    extent = d.pick(5, 12, 30, 100, 300)
    length = d.pick("seq", "sequence_length", "S")
    x = tokens(d, width, length=length)
    s = d.size(x, 1)
    d.near(length, extent)
    form = d.pick("slice", "gather", "mask", "cut", "ids", "offset")
    if form == "slice":
        y = d.node("Add", x, d.slice(d.normal(extent, width), 0, s, 0))
    elif form == "gather":
        y = d.node(
            "Add",
            x,
            d.node("Gather", d.normal(extent, width), d.node("Range", d.int(0), s, d.int(1)), axis=0),
        )
    elif form == "mask":
        table = d.weight(np.tril(np.ones((extent, extent), np.float32))[None])
        cut = d.slice(d.slice(table, 0, s, 1), 0, s, 2)
        scores = d.node("MatMul", x, d.node("Transpose", x, perm=[0, 2, 1]))
        chosen = d.node("Where", d.cast(cut, TensorProto.BOOL), scores, d.float(-1e4))
        y = d.node("MatMul", d.node("Softmax", chosen, axis=-1), x)
    elif form == "cut":
        y = d.node("Add", d.slice(x, 0, extent, 1), d.slice(d.normal(extent, width), 0, s, 0))
    elif form == "ids":
        stored = d.weight(np.arange(extent, dtype=np.int64)[None])
        ids = d.slice(stored, 0, s, 1)
        y = d.node("Add", x, d.node("Gather", d.normal(extent, width), ids, axis=0))
    else:
        k = d.pick(1, 2)
        d.near(length, extent - k)
        y = d.node("Add", x, d.slice(d.normal(extent, width), k, d.node("Add", s, d.int(k)), 0))
    finish(d, y, width)


def largest(d):
    """TopK by a computed number of entries."""
    x = tokens(d)
    n, k = d.size(x, 1), d.pick(1, 2, 5, 12)
    d.near("seq", k, 2 * k)
    form = d.pick("min", "half", "less", "const", "all")
    if form == "min":
        count = d.node("Min", n, d.int(k))
    elif form == "half":
        count = d.node("Div", d.node("Add", n, d.int(1)), d.int(2))
    elif form == "less":
        count = d.node("Sub", n, d.int(k))
    elif form == "const":
        count = d.int(k)
    else:
        count = n
    values, indices = d.nodes_of("TopK", x, d.vector(count), outputs=2, axis=1)
    if d.chance(0.3):
        d.output(indices)
    if d.chance(0.3):
        values = d.node("GatherElements", x, indices, axis=1)
    finish(d, values)


def sometimes_named(d):
    """An output's dimension has the name of an input's, with which it agrees only sometimes."""
    x = tokens(d)
    form = d.pick("max", "half", "pad", "min", "slice", "other")
    n = d.size(x, 1)
    if form == "max":
        k = d.pick(4, 10)
        d.near("seq", k)
        gap = d.node("Max", d.node("Sub", d.int(k), n), d.int(0))
        y = d.node("Pad", x, d.node("Concat", d.ints(0, 0, 0, 0), d.vector(gap), d.ints(0), axis=0))
    elif form == "half":
        half = d.node("Div", d.node("Add", n, d.int(1)), d.int(2))
        y = d.slice(x, 0, half, 1)
    elif form == "pad":
        m = d.pick(2, 4)
        d.near("seq", m)
        gap = d.node("Mod", d.node("Neg", n), d.int(m))
        y = d.node("Pad", x, d.node("Concat", d.ints(0, 0, 0, 0), d.vector(gap), d.ints(0), axis=0))
    elif form == "min":
        k = d.pick(4, 10)
        d.near("seq", k)
        y = d.slice(x, 0, k, 1)
    elif form == "slice":
        y = d.slice(x, 0, n, 0)
        d.near("seq", 2)
        d.named["last"] = {0: "batch", 1: "seq"}
    else:
        z = d.input("z", ["batch", "other", 8])
        y = d.node("Concat", x, z, axis=1)
        d.near("other", 1)
    y = rows(d, y, 8)
    d.named[y] = {0: "batch", 1: "seq"}
    d.output(y)


def neutral_sizes(d):
    """Neutral elements that are computed from sizes: n / n, n − n, pads of zero, a slice of all."""
    x = tokens(d)
    n = d.size(x, 1)
    for _ in range(d.number(1, 3)):
        form = d.pick("zero", "one", "pad", "slice", "expand", "reshape", "tile", "plain", "zeros")
        if form == "zero":
            x = d.node("Add", x, d.cast(d.node(d.pick("Sub", "Mod"), n, n)))
        elif form == "one":
            x = d.node(d.pick("Mul", "Div"), x, d.cast(d.node("Div", n, n)))
        elif form == "pad":
            gap = d.node("Sub", n, d.size(x, 1))
            x = d.node("Pad", x, d.node("Concat", d.ints(0, 0, 0, 0), d.vector(gap), d.ints(0), axis=0))
        elif form == "slice":
            x = d.slice(x, 0, n, 1)
        elif form == "expand":
            x = d.node("Expand", x, d.node("Shape", x))
        elif form == "reshape":
            x = d.node("Reshape", x, d.node("Shape", x))
        elif form == "tile":
            x = d.node(
                "Tile", x, d.node("Concat", d.ints(1), d.vector(d.node("Div", n, n)), d.ints(1), axis=0)
            )
        elif form == "zeros":
            x = d.node("Add", x, d.node("ConstantOfShape", d.node("Shape", x)))
        else:
            x = neutral(d, x, 8)
        x = linear(d, x, 8) if d.chance() else x
    finish(d, x)


def attention(d):
    """A block of attention with dynamic batch and length, and perhaps a causal or padding mask."""
    width, count = 16, d.pick(2, 4)
    x = tokens(d, width)
    h = normed(d, x, width) if d.chance() else x
    q, k, v = (heads(d, linear(d, h, width, act="Identity"), width, count) for _ in range(3))
    s, mask = d.size(x, 1), None
    form = d.pick("none", "causal", "padding", "trilu", "bias")
    if form == "causal":
        r = d.node("Range", d.int(0), s, d.int(1))
        over = d.node("Less", d.node("Unsqueeze", r, d.ints(1)), d.node("Unsqueeze", r, d.ints(0)))
        mask = d.node("Mul", d.cast(over), d.float(-1e4))
    elif form == "trilu" and d.opset >= 14:
        shape = d.node("Concat", d.vector(s), d.vector(s), axis=0)
        ones = d.node("Expand", d.float(-1e4), shape)
        mask = d.node("Trilu", ones, d.int(1), upper=1)
    elif form == "padding":
        given = d.input("attention_mask", ["batch", "seq"], np.int64)
        wide = d.node("Unsqueeze", d.cast(given), d.ints(1, 2))
        mask = d.node("Mul", d.node("Sub", d.float(1), wide), d.float(-1e4))
    elif form == "bias":
        mask = d.input("bias", [1, count, "seq", "seq"])
    y = merged(d, attend(d, q, k, v, width // count, mask), x, width)
    y = d.node("Add", linear(d, y, width, act="Identity"), x)
    y = d.node("Add", linear(d, linear(d, y, width, 32, "Relu"), 32, width, "Identity"), y)
    if d.chance(0.4):
        y = d.node("Gather", y, d.int(d.pick(0, -1)), axis=1)
    finish(d, y, width)


def embedding(d):
    """Tokens are looked up, positions added, the result normalised and perhaps pooled."""
    width, vocabulary = 8, d.pick(11, 50)
    ids = d.input("input_ids", ["batch", "sequence"], np.int64, limit=vocabulary)
    x = d.node("Gather", d.normal(vocabulary, width), ids, axis=0)
    extent = d.pick(10, 64, 300)
    d.near("sequence", extent)
    s = d.size(ids, 1)
    form = d.pick("range", "cumsum", "mask", "slice", "none")
    table = d.normal(extent, width)
    if form == "range":
        x = d.node("Add", x, d.node("Gather", table, d.node("Range", d.int(0), s, d.int(1)), axis=0))
    elif form == "cumsum":
        real = d.cast(d.node("Not", d.node("Equal", ids, d.int(0))), TensorProto.INT64)
        places = d.node("Mul", d.node("CumSum", real, d.int(1)), real)
        x = d.node("Add", x, d.node("Gather", table, places, axis=0))
    elif form == "slice":
        x = d.node("Add", x, d.slice(table, 0, s, 0))
    elif form == "mask":
        mask = d.node("Unsqueeze", d.cast(d.node("Greater", ids, d.int(0))), d.ints(2))
        x = d.node("Mul", x, mask)
    x = rows(d, normed(d, x, width), width)
    pool = d.pick("none", "mean", "first", "last", "length")
    if pool == "mean":
        x = d.mean(x, 1, keepdims=0)
    elif pool == "length":
        x = d.node("Div", d.sum(x, 1, keepdims=0), d.cast(s))
    elif pool != "none":
        x = d.node("Gather", x, d.int(0 if pool == "first" else -1), axis=1)
    finish(d, x, width)


def guessed(d):
    """Names from which a size is guessed, in models that take other sizes only."""
    width = 8
    length = d.pick("sequence_length", "time", "height", "batch_size", "num_frames", "N")
    batch = d.pick("batch", "batch_size", "n", "B") if length != "batch_size" else "b"
    x = tokens(d, width, batch=batch, length=length)
    form = d.pick("multiple", "least", "square", "most", "batch")
    if form == "multiple":
        m = d.pick(3, 5, 6, 7)
        d.near(length, m, 3 * m)
        y = d.node("Reshape", x, d.join(0, -1, m * width))
        return finish(d, y, m * width)
    if form == "batch":
        m = d.pick(2, 3, 5)
        d.near(batch, m, 3 * m)
        y = d.node("Reshape", x, d.join(-1, m, d.size(x, 1), width))
        return finish(d, d.mean(y, 1, keepdims=0), width)
    k = d.pick(3, 40, 150, 240)
    d.near(length, k)
    if form == "least":
        y = d.node("Gather", x, d.int(k), axis=1)
    elif form == "most":
        y = d.node("Add", x, d.slice(d.normal(k, width), 0, d.size(x, 1), 0))
    else:
        y = d.node("MatMul", x, d.node("Transpose", x, perm=[0, 2, 1]))
        y = d.node("MatMul", d.node("Softmax", y, axis=-1), x)
    return finish(d, y, width)


def made_from_sizes(d):
    """Values made from sizes: ranges, tiles, constants of a shape, means by a length, diagonals."""
    x = tokens(d)
    n, s = d.size(x, 0), d.size(x, 1)
    form = d.pick("range", "tile", "fill", "mean", "root", "eye", "cumsum", "scatter", "token")
    if form == "range":
        r = d.node("Div", d.cast(d.node("Range", d.int(0), s, d.int(1))), d.cast(s))
        y = d.node("Add", x, d.node("Unsqueeze", r, d.ints(0, 2)))
    elif form == "tile":
        y = d.node("Tile", d.normal(1, 1, 8), d.join(n, s, 1))
        y = d.node("Add", y, x)
    elif form == "fill":
        y = d.node("Expand", d.normal(1, 1, 8), d.join(n, d.node("Add", s, d.int(1)), 8))
        y = d.node("Concat", y, x, axis=1)
    elif form == "mean":
        y = d.node("Div", d.sum(x, 1), d.cast(s))
    elif form == "root":
        y = d.node("Div", x, d.node("Sqrt", d.cast(d.node("Mul", n, s))))
    elif form == "eye":
        scores = d.node("MatMul", x, d.node("Transpose", x, perm=[0, 2, 1]))
        plane = d.node("Gather", scores, d.int(0), axis=0)
        y = d.node("MatMul", d.node("Add", scores, d.node("EyeLike", plane)), x)
    elif form == "cumsum":
        y = d.node("CumSum", x, d.int(1))
    elif form == "scatter":
        last = d.node("Sub", s, d.int(1))
        where = d.node("Expand", d.node("Unsqueeze", d.vector(last), d.ints(0, 1)), d.join(n, 1, 8))
        y = d.node("ScatterElements", x, where, d.node("Expand", d.float(2), d.join(n, 1, 8)), axis=1)
    else:
        token = d.node("Expand", d.normal(1, 1, 8), d.join(n, 1, 8))
        y = rows(d, d.node("Concat", token, x, axis=1), 8)
        y = d.node("Gather", y, d.int(0), axis=1) if d.chance() else d.slice(y, 1, 2**62, 1)
    finish(d, y)


FAMILIES = {
    f.__name__: f
    for f in (
        condition, clipped_size, squeezed, sliced, sliced_by_size, chunked, cached, cut_heads, broadcast,
        least_length, joined_rows, tables, largest, sometimes_named, neutral_sizes, attention, embedding,
        guessed, made_from_sizes,
    )
}  # fmt: skip
