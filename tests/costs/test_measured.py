"""Costs measured on this machine: which operators run, how often, and which results are kept."""

import contextlib
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tests.costs.networks import instance, network
from tests.ops.test_onnx_form import INSTANCES
from tests.ops.test_onnx_form import instance as graph_of
from workbench.costs import OpInstance, graph_cost, instances_of, node_costs
from workbench.costs import measured as module
from workbench.costs.analytic import AnalyticCost
from workbench.costs.keys import same_kernel
from workbench.costs.lookup import RecordedCost
from workbench.costs.measured import SECONDS, Economical, MeasuredCost, economical
from workbench.costs.pricing import deciding_instances
from workbench.costs.store import Store
from workbench.frontends import import_onnx
from workbench.frontends.onnx.file import Apart
from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TupleType


def test_figures_are_measured_once_and_kept(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, milliseconds=2)
    first = node_costs(graph, model)
    assert model.seconds > 0
    again = MeasuredCost(tmp_path, milliseconds=2)
    np.testing.assert_array_equal(first, node_costs(graph, again))
    assert again.seconds == 0
    assert model.source.startswith("measured: ONNX Runtime")
    assert model.source.endswith("1 thread; 3 instances measured")
    running = [c for n, c in zip(graph.nodes, first, strict=True) if n.op in ("conv2d", "add", "softmax")]
    assert min(running) > 0
    assert all(m.runs >= 2 and m.median > 0 for m in model._lookup.known.values())


def test_thread_counts_do_not_share_figures(tmp_path):
    one, two = (MeasuredCost(tmp_path, threads=n, milliseconds=1) for n in (1, 2))
    graph_cost(network(), one)
    graph_cost(network(), two)
    assert two.seconds > 0
    assert "2 threads" in two.source


class Clocks:
    """A clock and a processor time, in seconds, that move only during a run, by the amount it sets."""

    def __init__(self, monkeypatch):
        self.wall = self.own = 0.0
        monkeypatch.setattr(module, "_OWN_TIME", True)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.wall)
        monkeypatch.setattr(module.time, "perf_counter_ns", lambda: round(self.wall * 1e9))
        monkeypatch.setattr(module.time, "thread_time_ns", lambda: round(self.own * 1e9))

    def run(self, *walls, own):
        """Return a run that takes each of these clock times in turn, and always the same processor time."""
        left = itertools.cycle(walls)

        def run():
            self.wall += next(left)
            self.own += own

        return run


def test_medians_are_microseconds_and_leave_out_what_other_processes_took(tmp_path, monkeypatch):
    clocks = Clocks(monkeypatch)
    one, two = (MeasuredCost(tmp_path, threads=n, milliseconds=50) for n in (1, 2))
    undisturbed = one._timed(clocks.run(250e-6, own=260e-6))
    assert undisturbed.median == pytest.approx(250.0)
    assert undisturbed.spread == pytest.approx(0.0, abs=1e-3)
    assert undisturbed.runs == 8, "they agree: two milliseconds are enough"
    scattered = two._timed(clocks.run(200e-6, 250e-6, 300e-6, own=0.0))
    assert scattered.runs == 100
    # Two of three runs were interrupted for 4 ms; with several threads only the clock can be used.
    walls = (4250e-6, 4250e-6, 250e-6)
    assert one._timed(clocks.run(*walls, own=260e-6)).median == pytest.approx(260.0)
    assert two._timed(clocks.run(*walls, own=260e-6)).median == pytest.approx(4250.0)


def test_long_operators_are_run_twice_or_three_times_and_scattered_ones_again(tmp_path, monkeypatch):
    clocks = Clocks(monkeypatch)
    model = MeasuredCost(tmp_path, threads=2, milliseconds=15)
    assert model._timed(clocks.run(1.0, own=0.0)).runs == 2
    assert model._timed(clocks.run(0.02, own=0.0)).runs == 3
    scattered = [1e-3, 5e-3] * 4  # one warm-up run, six runs in 15 ms
    quiet = model._timed(clocks.run(1e-3, *scattered[:6], *[2e-3] * 100, own=0.0))
    assert quiet.median == pytest.approx(2000.0)
    assert quiet.spread == pytest.approx(0.0)


