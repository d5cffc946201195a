"""OpenVINO and ncnn as targets: they compute what ONNX Runtime computes, or say why not."""

import numpy as np
import pytest

import workbench
from workbench.devices.device import DeviceMissing
from workbench.devices.targets import target
from workbench.studies.devices import other_runtimes as module
from workbench.studies.devices.other_runtimes import runtime_target


def network(batch=1):
    rng, b = np.random.default_rng(0), workbench.GraphBuilder("small")
    x = b.input("x", (batch, 3, 8, 8))
    w = b.weight(data=rng.standard_normal((4, 3, 3, 3)).astype("f4"))
    return b.graph({"y": b.op("relu", b.op("conv2d", x, w, pads=1))})


def installed(name):
    try:
        return runtime_target(name, 1)
    except DeviceMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", ["openvino", "ncnn"])
def test_a_runtime_times_a_graph(name):
    installed(name)
    found = target(name, threads=1)
    assert found.title.startswith(name)
    assert "1 thread, float32" in found.title
    with found.timers([network(), network()], 0) as timers:
        assert all(timer() > 0 for timer in timers)


def test_a_result_is_measured_on_openvino():
    installed("openvino")
    result = workbench.optimize(
        network(), cost="analytic", measure=1, measure_on="openvino", measure_seconds=0.1
    )
    assert result.measured.target.startswith("openvino")


def test_ncnn_takes_one_image_only():
    found = installed("ncnn")
    with (
        pytest.raises(RuntimeError, match=r"one image or text, got 'x': float32\[2, 3, 8, 8\]"),
        found.timers([network(batch=2)], 0),
    ):
        pass


@pytest.mark.parametrize("outputs", [[], [np.full((1, 4, 8, 8), 9.0, "f4")], [np.zeros(3, "f4")]])
def test_wrong_outputs_are_refused(outputs):
    def load(_model, _inputs, _threads):
        return lambda: outputs

    from workbench.frontends import to_onnx

    x = {"x": np.ones((1, 3, 8, 8), "f4")}
    with pytest.raises(RuntimeError, match="differ from ONNX Runtime's"):
        module.loaded(load, None, to_onnx(network()), x)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "pnnx" else name)
    with pytest.raises(DeviceMissing, match="ncnn needs pnnx, not installed"):
        target("ncnn")
