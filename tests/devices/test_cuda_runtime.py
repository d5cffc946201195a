import warnings

import onnxruntime
import pytest

from tests.devices.graphs import image, products
from workbench.devices.cuda_runtime import OnnxRuntimeOnCuda
from workbench.devices.device import DeviceMissing
from workbench.devices.targets import target
from workbench.frontends.runtime import RuntimeFailure
from workbench.graph import GraphBuilder


class OnCpu(OnnxRuntimeOnCuda):
    """The same program with the CPU's memory and provider, to run it without a GPU."""

    MEMORY = "cpu"
    PROVIDER = "CPUExecutionProvider"

    def options(self):
        return {}


@pytest.fixture(autouse=True)
def _one_provider_twice():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate provider")
        yield


def test_models_are_timed_with_inputs_and_results_in_the_devices_memory():
    with OnCpu().timers([products(), image()], 0) as timers:
        assert all(timer() > 0 for timer in timers)


def test_results_of_open_shape_are_bound_by_name_but_not_in_a_cuda_graph(monkeypatch):
    from workbench.frontends import runtime

    load = runtime.session

    class Open:
        """A session of which no result has a fixed shape."""

        def __init__(self, held):
            self.held = held

        def __getattr__(self, name):
            return getattr(self.held, name)

        def get_outputs(self):
            return [
                type("Output", (), {"name": o.name, "type": o.type, "shape": ["n"]})
                for o in self.held.get_outputs()
            ]

        def run_with_iobinding(self, binding, options):
            self.held.run_with_iobinding(binding, options)

    monkeypatch.setattr(runtime, "session", lambda *a, **k: Open(load(*a, **k)))
    with OnCpu().timers([products()], 0) as (timer,):
        assert timer() > 0
    with pytest.raises(RuntimeFailure, match="CUDA graph needs results of fixed shape"):
        OnCpu(graph=True).timers([products()], 0).__enter__()


def test_a_runtime_without_cuda_says_what_to_install(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    for name in ("onnxruntime:cuda", "onnxruntime:cuda:1+graph"):
        with pytest.raises(DeviceMissing, match=r"has no CUDAExecutionProvider .*onnxruntime-gpu"):
            target(name)


def test_a_provider_that_does_not_load_is_a_failure_and_not_the_cpu(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeFailure, match="CUDAExecutionProvider"):
            target("onnxruntime:cuda").timers([products()], 0).__enter__()


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA failure 2: out of memory"), MemoryError("out of memory")]
)
def test_what_fails_while_it_runs_is_a_failure_of_the_runtime(monkeypatch, error):
    def fails(self, loaded, feeds):
        raise error

    monkeypatch.setattr(OnCpu, "_bound", fails)
    with pytest.raises(RuntimeFailure, match=r"ONNX Runtime failed: .*out of memory"):
        OnCpu().timers([products()], 0).__enter__()


def test_the_options_say_what_the_settings_are(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    found = target("onnxruntime:cuda:1+graph", tf32=True)
    assert (found.index, found.graph, found.tf32) == (1, True, True)
    assert found.options() == {
        "device_id": 1, "use_tf32": 1, "cudnn_conv_algo_search": "EXHAUSTIVE", "enable_cuda_graph": 1,
    }  # fmt: skip
    assert found.title.endswith("GPU 1, TF32, its optimiser on, as a CUDA graph")
    assert "no TF32" in target("onnxruntime:cuda").title


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["onnxruntime:cuda", "onnxruntime:cuda+graph"])
def test_models_are_timed_on_a_gpu(gpu, name):
    try:
        on = target(name)
    except DeviceMissing as missing:
        pytest.skip(str(missing))
    b = GraphBuilder("half")
    half = b.graph({"y": b.op("relu", b.input("x", (4, 8), dtype="float16"))})
    for graph in (products(), image(), half):
        with on.timers([graph], 0) as (timer,):
            assert timer() > 0
