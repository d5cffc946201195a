"""The whole way in one call: results, limits, blame, and the stages that hold its seconds."""

import math
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import workbench
from tests.random_graphs import random_graph
from tests.sampled import in_turn
from workbench.certification.inputs import random_inputs
from workbench.costs import CostModel, pricing
from workbench.extraction.result import Status
from workbench.frontends.model_file import open_model
from workbench.graph import GraphBuilder, evaluate, fold_constants
from workbench.optimizer import candidates, pipeline, search_loop
from workbench.optimizer.job import job_of
from workbench.optimizer.search_loop import LEAST, extraction_seconds, limits_of
from workbench.optimizer.settings import Settings
from workbench.rules import parse_rules, rule_set
from workbench.run.progress import Stages
from workbench.run.trace import StepKind, StopReason
from workbench.studies.benchmarks import benchmark

#: 300 is the property test in full; a few dozen keep CI short.
GRAPHS = int(os.environ.get("WORKBENCH_RANDOM_GRAPHS", "24"))
#: Priced so that rewriting pays wherever it can: the tests look at the choice.
SETTINGS = {"e_nodes": 3000, "iterations": 6, "k_multi": 2, "settle": 1, "seconds": 300.0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", in_turn(range(GRAPHS), 1, quick=3))
def test_random_graphs_keep_their_function(seed):
    graph = random_graph(seed)
    extractor = ("exact", "dag", "tree")[seed % 3]
    result = workbench.optimize(graph, extractor=extractor, seed=seed, extraction_seconds=10, **SETTINGS)
    assert result.certificate.passed, (result.certificate, result.offending)
    assert result.cost_after <= result.cost_before
    inputs = random_inputs(graph, 99, 0)
    expected, found = evaluate(graph, inputs), evaluate(result.graph, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4 * max(1, np.abs(value).max()))


def shared_products():
    b = GraphBuilder("shared")
    x = b.input("x", (8, 256))
    ys = [b.op("relu", b.op("matmul", x, b.weight((256, 256)))) for _ in range(3)]
    return b.graph({f"y{i}": y for i, y in enumerate(ys)})


def test_one_call_does_the_whole_way(tmp_path):
    result = workbench.optimize(shared_products())
    # One product for three; the concat joins weights and is folded when the result is saved.
    assert result.graph.operators() == {"concat": 1, "matmul": 1, "slice": 3}
    assert fold_constants(result.graph).operators() == {"matmul": 1, "slice": 3}
    assert "merge-matmuls" in result.rules
    assert result.cost_after < result.cost_before
    assert result.stop_reason is StopReason.SATURATED
    assert result.certificate.passed
    assert len(repr(result).splitlines()) <= 12
    summary = result.summary()
    for key in (
        "cost_before", "cost_after", "cost_source", "saturation", "extraction", "e_nodes", "e_classes",
        "iterations", "stop_reason", "rules", "certificate",
    ):  # fmt: skip
        assert key in summary
    result.save(tmp_path / "optimised.onnx")
    again = workbench.load_onnx(tmp_path / "optimised.onnx")
    assert again.output_types == result.original.output_types


@pytest.mark.slow
def test_the_memory_limit_of_solvers_is_passed_on():
    enough = workbench.optimize(shared_products(), extractor="tensat", extraction_seconds=30)
    assert enough.solution.method == "tensat"
    little = workbench.optimize(shared_products(), extractor="tensat", extraction_memory=100 << 20)
    assert little.solution.method == "tree"
    assert little.solution.endings[0].solver == "tensat"


@pytest.mark.slow
def test_two_runs_are_the_same():
    first, second = (workbench.optimize(benchmark("nasrnn", hidden=16, length=2)) for _ in range(2))
    assert first.graph.structural_hash() == second.graph.structural_hash()
    assert first.cost_after == second.cost_after


def test_a_wrong_rule_costs_the_gain_not_the_result():
    graph = shared_products()
    wrong = parse_rules("forgets: relu(matmul[act=none](x, w)) => matmul[act=none](x, w)")
    result = workbench.optimize(graph, rules=[*rule_set("matmul"), *wrong])
    assert not result.certificate.passed
    assert result.graph is graph
    assert result.cost_after == result.cost_before
    assert result.offending == ("forgets",)


def test_nothing_to_gain_returns_the_original():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("softmax", b.input("x", (4, 4)))})
    result = workbench.optimize(graph)
    assert result.graph is graph
    assert result.rules == ()
    assert result.speedup == 1


