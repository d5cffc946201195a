"""Sessions of ONNX Runtime."""

import tracemalloc

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontends.models import FLOAT, model, node, normal, value
from workbench.frontends import RuntimeFailure, load_onnx, opaque_runner, run_graph, run_model
from workbench.frontends.onnx.shape_inference import static_type
from workbench.frontends.runtime import inferred_types, may_not_end, run_session, session
from workbench.graph import GraphError, evaluate
from workbench.ops import TensorType


def test_a_model_runs_with_any_number_of_threads():
    m = model([node("MatMul", "x w", "y")], [value("x", [2, 3])], [value("y", None)], [normal("w", 3, 4)])
    feeds = {"x": np.ones((2, 3), np.float32)}
    results = [run_model(m, feeds, threads=t, optimise=o)["y"] for t in (None, 1, 2) for o in (True, False)]
    for result in results:
        np.testing.assert_allclose(result, results[0], rtol=1e-6)


def test_a_loaded_model_runs_again():
    m = model([node("Neg", "x", "y")], [value("x", [2])], [value("y", [2])])
    loaded = session(m, threads=1)
    for x in (1.0, 2.0):
        np.testing.assert_array_equal(run_session(loaded, {"x": np.full(2, x, np.float32)})["y"], [-x, -x])


def test_a_model_is_loaded_in_about_the_memory_of_its_weights():
    weight, shape = normal("w", 1024, 1024), [1024, 1024]
    summed = model([node("Add", "x w", "y")], [value("x", shape)], [value("y", shape)], [weight])
    tracemalloc.start()
    try:
        session(summed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(weight.raw_data)  # the text of the model alone has three characters for each byte


def test_element_types_that_numpy_lacks_go_in_and_out():
    import ml_dtypes

    m = model(
        [node("Cast", "x", "y", to=TensorProto.BFLOAT16), node("Cast", "x", "z", to=FLOAT)],
        [value("x", [3], TensorProto.BFLOAT16)],
        [value("y", [3], TensorProto.BFLOAT16), value("z", [3])],
    )
    x = np.array([1.5, -2, 0.25], ml_dtypes.bfloat16)
    found = run_model(m, {"x": x})
    assert found["y"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found["z"], x.astype(np.float32))


def test_what_the_runtime_refuses_is_an_error_of_ours():
    m = model(
        [helper.make_node("Thing", ["x"], ["y"], domain="my.own")], [value("x", [2])], [value("y", [2])],
        extra=[helper.make_opsetid("my.own", 1)],
    )  # fmt: skip
    with pytest.raises(RuntimeFailure, match="does not load 'small'"):
        run_model(m, {"x": np.ones(2, np.float32)})
    m = model([node("Neg", "x", "y")], [value("x", [2])], [value("y", [2])])
    with pytest.raises(RuntimeFailure, match="failed"):
        run_model(m, {"x": np.ones((5, 7), np.float32)})


def test_opaque_operators_run_inside_evaluate():
    m = model([node("Elu", "x", "h"), node("Relu", "h", "y")], [value("x", [3])], [value("y", [3])])
    graph = load_onnx(m)
    x = np.array([-1, 0, 2], np.float32)
    with pytest.raises(GraphError, match="Elu is opaque: it must have a runner, got none"):
        evaluate(graph, {"x": x})
    for precise in (False, True):
        found = evaluate(graph, {"x": x}, opaque=opaque_runner(), precise=precise)["y"]
        np.testing.assert_allclose(found, [0, 0, 2])
    np.testing.assert_allclose(run_graph(graph, {"x": x})["y"], [0, 0, 2])


def test_operators_without_a_kernel_run_in_the_reference():
    """ONNX Runtime does not accept elements smaller than a byte and has no kernel for int64 Relu."""
    import ml_dtypes

    m = model(
        [node("Relu", "x", "y")], [value("x", [3], TensorProto.INT64)], [value("y", None, TensorProto.INT64)]
    )
    graph = load_onnx(m)
    x = np.array([-1, 0, 2])
    np.testing.assert_array_equal(evaluate(graph, {"x": x}, opaque=opaque_runner())["y"], [0, 0, 2])
    m = model(
        [node("Cast", "x", "y", to=FLOAT)], [value("x", [3], TensorProto.INT4)], [value("y", [3])], opset=21
    )
    graph = load_onnx(m)
    found = evaluate(graph, {"x": x.astype(ml_dtypes.int4)}, opaque=opaque_runner())["y"]
    np.testing.assert_array_equal(found, [-1, 0, 2])


def test_an_operator_that_nothing_can_run_is_said_to_be_one():
    m = model(
        [helper.make_node("Thing", ["x"], ["y"], domain="my.own")], [value("x", [2])], [value("y", [2])],
        extra=[helper.make_opsetid("my.own", 1)],
    )  # fmt: skip
    (record,) = load_onnx(m).opaques.values()
    with pytest.raises(RuntimeFailure, match="does not load"):
        opaque_runner()(record, [np.ones(2, np.float32)])


def test_types_are_asked_without_running():
    x = helper.make_tensor_type_proto(FLOAT, [2, 3])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    versions = {"opset_imports": imports, "ir_version": 8}
    known = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.0)
    assert static_type(inferred_types(known, {"x": x}, **versions)["y"]) == TensorType("float32", (2, 3))
    unknown = helper.make_node("Thing", ["x"], ["y"], domain="com.microsoft")
    assert inferred_types(unknown, {"x": x}, **versions) == {}


def test_a_loop_at_any_depth_may_not_end():
    def looping(inside):
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["d"])],
            "body",
            [
                helper.make_tensor_value_info(n, k, [])
                for n, k in (("i", TensorProto.INT64), ("c", TensorProto.BOOL))
            ],
            [helper.make_tensor_value_info("d", TensorProto.BOOL, [])],
        )
        node = helper.make_node("Loop", ["", "t"], [], body=body)
        if inside:
            branch = helper.make_graph([node], "branch", [], [])
            node = helper.make_node("If", ["t"], [], then_branch=branch, else_branch=branch)
        return helper.make_model(helper.make_graph([node], "g", [], []))

    assert may_not_end(looping(False))
    assert may_not_end(looping(True))
    assert not may_not_end(
        helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], []))
    )