def test_the_call_is_not_part_of_an_operators_cost(tmp_path, monkeypatch):
    times = iter([2.0, 7.5, 2.0])
    monkeypatch.setattr(MeasuredCost, "_timed", lambda self, run: module.Measurement(next(times), 0.1, 3))
    model = MeasuredCost(tmp_path)
    costs = model.price([instance("relu", [(n,)], (n,)) for n in (1, 2)])
    assert sorted(costs) == pytest.approx([module._LEAST, 5.5])


@pytest.mark.slow
def test_every_operator_can_be_measured(tmp_path):
    instances = [i for case in INSTANCES for i in instances_of(graph_of(*case))]
    model = MeasuredCost(tmp_path, milliseconds=0.2)
    costs = model.price(instances)
    assert np.isfinite(costs).all()
    assert model.failures == {}
    assert "estimated" not in model.source


def test_without_a_budget_costs_are_estimated_and_the_source_says_so(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, budget=0, milliseconds=1)
    assert (node_costs(graph, model) >= 0).all()
    assert "0 instances measured, 3 estimated" in model.source
    assert model.measure(instances_of(graph)) == 3
    assert model.measure(instances_of(graph)) == 0
    node_costs(graph, model)
    assert model.source.endswith("3 instances measured")


def test_the_model_at_hand_comes_first_and_cheap_instances_before_expensive_ones(tmp_path, monkeypatch):
    taken = []
    make = MeasuredCost._model
    monkeypatch.setattr(MeasuredCost, "_model", lambda self, i: taken.append(i) or make(self, i))
    graph = network()
    model = MeasuredCost(tmp_path, milliseconds=0.2)
    model.bind(graph)
    others = [instance("relu", [(n, 8)], (n, 8)) for n in (512, 1, 64)]
    model.price([*others, *instances_of(graph)])
    assert {i.op for i in taken[:3]} == {"conv2d", "add", "softmax"}
    assert [i.type.shape[0] for i in taken[3:]] == [1, 64, 512]


@pytest.fixture
def a_second_each(monkeypatch):
    """Let measurements take one second each of a clock that otherwise does not move."""
    now = [0.0]

    def timed(self, run):
        now[0] += 1.0
        return module.Measurement(5.0, 0.0, 3)

    monkeypatch.setattr(MeasuredCost, "_timed", timed)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])


def test_the_budget_is_one_for_a_model_and_is_new_for_the_next(tmp_path, a_second_each):
    relus = [instance("relu", [(n,)], (n,)) for n in range(1, 30)]
    model = MeasuredCost(tmp_path, budget=4.5)
    model.price(relus)
    once = len(model._lookup.known)
    assert 3 <= once <= 5
    model.price(relus)
    assert len(model._lookup.known) == once
    model.bind(network())
    model.price(relus)
    assert len(model._lookup.known) > once


def test_ctrl_c_keeps_the_measurements(tmp_path, monkeypatch):
    timed, calls = MeasuredCost._timed, []

    def interrupted(self, run):
        calls.append(run)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return timed(self, run)

    monkeypatch.setattr(MeasuredCost, "_timed", interrupted)
    model = MeasuredCost(tmp_path, milliseconds=0.2)
    relus = [instance("relu", [(n,)], (n,)) for n in range(1, 9)]
    with pytest.raises(KeyboardInterrupt):
        model.price(relus)
    assert len(MeasuredCost(tmp_path)._lookup.known) == 2
    model.price(relus)
    assert len(model._lookup.known) == 8


def test_what_cannot_be_run_is_estimated_with_the_reason(tmp_path):
    x = TensorType("float32", (1 << 14, 1 << 14))
    huge = OpInstance("add", (), (x, x), x, (False, False))
    small = TensorType("float32", (3,))
    unbound = OpInstance("opaque", ("TopK_0",), (small,), small, (False,))
    tuples = OpInstance("opaque", ("TopK_1",), (TupleType((small,)),), small, (False,))
    table, row = TensorType("float32", (1 << 18, 1 << 10)), TensorType("int64", (1,))
    rows = OpInstance("gather", (0,), (table, row), TensorType("float32", (1, 1 << 10)), (True, False))
    model = MeasuredCost(tmp_path)
    costs = model.price([huge, unbound, tuples, rows])
    assert (costs > 0).all()
    assert model.source.endswith("0 instances measured, 4 estimated (4 of them could not be run)")
    assert costs[3] < costs[0] / 100, "a few rows are read of a table that is held as a whole"
    reasons = " ".join(model.failures.values())
    assert reasons.count("it must hold and move at most") == 2
    assert "must belong to the bound model" in reasons
    assert model._lookup.known == {}


