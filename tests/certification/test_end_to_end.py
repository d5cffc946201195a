"""Both saved models run as a whole in ONNX Runtime, in the model's own dtype."""

from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench
from workbench.certification import certify
from workbench.certification.end_to_end import probe, run_both, run_whole
from workbench.certification.tolerance import STATED, tolerance_of
from workbench.frontends import load_onnx, to_onnx
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder


def scaled(factor, *, folded):
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    w = b.weight((8, 8), name="w")
    s = b.weight(data=np.float32(factor), name="s")
    y = b.op("matmul", x, b.op("mul", w, s)) if folded else b.op("mul", b.op("matmul", x, w), s)
    return b.graph({"y": y})


def model(nodes, inputs, outputs, initial=(), opset=17, domains=()):
    infos = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    tensors = [onnx.numpy_helper.from_array(a, n) for n, a in initial]
    graph = helper.make_graph(nodes, "g", *infos, tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*d) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_equal_models_agree_to_rounding():
    run = run_whole(scaled(0.3, folded=False), scaled(0.3, folded=True))
    assert not run.why
    assert run.note.startswith("ONNX Runtime")
    assert 0 <= run.error < 1e-5
    assert set(run.errors) == {"y"}


def test_a_difference_is_named_with_output_and_entry():
    run = run_whole(scaled(0.3, folded=False), scaled(0.4, folded=True))
    assert run.output == "y"
    assert run.why.startswith("output 'y' at [")
    assert run.error > 0.1


def test_the_model_that_was_given_is_what_counts():
    graph = scaled(0.3, folded=False)
    other = to_onnx(scaled(0.5, folded=False))
    assert not run_whole(graph, graph).why
    assert "output 'y'" in run_whole(graph, graph, given=other).why
    assert not certify(graph, graph, given=other).passed


def test_values_are_compared_before_the_operators_that_both_files_end_with():
    """The places of entries that are not zero are the same in both; the products before them differ."""

    def graph(factor):
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["h"]),
            helper.make_node("NonZero", ["h"], ["y"]),
        ]
        weights = [("k", np.float32(factor))]
        return load_onnx(model(nodes, [("x", 1, [2, 3])], [("y", TensorProto.INT64, None)], weights))

    assert graph(2).info.tail
    same, other = (run_whole(graph(2), graph(factor)) for factor in (2, 3))
    assert (same.why, same.errors) == ("", {"h": 0.0})
    assert other.output == "h"


@pytest.mark.parametrize(("op", "dtype"), [("Div", TensorProto.INT64), ("Mod", TensorProto.INT32)])
def test_a_model_that_fails_on_the_first_draw_gets_gentler_inputs(op, dtype):
    proto = model(
        [helper.make_node(op, ["a", "b"], ["y"])], [("a", dtype, [4]), ("b", dtype, [4])], [("y", dtype, [4])]
    )
    graph = load_onnx(proto)
    run = run_whole(graph, graph, given=proto)
    assert not run.why
    assert run.note.startswith("ONNX Runtime")
    assert run.inputs["b"].all()


def test_an_operator_that_nothing_can_run_is_reported_and_is_not_a_failure():
    node = helper.make_node("Foo", ["x"], ["f"], domain="my.domain")
    proto = model(
        [node, helper.make_node("Relu", ["f"], ["y"])],
        [("x", 1, [2, 3])],
        [("y", 1, [2, 3])],
        domains=[("my.domain", 1)],
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("f", 1, [2, 3]))
    graph = load_onnx(proto)
    certificate = certify(graph, graph, given=proto)
    assert certificate.passed
    assert "my.domain" in certificate.whole
    assert "as saved not run" in certificate.verdict()


def test_a_result_that_cannot_be_written_is_a_failure_even_if_the_original_cannot_be_either():
    kept = helper.make_node("LRN", ["x"], ["y"], size=3)
    held = load_onnx(model([kept], [("x", 1, [1, 2, 3, 3])], [("y", 1, [1, 2, 3, 3])], opset=9))
    b = GraphBuilder()
    resized = b.op(
        "resize",
        b.input("x", (1, 2, 4, 4)),
        size=(3, 3),
        mode="nearest",
        coords="half_pixel",
        rounding="ceil",
    )
    (y,) = b.opaque(next(iter(held.opaques.values())), [resized])
    graph = b.graph({"y": y})
    assert "cannot be written" in run_whole(graph, replace(graph, name="other")).why


