"""Repetition of an axis: its type, its ONNX form, and how it is recognised in what exporters write."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from workbench.frontends import import_onnx, to_onnx
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch


def repeated(axis, times, shape=(2, 3, 4)):
    b = GraphBuilder()
    return b.graph({"y": b.op("repeat", b.input("x", shape), axis=axis, times=times)})


def written(apart, wide, joined, shape=(2, 3, 4, 5), dtype=TensorProto.FLOAT):
    """Return a model that reshapes to ``apart``, expands to ``wide`` and reshapes to ``joined``."""
    shapes = {"a": apart, "b": wide, "c": joined}
    nodes = [
        helper.make_node("Reshape", ["x", "a"], ["u"]),
        helper.make_node("Expand", ["u", "b"], ["v"]),
        helper.make_node("Reshape", ["v", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, joined)],
        [onnx.numpy_helper.from_array(np.array(s, np.int64), n) for n, s in shapes.items()],
    )
    return import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).graph


@pytest.mark.parametrize(("axis", "shape"), [(-1, (2, 3, 12)), (-2, (2, 9, 4)), (-3, (6, 3, 4))])
def test_entries_are_repeated_in_place(axis, shape):
    graph = repeated(axis, 3)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (y,) = evaluate(graph, {"x": x}).values()
    assert y.shape == shape
    np.testing.assert_array_equal(y, np.repeat(x, 3, axis))


def test_an_axis_must_exist_and_be_repeated():
    with pytest.raises(TypeMismatch, match="axis"):
        repeated(-4, 2)
    with pytest.raises(TypeMismatch, match="at least once"):
        repeated(-1, 0)


@pytest.mark.parametrize("axis", [-1, -2, -3])
@pytest.mark.parametrize("times", [1, 4])
def test_it_is_written_as_plain_onnx_and_read_back(axis, times):
    graph = repeated(axis, times)
    model = to_onnx(graph)
    assert {n.op_type for n in model.graph.node} <= {"Reshape", "Expand", "Identity"}
    again = import_onnx(model).graph
    assert again.operators() == ({"repeat": 1} if times > 1 else {})
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for one, other in zip(
        evaluate(graph, {"x": x}).values(), evaluate(again, {"x": x}).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_no_tensor_of_five_axes_remains_of_repeated_keys():
    graph = written((2, 3, 1, 4, 5), (2, 3, 6, 4, 5), (2, 18, 4, 5))
    assert graph.operators() == {"repeat": 1}
    assert max(n.tensor.rank for n in graph.nodes) == 4
    (node,) = (n for n in graph.nodes if n.op == "repeat")
    assert (node.attr("axis"), node.attr("times")) == (-3, 6)


@pytest.mark.parametrize(
    ("dtype", "made"),
    [(TensorProto.FLOAT, {"resize": 1}), (TensorProto.INT64, {"reshape": 2, "expand": 1})],
)
def test_an_image_of_floating_point_numbers_is_resized_and_others_are_expanded(dtype, made):
    graph = written((1, 2, 4, 1, 3, 1), (1, 2, 4, 2, 3, 3), (1, 2, 8, 9), (1, 2, 4, 3), dtype)
    assert graph.operators() == made
    x = np.arange(24).reshape(1, 2, 4, 3).astype(helper.tensor_dtype_to_np_dtype(dtype))
    (y,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize(
    ("apart", "wide", "joined", "repeats"),
    [
        ((2, 1, 3, 4, 5), (2, 6, 3, 4, 5), (2, 18, 4, 5), 1),  # whole groups, one after another
        ((2, 3, 1, 4, 5), (2, 3, 6, 4, 5), (2, 3, 24, 5), 1),  # joined with another axis
        ((2, 3, 1, 4, 5), (2, 3, 6, 4, 5), (36, 4, 5), 1),  # joined with the batch, too
        ((2, 3, 1, 20), (2, 3, 6, 20), (2, 18, 4, 5), 1),  # joined, and another axis cut
        ((2, 3, 1, 4, 5), (2, 3, 1, 4, 5), (2, 3, 4, 5), 0),  # nothing is repeated
        ((1, 2, 3, 4, 5), (6, 2, 3, 4, 5), (12, 3, 4, 5), 0),  # a new first axis
    ],
)
def test_other_expansions_keep_their_meaning(apart, wide, joined, repeats):
    graph = written(apart, wide, joined)
    assert graph.operators().get("repeat", 0) == repeats
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    expected = np.broadcast_to(x.reshape(apart), wide).reshape(joined)
    np.testing.assert_array_equal(next(iter(evaluate(graph, {"x": x}).values())), expected)


@pytest.mark.parametrize(
    ("shape", "times", "made"),
    [
        ((2, 1, 3), (1, 4, 1), {"expand": 1}),
        ((2, 2, 3), (1, 4, 1), {"concat": 1}),
        ((2, 1, 3), (1, 4, 2), {"concat": 1, "expand": 1}),
        ((2, 2, 3), (1, 2, 2), {"opaque": 1}),
        ((2, 2, 3), (1, 5, 1), {"opaque": 1}),
    ],
)
def test_a_tiled_axis_of_one_entry_is_expanded_and_another_one_copied(shape, times, made):
    node = helper.make_node("Tile", ["x", "times"], ["y"])
    out = tuple(a * b for a, b in zip(shape, times, strict=True))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [onnx.numpy_helper.from_array(np.array(times, np.int64), "times")],
    )
    found = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).graph
    assert found.operators() == made
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    if "opaque" not in made:
        np.testing.assert_array_equal(next(iter(evaluate(found, {"x": x}).values())), np.tile(x, times))


def test_a_number_as_index_is_a_slice():
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))],
        [onnx.numpy_helper.from_array(np.array(-1, np.int64), "i")],
    )
    found = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).graph
    assert found.operators() == {"slice": 1, "reshape": 1}
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(next(iter(evaluate(found, {"x": x}).values())), x[:, -1])