def test_opaque_operators_are_measured_too(tmp_path):
    import onnx.parser

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4,6] x) => (float[4,6] y)'
        "{ t = Relu(x) \n y = CumSum(t, axis) }".replace("{", "<int64 axis = {1}> {")
    )
    graph = import_onnx(model).graph
    assert any(n.op == "opaque" for n in graph.nodes)
    cost = MeasuredCost(tmp_path, milliseconds=1)
    cost.bind(graph)
    prices = node_costs(graph, cost)
    assert cost.failures == {}
    assert all(p > 0 for n, p in zip(graph.nodes, prices, strict=True) if n.op in ("opaque", "relu"))
    # The figure is stored by content, so a table finds it without the model's names.
    cost.save(tmp_path / "table.parquet")
    table = RecordedCost.load(tmp_path / "table.parquet")
    table.bind(graph)
    np.testing.assert_array_equal(node_costs(graph, table), prices)


def test_a_recorded_table_gives_the_same_costs_elsewhere(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, milliseconds=2)
    costs = node_costs(graph, model)
    model.save(tmp_path / "table.parquet")
    table = RecordedCost.load(tmp_path / "table.parquet")
    np.testing.assert_array_equal(node_costs(graph, table), costs)
    assert table.source == f"recorded table: {model.device}; 3 instances recorded"
    assert set(table.meta) == {"roofline", "protocol", "onnxruntime", "workbench", "date"}


def test_a_broken_cache_is_set_aside(tmp_path):
    (tmp_path / "measured.sqlite").write_bytes(b"this is not a database" * 100)
    with pytest.warns(UserWarning, match="unreadable"):
        model = MeasuredCost(tmp_path, milliseconds=1)
    assert graph_cost(network(), model) > 0
    assert len(MeasuredCost(tmp_path)._lookup.known) == 3


def test_while_another_measures_for_long_costs_are_estimated(tmp_path):
    model = MeasuredCost(tmp_path, milliseconds=1, budget=0.2)
    with (
        Store(tmp_path, "").measuring(),
        pytest.warns(UserWarning, match="another process is measuring"),
    ):
        assert graph_cost(network(), model) > 0
    assert "3 estimated" in model.source
    assert "could not be run" not in model.source


PROCESS = """
import sys
from tests.costs.networks import network
from workbench.costs import graph_cost
from workbench.costs.measured import MeasuredCost
model = MeasuredCost(sys.argv[1], milliseconds=5)
print(graph_cost(network(), model))
"""


def test_what_is_measured_is_written_before_another_process_may_measure(tmp_path, monkeypatch):
    held, written = [], []
    measuring, write = Store.measuring, Store.write

    @contextlib.contextmanager
    def spied(self, patience):
        with measuring(self, patience):
            held.append(True)
            yield
            held.pop()

    monkeypatch.setattr(Store, "measuring", spied)
    monkeypatch.setattr(Store, "write", lambda self, found: (written.append(bool(held)), write(self, found)))
    assert graph_cost(network(), MeasuredCost(tmp_path, milliseconds=1)) > 0
    assert written == [True]