def test_a_result_of_another_rank_is_named_by_its_shape():
    inputs = [("x", 1, [2, 3])]
    first = model([helper.make_node("Relu", ["x"], ["y"])], inputs, [("y", 1, [2, 3])])
    more = [("axes", np.array([0]))]
    nodes = [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])]
    second = model(nodes, inputs, [("y", 1, [1, 2, 3])], more)
    found = run_both(session(first), session(second), load_onnx(first), 0, "runtime")
    assert "an array of shape (1, 2, 3) in the result" in found.why


@pytest.mark.slow
def test_a_loop_without_end_is_ended(monkeypatch):
    """Another operator that is not modelled leaves the short limit as it is."""
    monkeypatch.setattr("workbench.frontends.runtime.LOOP_SECONDS", 0.5)
    monkeypatch.setattr("workbench.certification.end_to_end.RUN_SECONDS", 1.0)
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["v", "v"], ["v2"])],
        "body",
        [helper.make_tensor_value_info(*v) for v in (("i", 7, []), ("c", 9, []), ("v", 1, [2]))],
        [helper.make_tensor_value_info(*v) for v in (("c2", 9, []), ("v2", 1, [2]))],
    )
    proto = model(
        [
            helper.make_node("Loop", ["m", "t", "x"], ["l"], body=body),
            helper.make_node("Relu", ["l"], ["y"]),
            helper.make_node("Shrink", ["x"], ["z"]),
        ],
        [("x", 1, [2])],
        [("y", 1, [2]), ("z", 1, [2])],
        [("m", np.array(2**62)), ("t", np.array(True))],
    )
    graph = load_onnx(proto)
    run = run_whole(graph, graph, given=proto)
    assert run.note == "not run: ONNX Runtime did not finish within 0.5 s"


def test_a_probe_sees_the_ranges_of_values_inside():
    b = GraphBuilder()
    x = b.input("x", (64,))
    inner = b.op("exp", x)
    graph = b.graph({"y": b.op("neg", inner)})
    seen = probe(graph, [i for i, node in enumerate(graph.nodes) if node.op == "exp"])
    (found,) = [r for i, r in seen.ranges.items() if graph.nodes[i].op == "exp"]
    assert 0 < found.least < 1 < found.most
    assert set(seen.outputs) == {"y"}
    run = run_whole(graph, graph, known=seen)
    assert run.outputs["y"] is seen.outputs["y"]


def test_the_coarsest_dtype_sets_the_tolerance():
    b = GraphBuilder()
    half = b.op("cast", b.input("x", (4,)), to="float16")
    assert tolerance_of(b.graph({"y": b.op("cast", half, to="float32")})) == STATED["float16"]
    assert tolerance_of(scaled(1.0, folded=False)) == 1e-4


def _angle(angle, dtype=np.float16):
    """Return a model of tan(w · 1.5) that needs no input, next to one that reads an input."""
    nodes = [
        helper.make_node("Mul", ["w", "factor"], ["angle"]),
        helper.make_node("Tan", ["angle"], ["tangent"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y, tangent = (helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "y", "tangent"))
    data = {"w": np.array(angle, dtype), "factor": np.array(1.5, dtype)}
    weights = [numpy_helper.from_array(value, name) for name, value in data.items()]
    graph = helper.make_graph(nodes, "angle", [x], [y, tangent], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_value_of_weights_alone_may_differ_as_much_as_another_rounding_of_them():
    # The product of the weights, 1501.5 and so on, is rounded to a multiple of 1 before the tangent.
    model = _angle([1001.0, 1003.0])
    graph = load_onnx(model)
    run = run_whole(graph, graph, given=model)
    assert not run.why
    assert not run.steady
    assert "weights are rounded otherwise" in run.note
    certificate = certify(graph, graph, given=model)
    assert certificate.passed
    assert f"({run.note})" in certificate.verdict()


def test_a_value_of_weights_alone_that_is_wrong_differs():
    model, wrong = _angle([0.5, 0.25]), _angle([0.5, 0.5])
    run = run_whole(load_onnx(model), load_onnx(wrong), given=model)
    assert run.why.startswith("output 'tangent' at [1]")


@pytest.mark.slow
def test_an_input_that_is_a_shape_is_not_drawn_against_the_declared_shapes():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[2] s) => (float[2,3] y) { y = ConstantOfShape(s) }'
    )
    found = workbench.optimize(model, cost="analytic", time=False).certificate
    assert found.passed
    assert "makes other shapes" in found.whole
