"""ONNX functions of composites: written with a model, run by others, read back as the operator."""

import numpy as np
import pytest

import workbench
from tests.kernels.composites.references import drawn
from tests.ops.operators import forget
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.files import library
from workbench.kernels.composites.onnx_function import DOMAIN, function, function_text, model, session
from workbench.ops.onnx_form import OpsetTooOld, without_kernel
from workbench.ops.types import TensorType


@pytest.fixture
def rms():
    yield workbench.kernels.composite(
        "own_rms",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )
    forget("own_rms")


def graph():
    b = workbench.GraphBuilder("demo")
    x = b.op("own_rms", b.input("x", (4, 8)), b.weight((8,)), eps=0.5)
    return b.graph({"y": b.op("own_rms", x, b.weight((8,)), eps=0.25)})


def test_a_model_carries_the_function_once(rms, tmp_path):
    written = workbench.to_onnx(graph())
    assert [(f.domain, f.name) for f in written.functions] == [(DOMAIN, "own_rms")]
    assert [n.op_type for n in written.graph.node] == ["own_rms", "own_rms"]


def test_the_call_is_read_back_and_any_runtime_runs_it(rms, tmp_path):
    import onnxruntime

    path = tmp_path / "rms.onnx"
    workbench.save_onnx(graph(), path)
    back = workbench.load_onnx(path)
    assert [n.named_attrs()["eps"] for n in back.nodes if n.op == "own_rms"] == [0.5, 0.25]
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(found, workbench.evaluate(back, {"x": x})["y"], rtol=1e-5)
    assert not without_kernel("own_rms")


def test_without_the_declaration_the_file_is_read_as_primitives(rms, tmp_path):
    path = tmp_path / "rms.onnx"
    workbench.save_onnx(graph(), path)
    wanted = workbench.load_onnx(path)
    forget("own_rms")
    back = workbench.load_onnx(path)
    assert "own_rms" not in {n.op for n in back.nodes}
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    workbench.kernels.composite(
        "own_rms",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )
    np.testing.assert_allclose(
        workbench.evaluate(back, {"x": x})["y"], workbench.evaluate(wanted, {"x": x})["y"], rtol=1e-5
    )


def test_a_function_of_the_same_name_that_computes_something_else_is_not_the_operator(rms, tmp_path):
    path = tmp_path / "rms.onnx"
    workbench.save_onnx(graph(), path)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    wanted = workbench.evaluate(workbench.load_onnx(path), {"x": x})["y"]
    workbench.kernels.composite(
        "own_rms", "x{T}[~ D], g{T}[D] -> y{T}[~ D]", "y[~ d] = x[~ d] * g[d]", eps=1e-5
    )
    back = workbench.load_onnx(path)
    assert "own_rms" not in {n.op for n in back.nodes}
    np.testing.assert_allclose(workbench.evaluate(back, {"x": x})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["rms", "attention", "im2col", "linear", "conv", "taken", "add_norm"])
@pytest.mark.parametrize("opset", [15, 17, 18, 21])
def test_the_reference_evaluator_runs_functions_of_several_operator_sets(name, opset):
    from onnx.reference import ReferenceEvaluator

    composite = library()[name]
    operands = [
        x if x.dtype == np.int64 else x.astype(np.float32)
        for x in drawn(composite, np.random.default_rng(3), 1)
    ]
    made = model(bind(composite, [TensorType.of(x) for x in operands]), opset)
    feeds = {t.name: x for t, x in zip(composite.inputs, operands, strict=True)}
    (found,) = ReferenceEvaluator(made).run(None, feeds)
    np.testing.assert_allclose(found, evaluate(composite, operands), rtol=1e-4, atol=1e-4)


def test_operands_broadcast_along_leading_axes():
    rng = np.random.default_rng(0)
    x, r = rng.standard_normal((3, 1, 4)), rng.standard_normal((5, 4))
    operands = [a.astype(np.float32) for a in (x, r, np.ones(4), np.zeros(4))]
    found = session(library()["add_norm"], operands)()
    assert found.shape == (3, 5, 4)
    np.testing.assert_allclose(found, evaluate(library()["add_norm"], operands), rtol=1e-4, atol=1e-5)


def test_floored_quotients_of_negative_places():
    from workbench.kernels.composites import parse

    c = parse("c", "x{T}[N] -> y{T}[N]", "y[i] = x[i] + (i - 3) // 2 + (i - 3) % 2")
    operands = [np.zeros(6, np.float32)]
    np.testing.assert_array_equal(session(c, operands)(), evaluate(c, operands))


def test_an_old_operator_set_is_refused():
    with pytest.raises(OpsetTooOld, match="15 or newer"):
        function(library()["rms"], 13)


def test_text_names_the_function():
    assert "rms (x, g) => (y)" in function_text(library()["rms"])
