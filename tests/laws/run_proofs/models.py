"""Small models whose results need different kinds of steps."""

import numpy as np

from workbench.graph import GraphBuilder


def block():
    """Return a RepVGG block: two convolutions, each with its batch norm, become one."""
    rng, b = np.random.default_rng(0), GraphBuilder("block")

    def norm(y):
        return b.op("batchnorm", y, *(b.weight(data=1 + rng.random(8, "f4")) for _ in range(4)))

    def kernel(*shape):
        return b.weight(data=rng.standard_normal(shape).astype("f4"))

    x = b.input("x", (1, 8, 6, 6))
    wide = norm(b.op("conv2d", x, kernel(8, 8, 3, 3), pads=1))
    point = norm(b.op("conv2d", x, kernel(8, 8, 1, 1)))
    return b.graph({"y": b.op("relu", b.op("add", wide, point))})


def attention():
    """Return attention whose scale is a number: three products of one input are merged."""
    rng, b = np.random.default_rng(1), GraphBuilder("attention")
    x = b.input("x", (1, 16, 32))
    q, k, v = (b.op("matmul", x, b.weight(data=rng.standard_normal((32, 32)).astype("f4"))) for _ in range(3))
    scores = b.op("matmul", b.op("mul", q, b.weight(data=np.full((1,), 0.125, "f4"))), turned(b, k))
    return b.graph({"y": b.op("relu", b.op("matmul", b.op("softmax", scores, axis=-1), v))})


def turned(b, x):
    """Return a matrix with its axes exchanged."""
    return b.op("transpose", x, perm=(0, 2, 1))
