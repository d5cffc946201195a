"""Small ONNX models with symbolic dimensions, and the check that these are kept."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.frontends.models import INT64, model, node, normal, value, weight
from workbench.frontends import run_model, to_onnx
from workbench.frontends.model_file import open_model


def ints(name, *numbers):
    return weight(name, numbers, np.int64)


def linear(shape=("batch", "sequence", 4), **more):
    """Return relu(x · w + b)."""
    return model(
        [node("MatMul", "x w", "m"), node("Add", "m b", "a"), node("Relu", "a", "y")],
        [value("x", shape)],
        [value("y", shape)],
        [normal("w", 4, 4), normal("b", 4)],
        **more,
    )


def heads():
    """Return attention heads separated by a computed shape, as exporters write it."""
    return model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape zero", "n"),
            node("Gather", "shape one", "s"),
            node("Unsqueeze", "n axis", "n1"),
            node("Unsqueeze", "s axis", "s1"),
            node("Concat", "n1 s1 two two2", "split", axis=0),
            node("Reshape", "x split", "h"),
            node("Transpose", "h", "t", perm=[0, 2, 1, 3]),
            node("Mul", "n s", "ns"),
            node("Unsqueeze", "ns axis", "ns1"),
            node("Concat", "ns1 two4", "flat", axis=0),
            node("Reshape", "x flat", "f"),
            node("Relu", "t", "y"),
            node("Relu", "f", "z"),
        ],
        [value("x", ["batch", "sequence", 4])],
        [value("y", ["batch", 2, "sequence", 2]), value("z", None)],
        [
            weight("zero", 0, np.int64),
            weight("one", 1, np.int64),
            ints("axis", 0),
            ints("two", 2),
            ints("two2", 2),
            ints("two4", 4),
        ],
    )


def positions(extent=64):
    """Return positions cut from a stored table to the length of the input, and a range of that length."""
    return model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape one", "s"),
            node("Unsqueeze", "s axis", "s1"),
            node("Slice", "table start s1 axis", "p"),
            node("Add", "x p", "a"),
            node("Range", "zero s step", "r"),
            node("Cast", "r", "rf", to=TensorProto.FLOAT),
            node("Unsqueeze", "rf axes", "rc"),
            node("Mul", "a rc", "y"),
        ],
        [value("x", ["batch", "sequence", 4])],
        [value("y", ["batch", "sequence", 4])],
        [
            normal("table", extent, 4),
            weight("one", 1, np.int64),
            weight("zero", 0, np.int64),
            weight("step", 1, np.int64),
            ints("axis", 0),
            ints("start", 0),
            ints("axes", 0, 2),
        ],
    )


def class_token():
    """Return a model that repeats a stored token for the batch and puts it before the input."""
    return model(
        [
            node("Shape", "x", "shape"),
            node("Slice", "shape start stop", "n"),
            node("Concat", "n ones", "to", axis=0),
            node("Expand", "token to", "tokens"),
            node("Concat", "tokens x", "y", axis=1),
        ],
        [value("x", ["batch", "sequence", 4])],
        [value("y", None)],
        [normal("token", 1, 1, 4), ints("start", 0), ints("stop", 1), ints("ones", 1, 4)],
    )


def skip():
    """Return an input halved, doubled and joined with itself: height and width must be even."""
    return model(
        [
            node("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Resize", ["p", "", "scales"], ["u"], mode="nearest"),
            node("Concat", "x u", "c", axis=1),
            node("Conv", "c k", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        ],
        [value("x", ["batch", 2, "height", "width"])],
        [value("y", None)],
        [weight("scales", [1, 1, 2, 2]), normal("k", 3, 4, 3, 3)],
    )


def inputs_at(source, sizes, seed=0):
    """Return inputs for a model at these sizes."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for v in source.graph.input:
        dims = v.type.tensor_type.shape.dim
        shape = [
            d.dim_value if d.HasField("dim_value") else sizes[d.dim_param or f"{v.name}[{i}]"]
            for i, d in enumerate(dims)
        ]
        whole = v.type.tensor_type.elem_type == INT64
        data = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape).astype(np.float32)
        feeds[v.name] = data
    return feeds


def keeps(source, *bindings, symbols):
    """Open a model, write it with its symbols, and run both at every binding."""
    opened = open_model(source, {}, {})
    assert {s.name for s in opened.symbols} == set(symbols), opened.fixed
    written = to_onnx(opened.searched, symbols=opened.table)
    onnx.checker.check_model(written, full_check=True)
    for sizes in bindings:
        feeds = inputs_at(source, sizes)
        expected, found = run_model(source, feeds), run_model(written, feeds)
        assert list(expected) == list(found)
        for name, array in expected.items():
            assert array.shape == found[name].shape, (name, sizes)
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    return opened, written


def shape_of(written, name):
    """Return the declared shape of an input or output, numbers and names."""
    graph = written.graph
    found = next(v for v in (*graph.input, *graph.output) if v.name == name)
    dims = found.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
