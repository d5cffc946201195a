"""Small graphs and instances priced by several tests of costs."""

from workbench.costs import OpInstance
from workbench.graph import GraphBuilder
from workbench.ops import TensorType


def network():
    """Return two variants of one convolution, an addition and a softmax behind a view."""
    b = GraphBuilder()
    x = b.input("x", (1, 4, 12, 12))
    w, bias = b.weight((8, 4, 3, 3)), b.weight((1, 8, 1, 1))
    y = b.op("conv2d", x, w, bias, pads=(1, 1, 1, 1), act="relu")
    z = b.op("add", b.op("conv2d", x, w, pads=(1, 1, 1, 1)), y)
    return b.graph({"z": b.op("softmax", b.op("reshape", z, shape=(8, 144)), axis=-1)})


def instance(op, shapes, out, attrs=(), dtype="float32"):
    """Return an instance whose operands are all computed."""
    kinds = tuple(TensorType(dtype, s) for s in shapes)
    return OpInstance(op, attrs, kinds, TensorType(dtype, out), (False,) * len(kinds))


RELU = instance("relu", [(4, 64)], (4, 64))
ADD = instance("add", [(4, 64), (4, 64)], (4, 64))
MATMUL = instance("matmul", [(512, 1024), (1024, 256)], (512, 256), ("none",))
