"""Small graphs run by several tests of devices."""

from workbench.graph import GraphBuilder


def products(count=3, size=32):
    """Return several products of one operand, which rules merge into one."""
    b = GraphBuilder("products")
    x = b.input("x", (4, size))
    return b.graph({f"y{i}": b.op("relu", b.op("matmul", x, b.weight((size, size)))) for i in range(count)})


def image(act="relu", bias=True, pads=(1, 1, 1, 1)):
    """Return a convolution with the operators after it, a pool and a view."""
    b = GraphBuilder("image")
    x = b.input("x", (1, 4, 10, 10))
    operands = [b.weight((8, 4, 3, 3)), *([b.weight((1, 8, 1, 1))] if bias else [])]
    y = b.op("conv2d", x, *operands, pads=pads, act=act)
    y = b.op("maxpool", y, kernel=(2, 2), strides=(2, 2))
    return b.graph({"y": b.op("reshape", y, shape=(1, b.type(y).elements))})
