"""Networks of five families in the spellings of several exporters, each written as ONNX nodes."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


class Model:
    """A model in progress: operands are names or arrays, which become initialisers."""

    def __init__(self, opset=17):
        self.opset, self.nodes, self.weights, self.inputs = opset, [], [], []
        self.random = np.random.default_rng(0)

    def named(self, value):
        if isinstance(value, str):
            return value
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind, *operands, results=1, **attrs):
        names = [f"v{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, [self.named(x) for x in operands], names, **attrs))
        return names[0] if results == 1 else names

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def normal(self, *shape, size=None):
        return (self.random.standard_normal(shape) * (size or shape[0] ** -0.5)).astype(np.float32)

    # -- operators whose form depends on the operator set ------------------------------------------
    def reshape(self, x, *shape):
        whole = [n if isinstance(n, int) else -1 for n in shape]  # a symbolic extent is left over
        return self.op("Reshape", x, np.array(whole, np.int64))

    def unsqueeze(self, x, axis):
        if self.opset < 13:
            return self.op("Unsqueeze", x, axes=[axis])
        return self.op("Unsqueeze", x, np.array([axis], np.int64))

    def squeeze(self, x, axis):
        if self.opset < 13:
            return self.op("Squeeze", x, axes=[axis])
        return self.op("Squeeze", x, np.array([axis], np.int64))

    def split(self, x, axis, sizes):
        if self.opset < 13:
            return self.op("Split", x, results=len(sizes), axis=axis, split=sizes)
        return self.op("Split", x, np.array(sizes, np.int64), results=len(sizes), axis=axis)

    def slice(self, x, axis, start, stop):
        return self.op("Slice", x, *(np.array([n], np.int64) for n in (start, stop, axis)))

    def softmax(self, x):
        return self.op("Softmax", x, axis=3 if self.opset < 13 else -1)

    def done(self, y, shape):
        last = self.nodes[-1]
        assert y in last.output
        last.output[list(last.output).index(y)] = "y"
        output = helper.make_tensor_value_info("y", FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", self.inputs, [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


# -- attention -------------------------------------------------------------------------------------
def scored(m, q, k, depth, scale):
    """Return the scores, scaled in one of the ways of exporters."""
    if scale == "queries":
        return m.op("MatMul", m.op("Mul", q, np.float32(depth**-0.5)), k)
    if scale == "queries divided":
        return m.op("MatMul", m.op("Div", q, np.float32(depth**0.5)), k)
    if scale == "both":
        root = np.float32(depth**-0.25)
        return m.op("MatMul", m.op("Mul", q, root), m.op("Mul", k, root))
    if scale == "first":
        return m.op("MatMul", m.op("Mul", np.float32(depth**-0.5), q), k)
    scores = m.op("MatMul", q, k)
    if scale == "product":
        return m.op("Mul", scores, np.float32(depth**-0.5))
    if scale == "root":
        return m.op("Div", scores, m.op("Sqrt", np.float32(depth)))
    if scale == "vector":
        return m.op("Div", scores, np.array([math.sqrt(depth)], np.float32))
    return m.op("Div", scores, np.float32(math.sqrt(depth)))


def masked(m, scores, mask, batch, positions):
    """Return scores with a mask, in one of the ways of exporters."""
    if mask == "added":
        return m.op("Add", scores, m.input("mask", (batch, 1, 1, positions)))
    if mask == "chosen":
        seen = m.op("Cast", m.input("mask", (batch, 1, 1, positions)), to=onnx.TensorProto.BOOL)
        return m.op("Where", seen, scores, np.float32(-1e4))
    if mask == "alternating":
        seen = m.unsqueeze(m.unsqueeze(m.input("mask", (batch, positions)), 1), 2)
        return m.op("Add", scores, m.op("Mul", m.op("Sub", np.float32(1), seen), np.float32(-1e4)))
    return scores


def repeated(m, x, batch, keys, group, positions, depth, repeat):
    """Return keys or values once for every head of their group."""
    whole = (batch, keys * group, positions, depth)
    if repeat == "gathered":
        return m.op("Gather", x, np.repeat(np.arange(keys), group), axis=1)
    if repeat == "joined at once":
        parts = m.split(x, 1, [1] * keys)
        return m.op("Concat", *(p for p in parts for _ in range(group)), axis=1)
    apart = m.unsqueeze(x, 2)
    if repeat == "reshaped":
        apart = m.reshape(x, batch, keys, 1, positions, depth)
    if repeat == "tiled":
        wide = m.op("Tile", apart, np.array([1, 1, group, 1, 1], np.int64))
    elif repeat == "joined":
        wide = m.op("Concat", *[apart] * group, axis=2)
    else:
        times = (
            (1, 1, group, 1, 1) if repeat == "expanded by ones" else (batch, keys, group, positions, depth)
        )
        wide = m.op("Expand", apart, np.array(times, np.int64))
    return m.reshape(wide, *((0, keys * group, positions, -1) if repeat == "by -1" else whole))


def joined(m, mixed, batch, queries, width):
    return m.reshape(m.op("Transpose", mixed, perm=[0, 2, 1, 3]), batch, queries, width)


def grouped(opset=17, batch=1, repeat="expanded", scale="quotient", mask="", turned="after"):
    heads, keys, depth, positions, queries = 8, 2, 16, 256, 1
    m = Model(opset)
    q = m.input("q", (batch, heads, queries, depth))
    k, v = (m.input(n, (batch, keys, positions, depth)) for n in "kv")
    group = heads // keys
    if turned == "before":
        k = m.op("Transpose", k, perm=[0, 1, 3, 2])
        k = repeated(m, k, batch, keys, group, depth, positions, repeat)
    else:
        k = repeated(m, k, batch, keys, group, positions, depth, repeat)
        if turned == "flat":
            k = m.op("Transpose", m.reshape(k, batch * heads, positions, depth), perm=[0, 2, 1])
            k = m.reshape(k, batch, heads, depth, positions)
        elif turned == "after":
            k = m.op("Transpose", k, perm=[0, 1, 3, 2])
    v = repeated(m, v, batch, keys, group, positions, depth, repeat)
    if turned == "einsum":
        scores = m.op("Einsum", q, k, equation="bhqd,bhkd->bhqk")
        scores = m.op("Div", scores, np.float32(math.sqrt(depth)))
    else:
        scores = scored(m, q, k, depth, scale)
    weights = m.softmax(masked(m, scores, mask, batch, positions))
    mixed = (
        m.op("Einsum", weights, v, equation="bhqk,bhkd->bhqd")
        if turned == "einsum"
        else m.op("MatMul", weights, v)
    )
    return m.done(joined(m, mixed, batch, queries, heads * depth), (batch, queries, heads * depth))


def heads_of(m, x, batch, positions, heads, width, weight, bias, product):
    """Return the heads of a product of tokens ``[batch, positions, into]`` and a weight."""
    into = weight.shape[0]
    if product == "flat":
        y = m.op(
            "Gemm",
            m.reshape(x, batch * positions, into),
            weight.T.copy(),
            *([] if bias is None else [bias]),
            transB=1,
        )
        y = m.reshape(y, batch, positions, heads, width)
    else:
        y = m.op("MatMul", x, weight)
        if bias is not None:
            y = m.op("Add", y, bias) if product == "bias last" else m.op("Add", bias, y)
        y = m.reshape(y, *((0, 0, heads, width) if product == "by 0" else (batch, positions, heads, width)))
    return m.op("Transpose", y, perm=[0, 2, 1, 3])


def latent(opset=17, product="plain", scale="product", mask="", together=False, bias=False, turned="after"):
    heads, depth, values, rank, positions, queries = 4, 16, 24, 32, 128, 1
    m = Model(opset)
    q, c = m.input("q", (1, heads, queries, depth)), m.input("c", (1, positions, rank))
    shift = (lambda n: m.normal(n, size=0.1)) if bias else (lambda n: None)
    if together:
        both = depth + values
        up = heads_of(
            m, c, 1, positions, heads, both, m.normal(rank, heads * both), shift(heads * both), product
        )
        if together == "slices":
            k, v = m.slice(up, 3, 0, depth), m.slice(up, 3, depth, both)
        else:
            k, v = m.split(up, 3 if together == "from the front" else -1, [depth, values])
    else:
        k, v = (
            heads_of(m, c, 1, positions, heads, w, m.normal(rank, heads * w), shift(heads * w), product)
            for w in (depth, values)
        )
    if turned == "at once":  # the heads of keys are cut and turned by one transpose
        (heads_of_keys,) = (n for n in m.nodes if k in n.output)
        heads_of_keys.attribute[0].ints[:] = [0, 2, 3, 1]
    else:
        k = m.op("Transpose", k, perm=[0, 1, 3, 2])
    scores = scored(m, q, k, depth, scale)
    weights = m.softmax(masked(m, scores, mask, 1, positions))
    return m.done(
        joined(m, m.op("MatMul", weights, v), 1, queries, heads * values), (1, queries, heads * values)
    )


# -- encoders read at one row ----------------------------------------------------------------------
def linear(m, x, into, out, spelling, rows=None):
    """Return a linear layer of tokens in one of the ways of exporters."""
    w, b = m.normal(into, out), m.normal(out, size=0.1)
    if spelling == "flat" and rows:
        y = m.op("Gemm", m.reshape(x, rows[0] * rows[1], into), w.T.copy(), b, transB=1)
        return m.reshape(y, *rows, out)
    if spelling == "flat by -1" and rows:
        y = m.op("Add", m.op("MatMul", m.reshape(x, -1, into), w), b)
        return m.reshape(y, *rows, out)
    if spelling == "no bias":
        return m.op("MatMul", x, w)
    if spelling == "turned weight":
        return m.op("Add", m.op("MatMul", x, m.op("Transpose", w.T.copy(), perm=[1, 0])), b)
    product = m.op("MatMul", x, w)
    return m.op("Add", product, b) if spelling == "bias last" else m.op("Add", b, product)


def norm(m, x, width, spelling):
    scale, shift = 1 + m.normal(width, size=0.1), m.normal(width, size=0.1)
    if spelling == "whole" and m.opset >= 17:
        return m.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)
    mean = (lambda t: m.op("ReduceMean", t, axes=[-1])) if m.opset < 18 else (
        lambda t: m.op("ReduceMean", t, np.array([-1], np.int64)))  # fmt: skip
    d = m.op("Sub", x, mean(x))
    variance = mean(m.op("Pow", d, np.float32(2)) if spelling != "squared" else m.op("Mul", d, d))
    d = m.op("Div", d, m.op("Sqrt", m.op("Add", variance, np.float32(1e-5))))
    return m.op("Add", m.op("Mul", d, scale), shift)


def first_row(m, x, batch, width, read):
    """Return the first row of tokens, in one of the ways of exporters."""
    if read == "slice and squeeze":
        return m.squeeze(m.slice(x, 1, 0, 1), 1)
    if read == "slice and reshape":
        return m.reshape(m.slice(x, 1, 0, 1), batch, width)
    if read == "gather and squeeze":
        return m.squeeze(m.op("Gather", x, np.array([0]), axis=1), 1)
    if read == "gather a vector":
        return m.reshape(m.op("Gather", x, np.array([0]), axis=1), -1, width)
    if read == "gather places":
        places = np.stack([np.arange(batch), np.zeros(batch, np.int64)], -1)
        return m.op("GatherND", x, places)
    if read == "split":
        first, _ = m.split(x, 1, [1, ROWS - 1])
        return m.squeeze(first, 1)
    if read == "select after flattening":
        return m.slice(m.reshape(x, batch * ROWS, width), 0, 0, 1)
    return m.op("Gather", x, np.array(0), axis=1)


ROWS = 64


def unstacked(m, x, batch, heads, depth, how):
    """Return queries, turned keys and values that are cut from one product in one of the usual ways."""
    if how == "torch":  # nn.MultiheadAttention: positions first, and heads are joined with the batch
        width = heads * depth
        x = m.op("Transpose", x, perm=[1, 0, 2])
        x = m.op("Transpose", m.reshape(x, 1, ROWS, batch, 3, width), perm=[3, 1, 2, 0, 4])
        parts = [m.op("Gather", m.squeeze(x, 3), np.array(i), axis=0) for i in range(3)]
        flat = [m.op("Transpose", m.reshape(p, ROWS, batch * heads, depth), perm=[1, 0, 2]) for p in parts]
        q, k, v = (m.reshape(p, batch, heads, ROWS, depth) for p in flat)
    elif how == "stacked":
        x = m.op("Transpose", m.reshape(x, batch, ROWS, 3, heads, depth), perm=[2, 0, 3, 1, 4])
        q, k, v = (m.squeeze(p, 0) for p in m.split(x, 0, [1, 1, 1]))
    else:
        shape, axis = ((heads, 3), 3) if how == "each head" else ((3, heads), 2)
        x = m.reshape(x, batch, ROWS, *shape, depth)
        parts = [m.op("Gather", x, np.array(i), axis=axis) for i in range(3)]
        q, k, v = (m.op("Transpose", p, perm=[0, 2, 1, 3]) for p in parts)
    return q, m.op("Transpose", k, perm=[0, 1, 3, 2]), v


def encoder(
    opset=17, batch=1, layers=1, spelled="plain", normed="whole", read="gather", scale="quotient", mask="",
    pre=False, fused=False, bent="erf",
):  # fmt: skip
    width, heads = 32, 2
    m, depth = Model(opset), 16
    x = m.input("x", (batch, ROWS, width))
    rows = (batch, ROWS)

    def attention(x):
        if fused in ("stacked", "each head", "index", "torch"):
            q, k, v = unstacked(m, linear(m, x, width, 3 * width, spelled, rows), batch, heads, depth, fused)
        elif fused:
            parts = m.split(linear(m, x, width, 3 * width, spelled, rows), 2, [width] * 3)
        else:
            parts = [linear(m, x, width, width, spelled, rows) for _ in range(3)]
        if fused in (False, "columns"):
            cut = [m.reshape(p, batch, ROWS, heads, depth) for p in parts]
            q, v = (m.op("Transpose", cut[i], perm=[0, 2, 1, 3]) for i in (0, 2))
            k = m.op("Transpose", cut[1], perm=[0, 2, 3, 1])
        scores = scored(m, q, k, depth, scale)
        if mask == "chosen":
            scores = m.op("Where", hidden[0], scores, np.float32(-1e4))
        elif mask:
            scores = m.op("Add", scores, hidden[0])
        weights = m.softmax(scores)
        if mask == "safe":
            weights = m.op("Where", m.op("IsNaN", weights), np.float32(0), weights)
        mixed = m.op("MatMul", weights, v)
        if fused == "torch":
            x = m.reshape(m.op("Transpose", mixed, perm=[2, 0, 1, 3]), ROWS * batch, width)
            y = m.op("Gemm", x, m.normal(width, width), m.normal(width, size=0.1), transB=1)
            return m.op("Transpose", m.reshape(y, ROWS, batch, width), perm=[1, 0, 2])
        return linear(m, joined(m, mixed, batch, ROWS, width), width, width, spelled, rows)

    hidden = []
    if mask:
        seen = m.input("mask", (batch, 1, 1, ROWS))
        if mask == "chosen":
            hidden.append(m.op("Cast", seen, to=onnx.TensorProto.BOOL))
        else:
            hidden.append(m.op("Mul", m.op("Sub", np.float32(1), seen), np.float32(-1e4)))

    def forward(x):
        y = linear(m, x, width, 4 * width, spelled, rows)
        if bent == "tanh":
            y = m.op("Tanh", y)
        elif bent == "relu":
            y = m.op("Relu", y)
        else:
            e = m.op("Add", m.op("Erf", m.op("Div", y, np.float32(math.sqrt(2)))), np.float32(1))
            y = m.op("Mul", m.op("Mul", y, e), np.float32(0.5))
        return linear(m, y, 4 * width, width, spelled, rows)

    for _ in range(layers):
        if pre:
            x = m.op("Add", x, attention(norm(m, x, width, normed)))
            x = m.op("Add", x, forward(norm(m, x, width, normed)))
        else:
            x = norm(m, m.op("Add", attention(x), x), width, normed)
            x = norm(m, m.op("Add", forward(x), x), width, normed)
    if pre:
        x = norm(m, x, width, normed)
    y = first_row(m, x, batch, width, read)
    return m.done(m.op("Gemm", y, m.normal(width, width), m.normal(width, size=0.1)), (batch, width))


# -- images ----------------------------------------------------------------------------------------
def resize(m, x, size, factor, coords, by):
    """Return a bilinear interpolation, in one of the ways of exporters."""
    if by == "scales":
        scales = np.array([1, 1, factor, factor], np.float32)
        roi = np.zeros(0, np.float32) if m.opset < 13 else ""
        return m.op("Resize", x, roi, scales, mode="linear", coordinate_transformation_mode=coords)
    blank = np.zeros(0, np.float32) if m.opset < 13 else ""
    sizes = np.array(size, np.int64)
    return m.op("Resize", x, blank, blank, sizes, mode="linear", coordinate_transformation_mode=coords)


def head(
    opset=17,
    batch=1,
    coords="half_pixel",
    by="sizes",
    product="plain",
    bias=True,
    normed=False,
    back="whole",
    order=1,
):
    widths, decoder, classes, size = (8, 16, 20, 24), 32, 5, 32
    m, parts = Model(opset), []
    features = [m.input(f"f{i}", (batch, w, size >> i, size >> i)) for i, w in enumerate(widths)]
    for i, (x, w) in reversed(list(enumerate(zip(features, widths, strict=True)))):
        extent = size >> i
        if product == "convolution":
            y = m.op("Conv", x, m.normal(decoder, w, 1, 1), *([m.normal(decoder, size=0.1)] if bias else []))
        else:
            t = m.op("Transpose", m.reshape(x, batch, w, extent * extent), perm=[0, 2, 1])
            if product == "flattened":
                m.nodes = m.nodes[:-2]
                t = m.op("Transpose", m.reshape(x, 0, 0, -1), perm=[0, 2, 1])
            t = m.op("MatMul", t, m.normal(w, decoder))
            if bias:
                t = m.op("Add", m.normal(decoder, size=0.1), t)
            t = m.op("Transpose", t, perm=[0, 2, 1])
            y = m.reshape(
                t, *((batch, -1, extent, extent) if back == "by -1" else (batch, decoder, extent, extent))
            )
        parts.append(y if i == 0 else resize(m, y, (batch, decoder, size, size), 2.0**i, coords, by))
    y = m.op("Conv", m.op("Concat", *parts[::order], axis=1), m.normal(decoder, 4 * decoder, 1, 1, size=0.1),
             *([] if normed else [m.normal(decoder, size=0.1)]))  # fmt: skip
    if normed:
        scale, shift, mean = (m.normal(decoder, size=0.1) for _ in range(3))
        y = m.op("BatchNormalization", y, 1 + scale, shift, mean, 1 + np.abs(m.normal(decoder, size=0.1)))
    y = m.op("Conv", m.op("Relu", y), m.normal(classes, decoder, 1, 1), m.normal(classes, size=0.1))
    return m.done(y, (batch, classes, size, size))


def upsampling(
    opset=17, batch=1, by="scales", coords="asymmetric", rounding="floor", bias=True, bent="", padded=False
):
    channels, out, size = 96, 48, 32
    m = Model(opset)
    x = m.input("x", (batch, channels, size, size))
    if by == "expand":
        y = m.reshape(x, batch, channels, size, 1, size, 1)
        y = m.op("Expand", y, np.array([batch, channels, size, 2, size, 2], np.int64))
        y = m.reshape(y, batch, channels, 2 * size, 2 * size)
    elif by == "upsample":
        m.opset = 9
        y = m.op("Upsample", x, np.array([1, 1, 2, 2], np.float32), mode="nearest")
    else:
        blank = np.zeros(0, np.float32) if m.opset < 13 else ""
        given = [blank, np.array([1, 1, 2, 2], np.float32)]
        if by == "sizes":
            given = [blank, blank, np.array([batch, channels, 2 * size, 2 * size], np.int64)]
        y = m.op(
            "Resize", x, *given, mode="nearest", coordinate_transformation_mode=coords, nearest_mode=rounding
        )
    if padded:
        pads = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
        y = m.op("Pad", y, pads) if m.opset >= 11 else m.op("Pad", y, pads=[0, 0, 1, 1, 0, 0, 1, 1])
    y = m.op("Conv", y, m.normal(out, channels, 3, 3, size=0.1), *([m.normal(out, size=0.1)] if bias else []),
             pads=[0, 0, 0, 0] if padded else [1, 1, 1, 1], kernel_shape=[3, 3])  # fmt: skip
    if bent == "relu":
        y = m.op("Relu", y)
    elif bent == "silu":
        y = m.op("Mul", y, m.op("Sigmoid", y))
    elif bent == "leaky":
        y = m.op("LeakyRelu", y, alpha=0.2)
    return m.done(y, (batch, out, 2 * size, 2 * size))
