"""Targets of the user's own: functions that load models, and classes with a clock."""

import contextlib

import pytest

import workbench
from tests.packages import install
from workbench.devices.plugins import OWN
from workbench.devices.targets import UnknownTarget, target


@pytest.fixture(autouse=True)
def _empty():
    yield
    OWN._own.clear()


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


def test_a_class_has_its_own_clock():
    target.register("nodes")(Counting)
    result = workbench.optimize(graph(), measure=1, measure_on="nodes", measure_seconds=0.001)
    assert result.measured.original.median == 4.0
    assert result.measured.winner == 0


def test_other_things_and_names_are_refused():
    OWN.register("seven", 7)
    with pytest.raises(TypeError, match="'seven' must be a function or have a method timers, got 7"):
        target("seven")
    with pytest.raises(UnknownTarget, match="did you mean seven"):
        target("sevne")
    with pytest.raises(ValueError, match="must not be a built-in one"):
        target.register("torch")(counted)


def test_a_package_offers_a_target(tmp_path, monkeypatch):
    source = "def load(model, inputs):\n    return lambda: None\n"
    install(tmp_path, monkeypatch, "remote", source, targets={"remote": "load"})
    assert "remote" in target.names()
    assert target("remote").title == "remote"
