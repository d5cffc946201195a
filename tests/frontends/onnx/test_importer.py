"""The meaning of ONNX operators, in all forms and operator sets, compared with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.models import FLOAT, INT64, check, model, node, normal, ops, value, weight
from workbench.frontends import import_onnx, load_onnx, run_model, to_onnx
from workbench.graph import evaluate


def one(op_type, shapes, out=None, weights=(), opset=17, inputs=None, **attrs):
    """Return a model of one operator on float inputs x, x2, … and the given weights."""
    names = ["x", "x2", "x3"][: len(shapes)]
    text = inputs or " ".join([*names, *(w.name for w in weights)])
    m = model(
        [node(op_type, text, "y", **attrs)],
        [value(n, s) for n, s in zip(names, shapes, strict=True)],
        [value("y", out)],
        weights,
        opset,
    )
    return m


def ints(name, *numbers):
    return weight(name, numbers, np.int64)


IMAGE = [2, 3, 7, 6]
SAME, CEIL = {"auto_pad": "SAME_UPPER"}, {"ceil_mode": 1}
STATISTICS = [normal("s", 3), normal("b", 3), normal("m", 3), weight("v", [1, 2, 3])]
MODELLED = [
    # convolution
    (one("Conv", [IMAGE], weights=[normal("w", 4, 3, 3, 3)]), ["conv2d"]),
    (one("Conv", [IMAGE], weights=[normal("w", 4, 3, 3, 2), normal("b", 4)], pads=[1, 0, 2, 1]),
     ["reshape", "conv2d"]),
    *(
        (one("Conv", [IMAGE], weights=[normal("w", 4, 3, k, k)], auto_pad=pad, strides=[s, s]), ["conv2d"])
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID") for k in (1, 2, 3, 5) for s in (1, 2, 3)
    ),
    (one("Conv", [IMAGE], weights=[normal("w", 4, 3, 2, 2)], dilations=[2, 3], auto_pad="VALID"), ["conv2d"]),
    (one("Conv", [[1, 4, 5, 5]], weights=[normal("w", 4, 1, 3, 3)], group=4, kernel_shape=[3, 3]),
     ["conv2d"]),
    # products
    (one("MatMul", [[3, 4], [4, 5]]), ["matmul"]),
    (one("MatMul", [[2, 3, 4]], weights=[normal("w", 4, 5)]), ["matmul"]),
    (one("MatMul", [[4], [4, 5]]), ["reshape", "matmul", "reshape"]),
    (one("MatMul", [[2, 3, 4], [4]]), ["reshape", "matmul", "reshape"]),
    (one("MatMul", [[4], [4]]), ["reshape", "reshape", "matmul", "reshape"]),
    (one("Gemm", [[3, 4], [4, 5], [5]]), ["matmul", "add"]),
    (one("Gemm", [[4, 3], [5, 4], [3, 1]], transA=1, transB=1, alpha=0.5, beta=2.0),
     ["transpose", "transpose", "matmul", "mul", "mul", "add"]),
    (one("Gemm", [[3, 4]], weights=[normal("w", 5, 4)], transB=1, alpha=3.0), ["transpose", "mul", "matmul"]),
    (one("Gemm", [[3, 4], [4, 5], []], beta=0.0), ["matmul"]),
    (one("Gemm", [[3, 4], [4, 5], []], opset=9), ["matmul", "add"]),
    # pooling and reductions
    *(
        (one("MaxPool", [IMAGE], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], **CEIL, opset=v),
         ["maxpool"])
        for v in (10, 17, 22)
    ),
    (one("MaxPool", [IMAGE], kernel_shape=[2, 2], dilations=[2, 2]), ["maxpool"]),
    (one("AveragePool", [[1, 1, 2, 2]], kernel_shape=[1, 1], strides=[2, 2], opset=19, **CEIL), ["avgpool"]),
    (one("MaxPool", [IMAGE], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"), ["maxpool"]),
    (one("MaxPool", [IMAGE], kernel_shape=[2, 2], storage_order=1), ["maxpool"]),
    (one("AveragePool", [IMAGE], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]), ["avgpool"]),
    (one("AveragePool", [IMAGE], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), ["avgpool"]),
    (one("AveragePool", [IMAGE], kernel_shape=[3, 3], strides=[2, 2], **SAME), ["avgpool"]),
    (one("AveragePool", [IMAGE], kernel_shape=[2, 2], strides=[3, 2], ceil_mode=1, opset=10), ["avgpool"]),
    (one("GlobalAveragePool", [IMAGE]), ["reduce_mean"]),
    (one("GlobalAveragePool", [[2, 3, 5]]), ["reduce_mean"]),
    (one("GlobalMaxPool", [[2, 3, 4, 5, 2]]), ["reduce_max"]),
    (one("ReduceMean", [IMAGE], axes=[1, -1]), ["reduce_mean"]),
    (one("ReduceMean", [IMAGE], keepdims=0), ["reduce_mean"]),
    (one("ReduceMean", [IMAGE], weights=[ints("a", -2, 1)], keepdims=0, opset=18), ["reduce_mean"]),
    (one("ReduceMax", [IMAGE], axes=[0], opset=9), ["reduce_max"]),
    (one("ReduceSum", [IMAGE], axes=[0, 1], opset=11), ["reduce_sum"]),
    (one("ReduceSum", [IMAGE], weights=[ints("a", 3)]), ["reduce_sum"]),
    (one("ReduceSum", [IMAGE], noop_with_empty_axes=1), []),
    (one("ReduceSum", [[]]), []),
    # elementwise
    (one("Sum", [[2, 3], [3], [2, 1]]), ["add", "add"]),
    (one("Max", [[2, 3], [3], [2, 1]]), ["max", "max"]),
    (one("Min", [[2, 3]]), []),
    (one("Pow", [[2, 3]], weights=[weight("e", 2.0)]), ["pow"]),
    (one("Pow", [[2, 3]], weights=[weight("e", 3, np.int64)], opset=15), ["pow"]),
    (one("Clip", [[2, 3]], min=-0.5, max=0.5, opset=9), ["clip"]),
    (one("Clip", [[2, 3]], max=0.5, opset=6 + 1), ["clip"]),
    (one("Clip", [[2, 3]], weights=[weight("lo", 0.0), weight("hi", 6.0)]), ["clip"]),
    (one("Clip", [[2, 3]], weights=[weight("hi", 0.5)], inputs="x  hi".replace("  ", " ")), ["clip"]),
    (one("LeakyRelu", [[2, 3]]), ["leakyrelu"]),
    (one("LeakyRelu", [[2, 3]], alpha=0.3, opset=9), ["leakyrelu"]),
    (one("Gelu", [[2, 3]], opset=20), ["gelu"]),
    (one("Gelu", [[2, 3]], opset=20, approximate="tanh"), ["gelu"]),
    *(
        (one(op, [[2, 3]]), [op.lower()])
        for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Reciprocal")
    ),
    # normalisation
    (one("BatchNormalization", [IMAGE], weights=STATISTICS, epsilon=0.1), ["batchnorm"]),
    *(
        (one("BatchNormalization", [shape], weights=STATISTICS), ["reshape", "batchnorm", "reshape"])
        for shape in ([2, 3], [2, 3, 5], [2, 3, 2, 3, 2])
    ),
    (one("LayerNormalization", [[2, 3, 8]], weights=[normal("s", 8)]), ["layernorm"]),
    (one("LayerNormalization", [[2, 3, 8]], weights=[normal("s", 3, 8), normal("b", 3, 8)], axis=1),
     ["layernorm"]),
    (one("Softmax", [[2, 3, 4]]), ["softmax"]),
    (one("Softmax", [[2, 3, 4]], axis=1), ["softmax"]),
    (one("Softmax", [[2, 3, 4]], axis=1, opset=11), ["reshape", "softmax", "reshape"]),
    (one("Softmax", [[2, 3, 4]], axis=-1, opset=11), ["softmax"]),
    (one("Softmax", [[2, 3, 4]], opset=9), ["reshape", "softmax", "reshape"]),
    (one("Softmax", [[2, 3, 1, 1]], opset=9), ["softmax"]),
    (one("Softmax", [[2, 3, 4]], axis=0, opset=12), ["reshape", "softmax", "reshape"]),
    # layout
    (one("Flatten", [IMAGE]), ["reshape"]),
    (one("Flatten", [IMAGE], axis=-1, opset=11), ["reshape"]),
    (one("Flatten", [IMAGE], axis=0), ["reshape"]),
    (one("Reshape", [IMAGE], weights=[ints("s", 0, -1, 6)]), ["reshape"]),
    (one("Squeeze", [[1, 3, 1]]), ["reshape"]),
    (one("Squeeze", [[1, 3, 1]], axes=[0], opset=11), ["reshape"]),
    (one("Squeeze", [[1, 3, 1]], weights=[ints("a", -1)]), ["reshape"]),
    (one("Unsqueeze", [[3, 2]], axes=[0, 3], opset=9), ["reshape"]),
    (one("Unsqueeze", [[3, 2]], weights=[ints("a", -1, 0)]), ["reshape"]),
    (one("Transpose", [[2, 3, 4]]), ["transpose"]),
    (one("Transpose", [[2, 3, 4]], perm=[1, 0, 2]), ["transpose"]),
    (one("Concat", [[2, 3], [2, 1], [2, 2]], axis=1), ["concat"]),
    (one("Concat", [[2, 3], [1, 3]], axis=-2, opset=11), ["concat"]),
    (one("Slice", [[6, 5]], starts=[1, -3], ends=[5, 100], opset=9), ["slice", "slice"]),
    (one("Slice", [[6, 5]], weights=[ints("s", -4), ints("e", -1), ints("a", 0), ints("t", 2)]), ["slice"]),
    (one("Slice", [[6, 5]], weights=[ints("s", 0), ints("e", 1 << 62)]), []),
    (one("Slice", [[6, 5]], weights=[ints("s", 2, 1), ints("e", 6, 4), ints("a", -2, 1)]),
     ["slice", "slice"]),
    (one("Pad", [[2, 3, 4]], pads=[0, 1, 2, 0, 0, 1], value=0.5, opset=10), ["pad"]),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 0, 1, 2, 0, 0, 1)]), ["pad"]),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 1, 2), weight("v", 3.0), ints("a", -1)], opset=18), ["pad"]),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 0, 0, 0, 0, 0, 0)]), []),
    (one("Expand", [[3, 1]], weights=[ints("s", 2, 1, 4)]), ["expand"]),
    (one("Expand", [[3, 1]], weights=[ints("s", 1)]), []),
    (one("Gather", [[3, 5]], weights=[weight("i", [[0, -1], [2, 1]], np.int64)], axis=-1), ["gather"]),
    (one("Gather", [[3, 5]], weights=[weight("i", 1, np.int32)]), ["slice", "reshape"]),
    (one("Identity", [[3, 5]]), []),
    (one("Dropout", [[3, 5]], ratio=0.5, opset=9), []),
    (one("Dropout", [[3, 5]], weights=[weight("r", 0.5), weight("t", False, np.bool_)]), []),
]  # fmt: skip


def named(m):
    n = m.graph.node[0]
    attrs = "-".join(f"{a.name}{onnx.helper.get_attribute_value(a)}" for a in n.attribute)
    return f"{n.op_type}-{m.opset_import[0].version}-{attrs}".replace(" ", "")


@pytest.mark.parametrize(("m", "expected"), MODELLED, ids=[named(m) for m, _ in MODELLED])
def test_a_form_that_is_modelled(m, expected):
    imported = check(m)
    assert ops(imported.graph) == expected
    assert not imported.coverage.opaque


def test_automatic_padding_counts_dilations():
    """ONNX Runtime refuses this combination, so the test states the explicit pads that ONNX defines."""
    w = [normal("w", 4, 3, 3, 3)]
    auto = one("Conv", [IMAGE], weights=w, auto_pad="SAME_LOWER", dilations=[2, 1], strides=[2, 2])
    explicit = one("Conv", [IMAGE], weights=w, pads=[2, 1, 2, 0], dilations=[2, 1], strides=[2, 2])
    assert load_onnx(auto).structural_hash() == load_onnx(explicit).structural_hash()


OPAQUE = [
    (one("Conv", [[2, 3, 9]], weights=[normal("w", 4, 3, 3)]), "over 1 axes"),
    (one("Conv", [[1, 2, 4, 4, 4]], weights=[normal("w", 4, 2, 2, 2, 2)]), "over 3 axes"),
    (one("MaxPool", [[2, 3, 9]], kernel_shape=[2]), "over 1 axes"),
    (one("AveragePool", [IMAGE], kernel_shape=[2, 2], dilations=[2, 2], opset=19), "dilations"),
    (one("BatchNormalization", [[3]], weights=[weight(name, [1]) for name in "sbmv"]), "rank-1"),
    (one("Slice", [[6, 5]], weights=[ints("s", -1), ints("e", -7), ints("a", 0), ints("t", -1)]),
     "backwards"),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 1, 0, 0, 0, 0, 0)]), "other axes than the last two"),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 0, 0, -1, 0, 0, 0)]), "must not be negative"),
    (one("Pad", [[2, 3, 4]], weights=[ints("p", 0, 0, 1, 0, 0, 1)], mode="reflect"), "mode=reflect"),
    (one("Clip", [[2, 3], []]), "bound is computed at run time"),
    (one("Clip", [[2, 3]], weights=[weight("lo", 1.0), weight("hi", 0.0)]), "bounds out of order"),
    (one("Elu", [[2, 3]]), "not modelled"),
    (one("LRN", [IMAGE], size=3), "not modelled"),
]  # fmt: skip


@pytest.mark.parametrize(("m", "reason"), OPAQUE, ids=[named(m) for m, _ in OPAQUE])
def test_a_form_that_is_kept_opaque_says_why(m, reason):
    imported = check(m)
    assert ops(imported.graph) == ["opaque"]
    ((_, said),) = imported.coverage.reasons()
    assert reason in said


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Neg", "Abs", "ReduceSum"])
def test_integer_arithmetic_is_kept_opaque(op_type):
    count = 2 if op_type in ("Add", "Sub", "Mul", "Div", "Max") else 1
    names = ["x", "z"][:count]
    m = model(
        [node(op_type, " ".join(names), "y")],
        [value(n, [2, 3], INT64) for n in names],
        [value("y", None, INT64)],
        opset=14,
    )

    def expected(feeds):
        shifted = {k: v + 1 for k, v in feeds.items()}
        feeds.update(shifted)
        return run_model(m, feeds)

    imported = check(m, against=expected)
    assert ops(imported.graph) == ["opaque"]
    ((_, reason),) = imported.coverage.reasons()
    assert "floating-point" in reason


def test_integers_may_be_moved_about():
    m = model(
        [
            node("Reshape", "x s", "r"), node("Transpose", "r", "t"), node("Concat", "t t", "c", axis=0),
            node("Cast", "c", "y", to=FLOAT),
        ],
        [value("x", [2, 3], INT64)], [value("y", None)], [ints("s", 3, 2)],
    )  # fmt: skip
    assert ops(check(m).graph) == ["reshape", "transpose", "concat", "cast"]


def test_empty_tensors_are_kept_opaque():
    m = model(
        [node("Concat", "x z", "y", axis=0)], [value("x", [0, 3]), value("z", [2, 3])], [value("y", [2, 3])]
    )
    imported = check(m)
    assert ops(imported.graph) == ["opaque"]
    assert "must not be empty" in next(iter(imported.coverage.reasons()))[1]


def test_results_after_the_first_make_an_operator_opaque_only_when_read():
    pool = helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2])
    ins = [value("x", [1, 1, 4, 4])]
    quiet = model([pool, node("Relu", "p", "y")], ins, [value("y", None)])
    assert ops(check(quiet).graph) == ["maxpool", "relu"]
    read = model([pool, node("Relu", "p", "y")], ins, [value("y", None), value("i", None, INT64)])
    imported = check(read)
    assert imported.coverage.opaque == {"MaxPool": 1}
    norm = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean"])
    m = model([norm], [value("x", [2, 4])], [value("y", None), value("mean", None)], [normal("s", 4)])
    assert check(m).coverage.reasons() == {
        ("LayerNormalization", "result 1 of LayerNormalization is used"): 1
    }


SPLITS = [
    ({"opset": 9, "split": [2, 5]}, ()),
    ({"opset": 11, "split": [2, 5], "axis": -1}, ()),
    ({"opset": 13}, [2, 5]),
    ({"opset": 18}, [2, 5]),
    ({"opset": 18, "num_outputs": 2}, ()),
]


@pytest.mark.parametrize(("form", "sizes"), SPLITS)
def test_every_form_of_split_is_slices_and_comes_back_as_split(form, sizes):
    form = {"axis": 1, **form}
    opset = form.pop("opset")
    weights = [ints("k", *sizes)] if sizes else []
    split = helper.make_node("Split", ["x", *(["k"] if sizes else [])], ["a", "b"], **form)
    m = model([split], [value("x", [2, 7])], [value("a", None), value("b", None)], weights, opset)
    imported = check(m)
    assert ops(imported.graph) == ["slice", "slice"]
    for target in (9, 13, 18, 22):
        again = to_onnx(imported.graph, opset=target)
        assert [n.op_type for n in again.graph.node] == ["Split"]
        assert list(again.graph.node[0].output) == ["a", "b"]


def test_inputs_and_outputs_keep_names_order_and_oddities():
    """Test an unused input, an output that is an input, a constant output and a value under two names."""
    m = model(
        [
            node("Relu", "b", "mid"), node("Identity", "mid", "same"), node("Identity", "a", "copy"),
            helper.make_node("Constant", [], ["fixed"], value=weight("", [1.0, 2.0])),
        ],
        [value("b", [2]), value("unused", [3, 3]), value("a", [4])],
        [value(n, [4 if n == "copy" else 2]) for n in ("same", "mid", "copy", "fixed", "b", "w")],
        [weight("w", [3.0, 4.0])],
    )  # fmt: skip
    imported = check(m)
    graph = imported.graph
    assert list(graph.input_types) == ["b", "unused", "a"]
    assert list(graph.output_types) == ["same", "mid", "copy", "fixed", "b", "w"]


def test_a_model_without_inputs_or_nodes():
    m = model([], [], [value("w", [2])], [weight("w", [3.0, 4.0])])
    assert ops(check(m).graph) == []
    m = model([], [value("x", [2])], [value("x", [2])])
    assert ops(check(m).graph) == []


def test_scalars_stay_scalars():
    m = model([node("Mul", "x w", "y")], [value("x", [])], [value("y", [])], [weight("w", 3.0)])
    graph = check(m).graph
    assert graph.output_types["y"].shape == ()
    assert next(t for t in to_onnx(graph).graph.initializer).dims == []


def test_weights_keep_their_names_and_are_not_stored_twice():
    m = model(
        [node("MatMul", "x w", "h"), node("MatMul", "h w", "y")], [value("x", [2, 4])], [value("y", [2, 4])],
        [normal("w", 4, 4), normal("never", 3)],
    )  # fmt: skip
    graph = check(m).graph
    assert list(graph.weights) == ["w"]
    assert [t.name for t in to_onnx(graph).graph.initializer] == ["w"]


def test_a_decided_branch_takes_the_place_of_its_if():
    def graph(name, nodes, out, weights=()):
        return helper.make_graph(nodes, name, [], [value(out, None)], weights)

    then = graph("then", [node("Mul", "x k", "t"), node("Relu", "t", "u")], "u", [normal("k", 2)])
    other = graph("else", [node("NonZero", "x", "t")], "t")
    m = model(
        [
            node("Shape", "x", "s"), node("Equal", "s two", "same"),
            helper.make_node("If", ["same"], ["b"], then_branch=then, else_branch=other),
            node("Mul", "b x", "t"), node("Add", "t b", "y"),
        ],
        [value("x", [2])], [value("y", [2])], [ints("two", 2)],
    )  # fmt: skip
    # The inner names also occur in the outer graph, which is legal because the scopes differ.
    imported = import_onnx(m)
    assert not imported.coverage.opaque
    assert ops(imported.graph) == ["mul", "relu", "mul", "add"]
    x = np.array([1.0, -2.0], np.float32)
    k = onnx.numpy_helper.to_array(then.initializer[0])
    b = np.maximum(x * k, 0)
    np.testing.assert_allclose(evaluate(imported.graph, {"x": x})["y"], b * x + b, rtol=1e-6)


def test_a_branch_that_returns_an_outer_value_is_spliced_too():
    then = helper.make_graph([node("Identity", "x", "t")], "t", [], [value("t", None)])
    other = helper.make_graph([node("Neg", "x", "e")], "e", [], [value("e", None)])
    m = model(
        [helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other), node("Relu", "b", "y")],
        [value("x", [2])], [value("y", [2])], [weight("c", False, np.bool_)],
    )  # fmt: skip
    assert ops(check(m).graph) == ["neg", "relu"]


def test_float_work_on_weights_waits_for_the_export_and_is_rounded_once():
    scale = np.float32(1e-4)
    big = weight("w", np.full((3, 3), 1 / 3))
    m = model(
        [node("Mul", "w a", "p"), node("Mul", "p b", "q"), node("MatMul", "x q", "y")],
        [value("x", [2, 3])], [value("y", None)], [big, weight("a", scale), weight("b", 1 / 3)],
    )  # fmt: skip
    graph = load_onnx(m)
    assert ops(graph) == ["mul", "mul", "matmul"]
    written = to_onnx(graph)
    assert [n.op_type for n in written.graph.node] == ["MatMul"]
    exact = np.float64(np.float32(1 / 3)) * np.float64(scale) * np.float64(np.float32(1 / 3))
    (folded,) = (onnx.numpy_helper.to_array(t) for t in written.graph.initializer)
    assert folded[0, 0] == np.float32(exact)


def test_attention_and_other_blocks_are_modelled_whole():
    """Test attention with softmax and layer normalisation as exporters write it, at two operator sets."""
    width, heads, length = 16, 4, 5
    weights = [normal(n, width, width, scale=0.3) for n in ("wq", "wk", "wv", "wo")]
    weights += [
        normal("g", width),
        normal("b", width),
        weight("scale", 2.0),
        weight("half", 0.5),
        weight("one", 1.0),
    ]
    weights += [
        ints("split", 2, length, heads, width // heads),
        ints("join", 2, length, width),
        weight("root", 2**0.5),
    ]
    weights += [normal("w1", width, 32), normal("w2", 32, width)]
    nodes = []
    for n in "qkv":
        nodes += [
            node("MatMul", f"x w{n}", n), node("Reshape", f"{n} split", f"{n}h"),
            node("Transpose", f"{n}h", f"{n}t", perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]),
        ]  # fmt: skip
    nodes += [
        node("MatMul", "qt kt", "a"), node("Div", "a scale", "s"), node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p vt", "o"), node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Reshape", "ot join", "oj"), node("MatMul", "oj wo", "m"), node("Add", "m x", "r"),
        node("LayerNormalization", "r g b", "n"), node("MatMul", "n w1", "f"), node("Div", "f root", "e0"),
        node("Erf", "e0", "e"), node("Add", "e one", "e1"), node("Mul", "f e1", "e2"),
        node("Mul", "e2 half", "gelu"), node("MatMul", "gelu w2", "f2"), node("Add", "f2 n", "y"),
    ]  # fmt: skip
    for opset in (17, 21):
        m = model(nodes, [value("x", [2, length, width])], [value("y", None)], weights, opset)
        imported = check(m)
        assert imported.coverage.fraction == 1.0
        assert imported.graph.operators()["matmul"] == 8


def test_separable_convolutions_and_residual_blocks_are_modelled_whole():
    nodes = [
        node("Conv", "x wd", "d", group=8, pads=[1, 1, 1, 1]),
        node("BatchNormalization", "d s b m v", "n"), node("Clip", "n zero six", "c"),
        node("Conv", "c wp bp", "p"), node("Add", "p x", "r"), node("Relu", "r", "k"),
        node("GlobalAveragePool", "k", "g"), node("Flatten", "g", "f"),
        node("Gemm", "f wf bf", "y", transB=1),
    ]  # fmt: skip
    weights = [
        normal("wd", 8, 1, 3, 3), normal("wp", 8, 8, 1, 1), normal("bp", 8), normal("wf", 5, 8),
        normal("bf", 5), normal("s", 8), normal("b", 8), normal("m", 8), weight("v", np.linspace(0.5, 2, 8)),
        weight("zero", 0.0), weight("six", 6.0),
    ]  # fmt: skip
    m = model(nodes, [value("x", [2, 8, 9, 9])], [value("y", None)], weights, 13)
    imported = check(m)
    assert imported.coverage.fraction == 1.0
    assert imported.graph.operators()["conv2d"] == 2


@pytest.mark.parametrize("opset", range(9, 27))
def test_a_small_network_at_every_operator_set(opset):
    """Test models converted by onnx itself from operator set 9 on, if its converter supports them."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "c", "r"),
        node("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", "m", "f"),
        node("Gemm", "f v u", "g"), node("Softmax", "g", "y", axis=1),
    ]  # fmt: skip
    weights = [normal("w", 4, 3, 3, 3), normal("b", 4), normal("v", 16, 6), normal("u", 6)]
    m = model(nodes, [value("x", [2, 3, 8, 8])], [value("y", [2, 6])], weights, 9)
    converted = onnx.version_converter.convert_version(m, opset)
    converted.ir_version = (
        m.ir_version if opset < 20 else helper.find_min_ir_version_for(converted.opset_import)
    )
    imported = check(converted)
    assert not imported.coverage.opaque
    assert not imported.graph.opaques


def test_the_type_of_an_import_shows_both():
    imported = import_onnx(MODELLED[0][0])
    assert repr(imported).splitlines()[0].startswith("Graph 'small'")
    assert "1 of 1 operators modelled" in repr(imported)
    assert imported.graph.weights["w"].type.dtype == "float32"
    assert TensorProto.FLOAT == FLOAT


def test_a_number_that_nodes_repeat_is_one_weight():
    half = onnx.numpy_helper.from_array(np.asarray(0.5, np.float32))
    nodes = [node("Constant", "", name, value=half) for name in ("c", "d")]
    nodes += [
        node("Mul", "x c", "p"),
        node("Mul", "x d", "q"),
        node("Add", "p a", "y"),
        node("Add", "q b", "z"),
    ]
    outputs = [value("y", [3]), value("z", [3])]
    graph = load_onnx(model(nodes, [value("x", [3])], outputs, [weight(n, [0.5]) for n in "ab"]))
    assert sorted(graph.weights) == ["a", "b", "c"]
