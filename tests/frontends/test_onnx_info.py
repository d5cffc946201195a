"""The content of a model file other than its computation is kept in the saved file."""

import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench
from tests.frontends.models import model, node, normal, run_model, value
from workbench.frontends import import_onnx, load_onnx, to_onnx
from workbench.graph import fold_constants

DOUBLE = TensorProto.DOUBLE


def documented():
    """Return two products of one operand, which rules merge, then an Exp; all with documentation."""
    nodes = [
        node("MatMul", "x w", "p"),
        node("MatMul", "x v", "q"),
        node("Add", "p q", "h"),
        node("Exp", "h", "y"),
    ]
    nodes[3].doc_string = "the last"
    nodes[3].metadata_props.add(key="layer", value="3")
    m = model(
        nodes, [value("x", [4, 8])], [value("y", [4, 16])], [normal("w", 8, 16), normal("v", 8, 16)], 13,
        value_info=[value("h", [4, 16]), value("p", [4, 16])],
    )  # fmt: skip
    m.ir_version = 7
    helper.set_model_props(m, {"author": "me", "labels": "cat,dog"})
    m.doc_string, m.domain, m.model_version = "model", "ai.me", 7
    m.producer_name, m.producer_version = "pt", "2.1"
    m.graph.doc_string = "graph"
    m.graph.input[0].doc_string = "image, RGB"
    m.graph.input[0].type.denotation = "IMAGE"
    m.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    m.graph.output[0].doc_string = "scores"
    m.graph.value_info[0].doc_string = "hidden"
    return m


def said(m):
    """Return the content of a model except its nodes and weights."""
    fields = ("ir_version", "doc_string", "domain", "model_version", "producer_name", "producer_version")
    found = {field: getattr(m, field) for field in fields}
    found["props"] = {p.key: p.value for p in m.metadata_props}
    found["opsets"] = {o.domain: o.version for o in m.opset_import}
    found |= {"name": m.graph.name, "graph": m.graph.doc_string}
    for side in ("input", "output"):
        found[side] = [v.SerializeToString(deterministic=True) for v in getattr(m.graph, side)]
    return found


def test_nothing_is_lost_where_nothing_is_rewritten():
    m = documented()
    written = to_onnx(load_onnx(m))
    assert said(written) == said(m)
    assert [n.SerializeToString() for n in written.graph.node] == [
        n.SerializeToString() for n in m.graph.node
    ]
    assert {v.name: v.doc_string for v in written.graph.value_info} == {"h": "hidden", "p": ""}


def test_what_survives_an_optimisation_keeps_its_names(tmp_path):
    m = documented()
    result = workbench.optimize(m, cost="analytic", time=False)
    assert result.graph.operators() != result.original.operators()
    result.save(tmp_path / "m.onnx")
    written = onnx.load(str(tmp_path / "m.onnx"))
    assert said(written) == said(m)
    last = written.graph.node[-1]
    assert (last.name, last.doc_string, list(last.input), list(last.output)) == (
        "Exp_y",
        "the last",
        ["h"],
        ["y"],
    )
    assert [p.value for p in last.metadata_props] == ["3"]
    assert [v.name for v in written.graph.value_info] == ["h"]


@pytest.mark.parametrize(
    "change", [fold_constants, lambda g: pickle.loads(pickle.dumps(g))], ids=["fold", "pickle"]
)
def test_what_is_said_goes_along(change):
    graph = change(load_onnx(documented()))
    assert said(to_onnx(graph)) == said(documented())
    assert [n.name for n in to_onnx(graph).graph.node][-1] == "Exp_y"


def test_a_skeleton_has_no_data():
    m = model(
        [node("Add", "x w", "y")], [value("x", [2]), value("w", [2])], [value("y", [2])], [normal("w", 2)]
    )
    graph = load_onnx(m, keep_inputs=True)
    assert graph.info.defaults["w"].shape == (2,)
    assert graph.skeleton().info.defaults == {}
    assert graph.skeleton().info.shell == graph.info.shell


def test_graphs_built_in_python_have_no_such_record():
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (2,)))})
    assert graph.info is None
    assert to_onnx(graph).producer_name == "workbench"
    assert to_onnx(graph).opset_import[0].version == 21


@pytest.mark.parametrize("opset", [9, 13, 18, 21, 22])
def test_the_operator_set_is_that_of_the_file(opset):
    m = model([node("Softsign", "x", "h"), node("Add", "h h", "y")], [value("x", [2, 3], DOUBLE)],
              [value("y", [2, 3], DOUBLE)], opset=opset)  # fmt: skip
    written = to_onnx(load_onnx(m))
    assert written.opset_import[0].version == opset
    assert written.ir_version == m.ir_version


def test_an_operator_set_is_raised_only_to_one_that_loads():
    # Before 10 slices have no step, and from 10 to 17 the runtime lacks Softsign of doubles.
    graph = load_onnx(
        model([node("Softsign", "x", "y")], [value("x", [6], DOUBLE)], [value("y", [6], DOUBLE)], opset=9)
    )
    b = workbench.GraphBuilder()
    b.opaques, b.info = dict(graph.opaques), graph.info
    x = b.input("x", (6,), "float64")
    y = b.op(
        "slice",
        b.apply("opaque", [x], graph.nodes[graph.output_ids[0]].attrs),
        axis=-1,
        start=0,
        stop=6,
        step=2,
    )
    written = to_onnx(b.graph({"y": y}))
    assert written.opset_import[0].version == 18
    data = np.arange(6.0)
    np.testing.assert_allclose(run_model(written, {"x": data})["y"], (data / (1 + data))[::2])


def test_a_newer_ir_version_than_the_runtime_reads_is_lowered():
    m = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", [2])])
    m.ir_version = onnx.IR_VERSION
    written = to_onnx(load_onnx(m))
    run_model(written, {"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize("shape", [[], [3]])
def test_a_transposition_of_nothing_is_written(shape):
    m = model([node("Transpose", "x", "t"), node("Exp", "t", "y")], [value("x", shape)], [value("y", shape)])
    x = np.ones(shape, np.float32)
    np.testing.assert_array_equal(
        run_model(to_onnx(import_onnx(m).graph), {"x": x})["y"], run_model(m, {"x": x})["y"]
    )
    only = model([node("Transpose", "x", "y")], [value("x", shape)], [value("y", shape)])
    np.testing.assert_array_equal(run_model(to_onnx(import_onnx(only).graph), {"x": x})["y"], x)
