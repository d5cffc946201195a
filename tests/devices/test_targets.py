"""Targets by name, the runs and timings of each, and the errors for targets that are not there."""

import contextlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench
from tests.devices.graphs import image, products
from tests.packages import install
from workbench.devices import targets
from workbench.devices.device import DeviceMissing
from workbench.devices.targets import Loaded, OnnxRuntime, checked_target, target
from workbench.frontends import runtime, to_onnx
from workbench.frontends.onnx.file import Apart
from workbench.frontends.runtime import RuntimeFailure
from workbench.graph import GraphBuilder, Opaque
from workbench.ops import TensorType
from workbench.support.messages import UnknownName
from workbench.torch.executor import NotExecutable, Skipped, Torch


def opaque():
    b = GraphBuilder()
    (y,) = b.opaque(Opaque("Twice", "own", (TensorType("float32", (4,)),)), [b.input("x", (4,))])
    return b.graph({"y": y})


def test_models_and_graphs_are_timed_in_onnx_runtime():
    runtime = target("onnxruntime")
    assert isinstance(runtime, OnnxRuntime)
    assert "its optimiser on" in runtime.title
    with runtime.timers([products(), to_onnx(products())], 0) as timers:
        assert all(timer() > 0 for timer in timers)


@pytest.mark.slow
def test_graphs_and_models_are_timed_in_torch(cpu):
    with_torch = target("torch")
    assert isinstance(with_torch, Torch)
    assert "torch" in with_torch.title
    with with_torch.timers([image(), to_onnx(image())], 0) as timers:
        assert all(timer() > 0 for timer in timers)
    with_torch.check(image())
    with pytest.raises(NotExecutable, match="Twice"):
        with_torch.check(opaque())
    OnnxRuntime().check(opaque())


@pytest.mark.slow
def test_more_graphs_are_timed_in_torch_compile_than_one_function_may_be_recompiled(cpu):
    compiling = target("torch+compile", threads=1)
    assert compiling.title.endswith("1 thread, torch.compile")
    graphs = []
    for size in range(4, 14):  # different shapes, so no compilation serves two of them
        b = GraphBuilder()
        graphs.append(b.graph({"y": b.op("relu", b.op("tanh", b.input("x", (size,))))}))
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(compiling.timers(graphs[:1], 0))
        except Skipped as reason:
            pytest.skip(str(reason))
        for graph in graphs:
            (timer,) = held.enter_context(compiling.timers([graph], 0))
            assert timer() > 0


def test_graphs_are_compiled_without_patterns_if_the_compiler_fails_on_one(cpu, monkeypatch):
    asked = []

    def compiled(graph, inputs, device, *, patterns):
        asked.append(patterns)
        if patterns and len(asked) == 2:
            raise Skipped("torch.compile: a pattern failed")
        return lambda: None

    monkeypatch.setattr("workbench.torch.executor.compiled", compiled)
    compiling = target("torch+compile", threads=1)
    with compiling.timers([products(), products()], 0) as timers:
        assert len(timers) == 2
        assert compiling.title.endswith("torch.compile without its patterns")
    with compiling.timers([products()], 0):
        assert compiling.title.endswith("torch.compile")
    assert asked == [True, True, False, False, True]


@pytest.mark.gpu
def test_graphs_are_timed_on_a_gpu(gpu):
    for name in ("torch:cuda", "torch:cuda+graph", "torch:cuda+compile"):
        with target(name).timers([image()], 0) as timers:
            assert timers[0]() > 0


@pytest.mark.parametrize("name", ["onxruntime", "torch+graph", "torch:cuda+fast", "tensorrt"])
def test_other_targets_are_refused_with_the_nearest(cpu, name):
    with pytest.raises(UnknownName, match="There are: onnxruntime, torch"):
        target(name)


def test_what_is_not_there_is_reported(cpu, monkeypatch):
    monkeypatch.setattr(cpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceMissing, match="no GPU"):
        target("torch:cuda")
    with pytest.raises(ValueError, match="CUDA graphs need"):
        target("torch:cpu+graph")


def test_a_count_goes_with_a_target(cpu):
    given = Torch("cpu")
    assert checked_target(2, given) is given
    assert isinstance(checked_target(1, "onnxruntime"), OnnxRuntime)
    with pytest.raises(ValueError, match="0 or more"):
        checked_target(-1, "onnxruntime")


@pytest.fixture(autouse=True)
def _empty():
    yield
    target._own.clear()


def graph():
    b = workbench.GraphBuilder()
    return b.graph({"y": b.op("relu", b.op("relu", b.op("neg", b.input("x", (2, 3)))))})


def counted(model, inputs):
    calls = []

    def run():
        calls.append(len(model.graph.node))
        assert inputs["x"].shape == (2, 3)

    return run


class Counting:
    title = "nodes"

    def check(self, graph):
        pass

    @contextlib.contextmanager
    def timers(self, models, seed):
        yield [lambda m=m: float(len(m.nodes)) for m in models]


def test_a_function_loads_models():
    target.register("counted")(counted)
    result = workbench.optimize(graph(), measure=1, measure_on="counted", measure_seconds=0.01)
    assert result.measured.target == "counted"
    with target("counted").timers([graph(), workbench.to_onnx(graph())], 0) as timers:
        assert all(timer() > 0 for timer in timers)


def test_an_exception_of_a_function_names_the_target():
    target.register("failing", lambda model, inputs: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        workbench.optimize(graph(), measure=1, measure_on="failing")
    assert raised.value.__notes__ == ["in the target 'failing'"]


def test_a_class_has_its_own_clock():
    target.register("nodes")(Counting)
    result = workbench.optimize(graph(), measure=1, measure_on="nodes", measure_seconds=0.001)
    assert result.measured.original.median == 4.0
    assert result.measured.winner == 0


def test_other_things_and_names_are_refused():
    target.register("seven", 7)
    with pytest.raises(TypeError, match="'seven' must be a function or have a method timers, got 7"):
        target("seven")
    with pytest.raises(UnknownName, match="did you mean seven"):
        target("sevne")
    with pytest.raises(ValueError, match="must not be a built-in one"):
        target.register("torch")(counted)


def test_a_package_offers_a_target(tmp_path, monkeypatch):
    source = "def load(model, inputs):\n    return lambda: None\n"
    install(tmp_path, monkeypatch, "remote", source, targets={"remote": "load"})
    assert "remote" in target.names()
    assert target("remote").title == "remote"


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
    monkeypatch.setattr(targets, "LARGE", large)
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
    monkeypatch.setattr(targets, "LONG", long)
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