@pytest.mark.slow
def test_every_second_of_a_call_is_in_a_stage(monkeypatch):
    now = [0.0]

    def a_second(function):
        def slow(*args, **kwargs):
            now[0] += 1.0
            return function(*args, **kwargs)

        return slow

    monkeypatch.setattr("workbench.run.progress.time", SimpleNamespace(perf_counter=lambda: now[0]))
    steps = [
        *((pipeline, name) for name in ("cost_model_of", "rules_of", "open_model", "job_of")),
        *((search_loop, name) for name in ("explore", "_merging", "_extracted")),
        *((candidates, name) for name in ("candidate_of", "correspondence", "verdicts", "checks_at_sizes")),
        *((pipeline, name) for name in ("recorded", "fate_of", "trace_meta")),
    ]
    for home, name in steps:
        monkeypatch.setattr(home, name, a_second(getattr(home, name)))
    result = workbench.optimize(shared_products())
    assert now[0] >= len(steps)
    assert sum(result.seconds.values()) == pytest.approx(now[0])


@pytest.mark.parametrize("limits", [{"e_nodes": 0}, {"seconds": 0}, {"iterations": -1}, {"k_multi": -2}])
def test_limits_are_checked_before_anything_runs(limits):
    with pytest.raises(ValueError, match=next(iter(limits))):
        workbench.optimize(shared_products(), **limits)


def test_unknown_names_are_reported_with_the_nearest():
    with pytest.raises(LookupError, match="default"):
        workbench.optimize(shared_products(), rules="defualt")
    with pytest.raises(LookupError, match="analytic"):
        workbench.optimize(shared_products(), cost="analitic")
    with pytest.raises(ValueError, match="exact"):
        workbench.optimize(shared_products(), extractor="best")


def test_progress_names_the_stages():
    stages = []
    workbench.optimize(shared_products(), progress=lambda stage, detail: stages.append(stage))
    assert list(dict.fromkeys(stages)) == ["import", "saturation", "pricing", "extraction", "certificate"]


def test_a_measured_model_measures_what_it_chooses(tmp_path):
    from workbench.costs.measured import MeasuredCost

    model = MeasuredCost(tmp_path, budget=-1, milliseconds=1)
    result = workbench.optimize(shared_products(), cost=model)
    assert "estimated" in result.cost_source or "measured" in result.cost_source
    assert model.seconds > 0


def test_the_package_is_light_and_complete():
    assert set(workbench.__all__) <= set(dir(workbench))
    for name in workbench.__all__:
        assert getattr(workbench, name) is not None
    with pytest.raises(AttributeError):
        workbench.nonsense  # noqa: B018
    assert pipeline.optimize is workbench.optimize


def test_a_name_of_a_wing_warns_and_says_where_it_is():
    with pytest.warns(DeprecationWarning, match=r"workbench.composite is now workbench.kernels.composite"):
        assert workbench.composite is workbench.kernels.composite


@pytest.mark.slow
def test_what_was_extracted_is_merged_once_more():
    # Every layer's products read x once they are reassociated, and the whole group is merged. The best graph
    # merges only those it takes, which no group was before the extraction.
    result = workbench.optimize(benchmark("transformer", layers=2), certify=False)
    assert result.solution.status is Status.OPTIMAL
    assert result.cost_after < 0.97 * 371.5
    assert result.cost_source == "analytic roofline, t4"
    rounds = [step.index for step in result.trace if step.kind is StepKind.MERGE]
    assert rounds
    # It is all one e-graph: what corresponds is still known.
    assert "added" in result.compare().after.counts()
    assert all(c >= 0 for c in result.compare().after.classes)


class Costlier(CostModel):
    """Price by a roofline, narrow products twice as expensive."""

    source = "a roofline with expensive products"

    def __init__(self):
        self.roofline = workbench.cost_model("analytic")

    def price(self, instances):
        narrow = [i.op == "matmul" and i.type.shape[-1] <= 1024 for i in instances]
        return self.roofline.price(instances) * np.where(narrow, 2.0, 1.0)


