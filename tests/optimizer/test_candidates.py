"""What is handed over in the end, decided by timers that are scripted."""

import contextlib
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest

import workbench
from tests.devices.graphs import products
from tests.frontends.models import model, node, normal, value, weight
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import to_onnx
from workbench.frontends.model_file import fixed_model, open_model
from workbench.graph import Graph
from workbench.optimizer.job import default_cost, trial_of
from workbench.optimizer.settings import Settings
from workbench.optimizer.summary import running_operators
from workbench.support.machine import machine


@dataclass(frozen=True)
class Fake:
    """ONNX Runtime on one thread, whose runs take as long as a script says: (original, result)."""

    threads: int | None = None
    shapes: dict = field(default_factory=dict)
    inputs: dict = field(default_factory=dict)

    title = "a script"
    seconds = (100.0, 80.0)
    fails = ()

    def check(self, graph):
        pass

    @contextlib.contextmanager
    def timers(self, models, seed):
        kinds = ["result" if isinstance(m, Graph) and i else "original" for i, m in enumerate(models)]
        for kind in kinds:
            if kind in self.fails:
                raise RuntimeError(f"no kernel for the {kind}")
        yield [lambda k=k: self.seconds[k == "result"] for k in kinds]


class Here(AnalyticCost):
    """Prices of a roofline that pass for measured ones of this machine."""

    source = f"measured: ONNX Runtime, {machine()}"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(
        "workbench.optimizer.pipeline.default_cost",
        lambda model: Here() if default_cost(model) == "cpu" else "analytic",
    )


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr("workbench.devices.targets.OnnxRuntime", Fake)
    monkeypatch.setattr(Fake, "seconds", (100.0, 80.0))
    monkeypatch.setattr(Fake, "fails", ())
    return Fake


@pytest.fixture
def path(tmp_path):
    """Return a file that lists a weight among its inputs."""
    model = to_onnx(products())
    name = model.graph.initializer[0].name
    tensor = model.graph.initializer[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    model.doc_string = "as somebody wrote it"
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_file_is_priced_by_this_machine_and_a_graph_by_the_roofline(path):
    for given in (path, str(path), path.read_bytes(), onnx.load(path)):
        assert default_cost(fixed_model(given)) == default_cost(open_model(given)) == "cpu"
    assert default_cost(open_model(products())) == "analytic"
    assert fixed_model(products()).source is None
    assert fixed_model(path).source is path


def test_a_result_that_is_faster_is_the_result(fake, path, tmp_path):
    result = workbench.optimize(path)
    assert result.cost_source.startswith("measured")
    assert result.graph is not result.original
    assert result.measured.winner == 0
    assert result.measured.candidates[0].speedup == pytest.approx(1.25)
    assert result.measured.cleaning == pytest.approx(1.0)
    assert result.settings["time"] is True
    result.save(tmp_path / "out.onnx")
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) < len(onnx.load(path).graph.node)


@pytest.mark.parametrize("seconds", [(100.0, 100.0), (100.0, 99.5), (100.0, 150.0)])
def test_a_result_that_is_not_faster_is_not_written_but_the_cleaned_original(fake, path, tmp_path, seconds):
    fake.seconds = seconds
    result = workbench.optimize(path)
    assert result.graph is result.original
    assert result.measured.winner is None
    assert "the original stays" in str(result.measured)
    assert result.certificate.passed
    out = tmp_path / "out.onnx"
    result.save(out)
    saved, given = onnx.load(out), onnx.load(path)
    assert [v.name for v in saved.graph.input] == ["x"]
    assert saved.graph.node == given.graph.node
    assert saved.doc_string == "as somebody wrote it"


def test_without_timing_costs_decide(fake, path):
    fake.seconds = (100.0, 150.0)
    result = workbench.optimize(path, time=False)
    assert result.measured is None
    assert result.graph is not result.original


def test_costs_of_another_device_decide_even_if_this_machine_differs(fake, path):
    fake.seconds = (100.0, 150.0)
    silent = workbench.optimize(path, cost="analytic")
    assert silent.measured is None
    assert silent.graph is not silent.original
    timed = workbench.optimize(path, cost="analytic", time=True)
    assert timed.graph is not timed.original
    assert "on this machine, which decided nothing" in str(timed.measured)
    assert timed.summary()["measured"]["decided"] is False
    assert "a roofline of an NVIDIA T4, not this machine" in repr(timed)


def test_a_graph_is_timed_where_it_is_asked_for(fake):
    assert workbench.optimize(products()).measured is None
    asked = workbench.optimize(products(), time=True)
    assert asked.measured.winner == 0
    fake.seconds = (100.0, 150.0)
    decided = workbench.optimize(products(), cost=Here(), time=True)
    assert decided.graph is decided.original


def test_a_result_that_does_not_run_is_not_taken(fake, path):
    fake.fails = ("result",)
    result = workbench.optimize(path)
    assert result.graph is result.original
    said = "the original stays: the result does not run here (no kernel for the result)"
    assert str(result.measured).startswith(said)


