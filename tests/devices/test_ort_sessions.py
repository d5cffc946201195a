"""Models that are loaded when they are needed, and the kernels that the runtime makes of them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench
from tests.devices.graphs import products
from workbench.devices import ort_sessions
from workbench.devices.ort_sessions import Loaded
from workbench.devices.targets import OnnxRuntime
from workbench.frontends import runtime, to_onnx
from workbench.frontends.onnx.file import Apart
from workbench.frontends.runtime import RuntimeFailure


def feeds(session):
    return {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()}


def convolution(times, channels=16):
    """Return a convolution and a relu; ONNX Runtime folds the normalisations in between."""
    b = workbench.GraphBuilder()
    y = b.op("conv2d", b.input("x", (1, 3, 16, 16)), b.weight((channels, 3, 3, 3)))
    for _ in range(times):
        y = b.op("batchnorm", y, *(b.weight(data=np.ones(channels, np.float32)) for _ in range(4)))
    return b.graph({"y": b.op("relu", y)})


def test_nothing_is_loaded_before_it_is_needed(monkeypatch):
    def refuse(*given, **settings):
        raise AssertionError("a session was made")

    monkeypatch.setattr("workbench.frontends.runtime.session", refuse)
    with OnnxRuntime(threads=1).timers([products(), products()], 0) as timers:
        assert len(timers) == 2
        with pytest.raises(AssertionError, match="a session was made"):
            timers[0]()


def test_a_call_takes_microseconds_and_records_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    timer = Loaded(products(), feeds, 1)
    assert timer() > 0
    assert timer.load() is timer.load()
    assert sum(timer.kernels.values()) >= 2
    assert list(tmp_path.iterdir()) == []


def test_a_normalisation_that_the_runtime_folds_leaves_the_same_kernels():
    once, twice, wider = (
        Loaded(convolution(times, n), feeds, 1).kernels for times, n in ((1, 16), (2, 16), (2, 32))
    )
    assert once == twice
    assert once != wider
    assert not any("BatchNormalization" in kernel for kernel in once)


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_model_that_is_given_twice_has_two_sessions(monkeypatch, large):
    """Sessions of one model differ by their places in memory, and a gain must exceed that."""
    monkeypatch.setattr(ort_sessions, "LARGE", large)
    model = Apart(to_onnx(products()), {})
    with OnnxRuntime(threads=1).timers([model, model], 0) as (first, second):
        assert first.load() is not second.load()
        assert first.kernels == second.kernels


class Counted:
    """A session that notes its runs."""

    def __init__(self, session, runs):
        self._session, self._runs = session, runs

    def __getattr__(self, name):
        return getattr(self._session, name)

    def run(self, *given):
        self._runs.append(given)
        return self._session.run(*given)


@pytest.mark.parametrize(("long", "more"), [(1e9, 1), (0.0, 0)])
def test_a_slow_model_that_is_loaded_again_is_not_run_once_more(monkeypatch, long, more):
    runs, real = [], runtime.session
    monkeypatch.setattr(runtime, "session", lambda *a, **k: Counted(real(*a, **k), runs))
    monkeypatch.setattr(ort_sessions, "LONG", long)
    model = Loaded(products(), feeds, 1)
    assert model.kernels
    assert len(runs) == 1
    model.unload()
    assert model() > 0
    assert len(runs) == 2 + more


def test_a_model_with_a_loop_is_run_under_a_limit_and_has_no_kernels(monkeypatch):
    monkeypatch.setattr("workbench.frontends.runtime.LOOP_SECONDS", 0.3)
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "y")]
    inner = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
        ],
    )
    turns = onnx.numpy_helper.from_array(np.array(3, np.int64), "turns")
    always = onnx.numpy_helper.from_array(np.array(True), "always")
    node = helper.make_node("Loop", ["turns", "always", "x"], ["y"], body=inner)
    for names, ends in ((["turns", "always", "x"], True), (["", "always", "x"], False)):
        node.input[:] = names
        graph = helper.make_graph([node], "loop", value[:1], value[1:], [turns, always])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        timer = Loaded(model, feeds, 1)
        if ends:
            assert timer.kernels is None
            assert timer() > 0
        else:
            with pytest.raises(RuntimeFailure, match=r"within 0\.3 s"):
                timer.load()