@pytest.mark.slow
def test_what_a_roofline_takes_is_merged_too_where_costs_are_others():
    said = []
    result = workbench.optimize(
        benchmark("transformer", layers=2),
        cost=Costlier(),
        certify=False,
        progress=lambda stage, detail: said.append(stage),
    )
    roofline = [workbench.optimize(benchmark("transformer", layers=2), certify=False).graph, result.graph]
    by_these = [pricing.graph_cost(graph, Costlier()) for graph in roofline]
    # Whatever the roofline's own result costs here is found here.
    assert result.cost_after <= by_these[0] * (1 + 1e-9)
    assert result.cost_after == pytest.approx(by_these[1])
    assert result.cost_source == "a roofline with expensive products"
    assert said.count("extraction") >= 2  # by the roofline, and by these


def interrupted_at(stage, graph, times=1, **settings):
    """Optimise, and press Ctrl-C when a stage begins for the ``times``-th time."""
    seen = []

    def progress(name, detail):
        seen.append(name)
        if name == stage and seen.count(stage) == times:
            raise KeyboardInterrupt

    return workbench.optimize(graph, progress=progress, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["pricing", "extraction"])
def test_ctrl_c_before_anything_is_extracted_leaves_the_original(stage):
    graph = shared_products()
    result = interrupted_at(stage, graph)
    assert result.graph is result.original is graph
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.certificate.passed
    assert result.cost_after == result.cost_before > 0
    assert len(result.trace) > 1, "what was seen until then is kept"


def test_ctrl_c_in_the_certificate_is_named():
    result = interrupted_at("certificate", shared_products())
    assert result.graph is result.original
    assert result.ended == "it was interrupted"
    assert "certificate: not finished, it was interrupted: the original stays" in repr(result)


def test_a_call_without_time_returns_the_original():
    result = workbench.optimize(shared_products(), seconds=1e-4)
    assert result.graph is result.original
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.ended == "the call reached its limit of 0.0001 s"
    assert result.ended == result.ended
    assert result.summary()["ended"] == result.ended


def test_reading_that_does_not_end_is_given_up(monkeypatch):
    def endless(*_, **__):
        while True:
            pass

    monkeypatch.setattr(pipeline, "open_model", endless)
    monkeypatch.setattr(pipeline, "READING_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match=r"must be read within 0.2 s, got no end \(try seconds=2\)"):
        workbench.optimize("model.onnx", seconds=0.2)


@pytest.mark.slow
def test_the_limit_ends_a_certificate(monkeypatch):
    def endless(*given, **options):
        while True:
            pass

    monkeypatch.setattr("workbench.certification.graphs.certify_graphs", endless)
    result = workbench.optimize(shared_products(), seconds=3.0)
    assert result.graph is result.original
    assert (result.certificate, result.offending) == (None, ())
    assert result.ended == "the call reached its limit of 3 s"


def test_stages_have_shares_of_the_call():
    job = search_job(seconds=100.0, until=time.perf_counter() + 100)
    assert limits_of(job).seconds == 50
    assert extraction_seconds(job) == 25
    late = replace(job, until=time.perf_counter() + 10)
    assert 5 < limits_of(late).seconds <= 6, "what follows needs time, too"
    assert limits_of(replace(job, until=-math.inf)).seconds == LEAST
    own = search_job(seconds=100.0, saturation_seconds=80.0, extraction_seconds=3.0)
    assert (limits_of(own).seconds, extraction_seconds(own)) == (80, 3)


def search_job(until=math.inf, **settings):
    opened = open_model(shared_products())
    chosen = Settings(**settings)
    return job_of(
        opened, rule_set("default"), workbench.cost_model("analytic"), chosen, Stages(), until=until
    )


def test_ctrl_c_while_a_rule_is_blamed_keeps_the_certificate_that_failed(monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.certification.bisect.find_offending", interrupted)
    wrong = parse_rules("forgets: relu(matmul(x, w)) => matmul(x, w)")
    result = workbench.optimize(shared_products(), rules=wrong)
    assert result.graph is result.original
    assert not result.certificate.passed
    assert (result.offending, result.ended) == ((), "")
