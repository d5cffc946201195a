"""Pieces of small networks that stand before and after the pattern of a family."""

import numpy as np


def linear(d, x, width, out=None, act=None):
    """Add a product with weights, a bias and perhaps an activation."""
    out = width if out is None else out
    y = d.node("MatMul", x, d.normal(width, out, scale=width**-0.5))
    if d.chance(0.7):
        y = d.node("Add", y, d.normal(out))
    if act or (act is None and d.chance(0.4)):
        y = d.node(act or d.pick("Relu", "Tanh", "Sigmoid"), y)
    return y


def normed(d, x, width):
    """Add a layer normalisation, as one operator or as exporters of older sets write it."""
    if d.opset >= 17 and d.chance():
        return d.node("LayerNormalization", x, d.normal(width), d.normal(width), axis=-1)
    centred = d.node("Sub", x, d.mean(x, -1))
    spread = d.mean(d.node("Pow", centred, d.float(2)), -1)
    root = d.node("Sqrt", d.node("Add", spread, d.float(1e-5)))
    return d.node("Mul", d.node("Div", centred, root), d.normal(width))


def neutral(d, x, width=1):
    """Add an operation that changes nothing."""
    kind = d.pick("add", "mul", "div", "sub", "pow", "row", "identity", "double")
    if kind == "row":
        return d.node("Add", x, d.weight(np.zeros(width, np.float32)))
    if kind == "identity":
        return d.node("Identity", x)
    if kind == "double":
        return d.node("Neg", d.node("Neg", x))
    op = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}[kind]
    return d.node(op, x, d.float(0 if kind in ("add", "sub") else 1))


def scaled(d, x, width):
    """Add two factors in a row, which fold into one."""
    y = d.node("Mul", x, d.float(d.pick(2, 0.5, 3)))
    return d.node("Mul", y, d.pick(d.float(0.25), d.normal(width)))


def shared(d, x, width):
    """Add two products of one value, which share it."""
    a = d.node("MatMul", x, d.normal(width, width, scale=width**-0.5))
    b = d.node("MatMul", x, d.normal(width, width, scale=width**-0.5))
    return d.node("Add", a, b)


def rows(d, x, width):
    """Add one to three blocks on the last axis; the shape stays."""
    for _ in range(d.number(1, 3)):
        make = d.pick(linear, linear, normed, neutral, scaled, shared)
        x = make(d, x, width)
    return x


def conv(d, x, channels, out, kernel=3, **more):
    """Add a convolution, perhaps with a bias."""
    rank = more.pop("rank", 2)
    w = d.normal(out, channels, *[kernel] * rank, scale=(channels * kernel**rank) ** -0.5)
    bias = [d.normal(out)] if d.chance() else []
    return d.node("Conv", x, w, *bias, kernel_shape=[kernel] * rank, **more)


def batch_norm(d, x, channels):
    mean, variance = (
        d.normal(channels),
        d.weight(np.abs(d.rng.standard_normal(channels)).astype(np.float32) + 0.5),
    )
    return d.node("BatchNormalization", x, d.normal(channels), d.normal(channels), mean, variance)


def image(d, x, channels, rank=2):
    """Add one to three blocks on an image (or a signal); the shape stays."""
    for _ in range(d.number(1, 2)):
        kind = d.pick("pointwise", "window", "norm", "relu", "scale", "neutral")
        if kind == "pointwise":
            x = conv(d, x, channels, channels, 1, rank=rank)
        elif kind == "window":
            x = conv(d, x, channels, channels, 3, rank=rank, pads=[1] * 2 * rank)
        elif kind == "norm":
            x = batch_norm(d, x, channels)
        elif kind == "relu":
            x = d.node(d.pick("Relu", "Sigmoid", "LeakyRelu"), x)
        elif kind == "scale":
            x = d.node("Mul", d.node("Mul", x, d.float(2)), d.float(0.75))
        else:
            x = d.node(d.pick("Add", "Sub"), x, d.float(0))
    return x


def heads(d, x, width, count, named=True):
    """Split the last axis of [batch, length, width] into heads: [batch, heads, length, width / heads]."""
    form = d.pick("zeros", "computed", "rest", "mixed") if named else "zeros"
    part = width // count
    if form == "zeros":
        shape = d.ints(0, 0, count, part)
    elif form == "computed":
        shape = d.join(d.size(x, 0), d.size(x, 1), count, part)
    elif form == "rest":
        shape = d.join(d.size(x, 0), -1, count, part)
    else:
        shape = d.join(0, d.size(x, 1), count, part)
    return d.node("Transpose", d.node("Reshape", x, shape), perm=[0, 2, 1, 3])


def attend(d, q, k, v, part, mask=None):
    """Return softmax(q kᵀ / √part + mask) v."""
    scores = d.node("MatMul", q, d.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = (
        d.node("Div", scores, d.float(part**0.5))
        if d.chance()
        else d.node("Mul", scores, d.float(part**-0.5))
    )
    if mask is not None:
        scores = d.node("Add", scores, mask)
    return d.node("MatMul", d.node("Softmax", scores, axis=-1), v)


def merged(d, x, like, width):
    """Join heads again: [batch, heads, length, part] to [batch, length, width]."""
    y = d.node("Transpose", x, perm=[0, 2, 1, 3])
    form = d.pick("zeros", "computed")
    shape = d.ints(0, 0, width) if form == "zeros" else d.join(d.size(like, 0), d.size(like, 1), width)
    return d.node("Reshape", y, shape)
