"""Choices by truth values: their values, what they refuse, and parts of them that are read."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench
from workbench.frontends import import_onnx, to_onnx
from workbench.frontends.runtime import run_model
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TypeMismatch


def test_an_element_is_that_of_x_where_the_condition_holds():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("select", b.input("c", (2, 1), "bool"), b.input("x", (3,)), b.input("z", ()))})
    feeds = {"c": np.array([[True], [False]]), "x": np.arange(3, dtype=np.float32), "z": np.float32(7)}
    wanted = np.array([[0, 1, 2], [7, 7, 7]], np.float32)
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], wanted)
    np.testing.assert_array_equal(run_model(to_onnx(graph), feeds)["y"], wanted)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ((("float32", (3,)), ("float32", (3,)), ("float32", (3,))), "truth values"),
        ((("bool", (3,)), ("int64", (3,)), ("int64", (3,))), "floating-point"),
        ((("bool", (3,)), ("float32", (3,)), ("float64", (3,))), "element types differ"),
        ((("bool", (2,)), ("float32", (3,)), ("float32", (3,))), "broadcast"),
    ],
)
def test_operands_that_do_not_fit_are_refused(kinds, message):
    b = GraphBuilder()
    with pytest.raises(TypeMismatch, match=message):
        b.op("select", *(b.input(f"x{i}", shape, dtype) for i, (dtype, shape) in enumerate(kinds)))


def model(nodes, inputs, output, constants=()):
    return helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(*output)],
            [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )


@pytest.mark.slow
def test_rows_that_are_masked_entirely_are_zero_as_torch_writes_it():
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], axis=-1),
        helper.make_node("IsNaN", ["p"], ["n"]),
        helper.make_node("Where", ["n", "zero", "p"], ["y"]),
    ]
    given = model(
        nodes, [("x", 1, (2, 3))], ("y", TensorProto.FLOAT, (2, 3)), [("zero", np.zeros(1, np.float32))]
    )
    imported = import_onnx(given)
    assert not imported.graph.opaques
    feeds = {"x": np.array([[-np.inf] * 3, [0, 0, -np.inf]], np.float32)}
    wanted = np.array([[0, 0, 0], [0.5, 0.5, 0]], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(evaluate(imported.graph, feeds)["y"], wanted)
    result = workbench.optimize(given, cost="analytic", time=False)
    assert result.certificate.passed
    np.testing.assert_allclose(run_model(to_onnx(result.graph), feeds)["y"], wanted)


def test_a_choice_between_whole_numbers_stays_as_it_is():
    inputs = [("c", TensorProto.BOOL, (3,)), ("a", TensorProto.INT64, (3,)), ("b", TensorProto.INT64, (3,))]
    given = model([helper.make_node("Where", list("cab"), ["y"])], inputs, ("y", TensorProto.INT64, (3,)))
    ((record),) = import_onnx(given).graph.opaques.values()
    assert record.op_type == "Where"
    assert "int64" in record.reason


@pytest.mark.parametrize(
    "rows", [(8, 8, 8), (8, 8, 1), (8, 1, 8), (8, 1, 1), (1, 8, 8), (1, 8, 1), (1, 1, 8)], ids=str
)
def test_a_part_is_chosen_from_parts(rows):
    b = GraphBuilder()
    names = zip("cxz", ("bool", "float32", "float32"), rows, strict=True)
    chosen = b.op("select", *(b.input(name, (4, extent, 16), dtype) for name, dtype, extent in names))
    graph = b.graph({"y": b.op("slice", chosen, axis=-2, start=3, stop=4)})
    result = workbench.optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    (kept,) = [n for n in result.graph.nodes if n.op == "select"]
    assert kept.tensor.shape == (4, 1, 16)
    assert result.cost_after < result.cost_before