def unruly(rows=100):
    """Return a model with a table of positions, whose length import cannot know to bound the input."""
    nodes = [
        node("MatMul", "x a", "k"),
        node("MatMul", "x b", "v"),
        node("Add", "k v", "kv"),
        node("IsNaN", "mask", "nan"),
        node("Not", "nan", "ok"),
        node("Cast", "ok", "ones", to=onnx.TensorProto.INT64),
        node("CumSum", "ones axis", "places"),
        node("Gather", "table places", "p"),
        node("Add", "kv p", "y"),
    ]
    inputs = [value("x", ["batch", "sequence", 64]), value("mask", ["batch", "sequence"])]
    given = [normal(n, 64, 64) for n in "ab"] + [normal("table", rows, 64), weight("axis", 1, np.int64)]
    return model(nodes, inputs, [value("y", ["batch", "sequence", 64])], given)


def test_a_model_that_does_not_run_at_the_usual_sizes_is_priced_and_timed_at_others():
    result = workbench.optimize(unruly())
    assert result.dynamic.sizes == {"batch": 1, "sequence": 99}
    assert result.dynamic.checked[0].sizes == result.dynamic.sizes
    assert not result.measured.failure
    assert result.measured.rounds >= 5


def test_a_model_is_timed_at_others_than_the_sizes_asked_for_if_it_does_not_run_there():
    result = workbench.optimize(unruly(), sizes={"sequence": 120})
    assert result.dynamic.sizes == {"batch": 1, "sequence": 120}
    assert result.measured.target.endswith(", at batch=1, sequence=99")


@pytest.mark.slow
def test_what_was_not_timed_is_not_written_unless_the_user_asks(fake):
    fake.fails = ("original", "result")
    never = unruly(rows=1)  # no sequence has a place in this table
    result = workbench.optimize(never)
    assert result.graph is result.original
    assert "the original stays: the model does not run here" in str(result.measured)
    assert "--no-time" in str(result.measured)
    asked = workbench.optimize(never, time=False)
    assert asked.graph is not asked.original
    elsewhere = workbench.optimize(never, cost="analytic", time=True)
    assert elsewhere.graph is not elsewhere.original
    assert "nothing was timed: the model does not run here" in str(elsewhere.measured)


def test_the_file_as_given_is_timed_beside_the_one_with_fixed_dimensions(fake, monkeypatch):
    loaded, load = [], Fake.timers

    def timers(self, models, seed):
        loaded.extend(models)
        return load(self, models, seed)

    monkeypatch.setattr(Fake, "timers", timers)
    result = workbench.optimize(unruly(rows=500), dims={"batch": 4})
    first, as_given = (
        [d.dim_value for d in m.model.graph.input[0].type.tensor_type.shape.dim]
        for m in (loaded[0], loaded[-1])
    )
    assert (first, as_given) == ([4, 0, 64], [0, 0, 64]), "0 is open"
    assert result.measured.cleaning_line().startswith("batch=4 fixed, which alone gives 1.00×")


def test_after_ctrl_c_while_timing_the_original_stays(path, monkeypatch):
    class Interrupted(Fake):
        @contextlib.contextmanager
        def timers(self, models, seed):
            raise KeyboardInterrupt
            yield []

    monkeypatch.setattr("workbench.devices.targets.OnnxRuntime", Interrupted)
    result = workbench.optimize(path)
    assert "the original stays: the timing was interrupted" in str(result.measured)
    assert result.graph is result.original
    other = workbench.optimize(path, cost="analytic", time=True)
    assert other.graph is not other.original, "costs of another device decide"


def test_after_ctrl_c_in_the_certificate_the_original_is_the_result(path, monkeypatch, tmp_path):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.certification.graphs.certify_graphs", interrupted)
    result = workbench.optimize(path, cost="analytic")
    assert result.graph is result.original
    assert (result.certificate, result.offending) == (None, ())
    assert result.cost_after == result.cost_before
    result.save(tmp_path / "saved.onnx")
    assert (tmp_path / "saved.onnx").exists()


def test_senseless_seconds_are_refused(path):
    with pytest.raises(ValueError, match="must be positive, got 0"):
        workbench.optimize(path, time_seconds=0.0)
    assert trial_of(Settings(), "measured: elsewhere", is_file=True) is None


def mixed():
    """Return a graph with a rewrite that gains much and one that gains three percent."""
    b = workbench.GraphBuilder("mixed")
    x, y = b.input("x", (4, 8)), b.input("y", (2048, 2048))
    much = b.op("add", b.op("matmul", x, b.weight((8, 16))), b.op("matmul", x, b.weight((8, 16))))
    little = b.op("relu", b.op("matmul", y, b.weight((2048, 2048))))
    return b.graph({"much": much, "little": little})


def test_a_cautious_result_leaves_out_what_gains_little(fake, monkeypatch):
    monkeypatch.setattr(Fake, "loaded", [], raising=False)
    load = Fake.timers

    def timers(self, models, seed):
        Fake.loaded = models
        return load(self, models, seed)

    monkeypatch.setattr(Fake, "timers", timers)
    result = workbench.optimize(mixed(), cost=Here(), time=True, certify=False)
    best, cautious = (c.cost for c in result.measured.candidates)
    assert best < cautious < result.cost_before
    assert [running_operators(m).get("relu", 0) for m in Fake.loaded] == [1, 0, 1, 1]
    assert [running_operators(m).get("add", 0) for m in Fake.loaded] == [1, 0, 0, 1]


def test_one_result_is_timed_where_the_cautious_one_is_the_same(fake, path):
    assert len(workbench.optimize(path).measured.candidates) == 1
