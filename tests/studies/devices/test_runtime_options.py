"""Options of ONNX Runtime: measured in alternation, printed as lines that run, never worse than the defaults."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench
from workbench.studies.devices import runtime_options as module
from workbench.studies.devices.runtime_options import CHOICES, Choice, runtime_options


@pytest.fixture
def model(tmp_path):
    b = workbench.GraphBuilder("small")
    x = b.input("x", (16, 32))
    path = tmp_path / "small.onnx"
    workbench.save_onnx(b.graph({"y": np.maximum(x @ b.weight((32, 8)), 0)}), path)
    return path


def test_every_choice_is_measured_and_the_lines_run(model, monkeypatch):
    monkeypatch.setattr(module, "PROGRAMS", {})  # other runtimes have tests of their own below
    found = runtime_options(model, seconds=0.5)
    names = [c.name for c in found.tried]
    assert {*CHOICES, "1 thread"} <= set(names)
    assert all(c.speedup > 0 and c.interval[0] <= c.speedup <= c.interval[1] for c in found.tried)
    assert found.best.faster or found.best.lines == ()
    space = {}
    exec(found.code(), space)
    (name,) = (i.name for i in space["session"].get_inputs())
    (y,) = space["session"].run(None, {name: np.ones((16, 32), "f4")})
    assert y.shape == (16, 8)
    assert found.summary()["best"] == found.best.name


def measuring(monkeypatch, ratios):
    """Let a choice have a fixed speed-up by its lines, with an interval of a tenth on both sides."""

    def measured(_model, choice, _shapes, _seconds, _comparisons):
        ratio = ratios(choice)
        return Choice(choice.name, choice.lines, ratio, (ratio - 0.1, ratio + 0.1)), 100.0

    monkeypatch.setattr(module, "_measured", measured)
    monkeypatch.setattr(module, "PROGRAMS", {})


def test_what_is_faster_is_joined_and_measured_anew(monkeypatch):
    single = {"level basic": 1.5, "level extended": 2.0, "1 thread": 1.3}
    measuring(monkeypatch, lambda c: single.get(c.name, 1.0) if len(c.lines) < 2 else 2.5)
    best = runtime_options("model.onnx").best
    assert (best.name, best.speedup) == ("level extended, 1 thread", 2.5)
    assert best.lines == (*CHOICES["level extended"], "options.intra_op_num_threads = 1")


@pytest.mark.parametrize("together", [0.8, 1.4])
def test_what_is_slower_together_is_not_taken(monkeypatch, together):
    single = {"level extended": 2.0, "1 thread": 1.3}
    measuring(monkeypatch, lambda c: single.get(c.name, 1.0) if len(c.lines) < 2 else together)
    assert runtime_options("model.onnx").best.name == "level extended"


def test_within_the_noise_the_defaults_stay(monkeypatch):
    measuring(monkeypatch, lambda _: 1.05)
    found = runtime_options("model.onnx")
    assert found.best.lines == ()
    assert "defaults are the fastest" in str(found)
    assert "intra_op" not in found.code()


def test_a_limit_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="time limit must be positive, got 0"):
        runtime_options("model.onnx", seconds=0)


@pytest.mark.slow
def test_another_runtime_is_measured_beside_and_its_lines_run(tmp_path, monkeypatch):
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    path = tmp_path / "small.onnx"
    b = workbench.GraphBuilder("small")
    workbench.save_onnx(b.graph({"y": b.input("x", (2, 3)) + b.weight((3,))}), path)
    monkeypatch.setattr(module, "CHOICES", {})
    found = runtime_options(path, seconds=0.2)
    assert "openvino" in {c.name for c in found.tried}
    other = next(c for c in found.tried if c.runtime == "openvino")
    space = {}
    exec(replace(found, best=other).code(), space)
    assert isinstance(space["model"], openvino.CompiledModel)


@pytest.mark.slow
def test_torch_compile_is_measured_beside_and_its_lines_run(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "open.onnx"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    monkeypatch.setattr(module, "CHOICES", {})
    monkeypatch.setattr(module, "PROGRAMS", {"torch.compile": module.PROGRAMS["torch.compile"]})
    found = runtime_options(path, shapes={"x": (3, 4)}, seconds=0.2)
    assert not found.refused
    other = next(c for c in found.tried if c.runtime == "torch.compile")
    space = {}
    exec(replace(found, best=other).code(), space)
    with torch.no_grad():
        assert space["model"](-torch.ones(3, 4)).tolist() == [[0.0] * 4] * 3


def test_a_faster_runtime_is_the_best_and_one_that_refuses_the_model_is_told(monkeypatch):
    def measured(_model, choice, *_):
        if choice.runtime == "ncnn":
            raise RuntimeError("it lacks an operator")
        ratio = 2.0 if choice.runtime == "openvino" else 1.2
        return replace(choice, speedup=ratio, interval=(ratio - 0.1, ratio + 0.1)), 100.0

    monkeypatch.setattr(module, "_measured", measured)
    monkeypatch.setattr(module, "find_spec", lambda name: name in ("openvino", "ncnn"))
    found = runtime_options("some.onnx")
    assert found.best.name == "openvino"
    assert "compile_model('some.onnx', 'CPU'" in found.code()
    assert found.refused == {"ncnn": "it lacks an operator"}
    assert "ncnn: it lacks an operator" in str(found)