@pytest.mark.slow
def test_two_processes_measure_once_between_them(tmp_path):
    workers = [
        subprocess.Popen([sys.executable, "-c", PROCESS, tmp_path], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [w.communicate(timeout=120)[0] for w in workers]
    assert [w.returncode for w in workers] == [0, 0]
    # Two processes that both measured would differ: their medians never agree to the last digit.
    assert answers[0] == answers[1] != ""


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"milliseconds": 0.0}, {"budget": float("nan")}])
def test_senseless_options_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="threads must be at least 1, milliseconds positive"):
        MeasuredCost(tmp_path, **wrong)


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_element_types_are_measured_or_said_to_be_estimated(tmp_path, dtype):
    b = GraphBuilder()
    x = b.input("x", (8, 8), dtype)
    graph = b.graph({"y": b.op("add", b.op("matmul", x, b.weight((8, 8), dtype=dtype)), x)})
    model = MeasuredCost(tmp_path, milliseconds=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert graph_cost(graph, model) > 0
    assert len(model.failures) + len(model._lookup.known) == 2


def test_a_weight_too_large_for_a_second_copy_is_handed_over_as_it_is(tmp_path, monkeypatch):
    handed = []
    load = module.session

    def spy(model, **settings):
        if isinstance(model, Apart):
            handed.append((sum(a.nbytes for a in model.arrays.values()), settings))
        return load(model, **settings)

    monkeypatch.setattr(module, "session", spy)
    b = GraphBuilder()
    product = b.op("matmul", b.input("x", (4, 512)), b.weight((512, 1024)))
    instances = instances_of(b.graph({"y": product}))
    small = MeasuredCost(tmp_path / "small", milliseconds=1.0)
    assert small.price(instances)[0] > 0
    assert handed == []
    monkeypatch.setattr(module, "_CACHES", 1 << 20)
    large = MeasuredCost(tmp_path / "large", milliseconds=1.0)
    assert large.price(instances)[0] > 0
    assert not large.failures
    assert handed == [(512 * 1024 * 4, {"threads": 1})]


@pytest.fixture
def scripted(a_second_each, tmp_path):
    """Return a model whose measurements take one second each."""
    return MeasuredCost(tmp_path, budget=20.0)


def relus(count):
    return [instance("relu", [(n,)], (n,)) for n in range(1, count + 1)]


def test_prices_are_estimates_until_they_are_measured(scripted):
    cost = Economical(scripted)
    assert (cost.price(relus(3)) > 0).all()
    assert scripted._lookup.known == {}
    assert cost.measure(relus(2)) == 2
    assert cost.measure(relus(2)) == 0
    assert len(scripted._lookup.known) == 2
    cost.price(relus(3))
    assert cost.source.endswith("2 instances measured, 1 estimated")


def test_the_longest_operators_of_the_model_are_probed_first(scripted):
    cost = Economical(scripted)
    graph = network()
    cost.bind(graph)
    assert scripted._lookup.known == {}
    cost.price(relus(1))
    assert {key.split('"')[1] for key in scripted._lookup.known} == {"conv2d", "add", "softmax"}


def test_all_measuring_for_a_model_has_the_seconds(scripted):
    cost = Economical(scripted, seconds=6.5)
    first = cost.measure(relus(30))
    assert 4 <= first <= 7
    assert cost.left == 0
    assert cost.measure(relus(30)) == 0
    cost.bind(network())
    assert cost.measure(relus(30)) > 0, "the next model has seconds of its own"


def test_other_cost_models_stay_as_they_are(tmp_path):
    roofline = AnalyticCost()
    assert economical(roofline) is roofline
    given = MeasuredCost(tmp_path, budget=50.0)
    assert isinstance(economical(given), Economical)
    assert economical(given, named=given).left == 50.0
    assert economical(given, named="cpu").left == SECONDS


@pytest.mark.slow
def test_what_both_run_as_often_decides_nothing():
    import workbench
    from workbench.rules import rule_set
    from workbench.saturation import Limits, Saturation

    graph = network()
    with Saturation(graph, tuple(rule_set("default")), Limits(settle=4)) as run:
        run.run()
        egraph = run.egraph()
    original = np.full(egraph.eclass.max() + 1, -1)
    for i in egraph.original.tolist():
        if i >= 0:
            original[egraph.eclass[i]] = i
    assert deciding_instances(graph, egraph, original) == []
    nothing = np.full_like(original, -1)
    assert len(deciding_instances(graph, egraph, nothing)) == len(set(map(same_kernel, instances_of(graph))))
    assert workbench.optimize(graph).cost_source == "analytic roofline, t4"
