"""Saturation and extraction in turn."""

import time
from dataclasses import replace

import numpy as np

import workbench
from workbench.extraction import Status
from workbench.extraction.extract import extract
from workbench.frontends.model import Model, Symbol
from workbench.graph import GraphBuilder
from workbench.optimizer import search_loop
from workbench.optimizer.job import Job
from workbench.optimizer.search_loop import ROUNDS, explore, prices
from workbench.optimizer.settings import Settings
from workbench.rules import rule_set
from workbench.run.progress import Stages
from workbench.run.trace import StepKind
from workbench.saturation import Limits, Saturation
from workbench.studies.benchmarks import benchmark
from workbench.symbolic import Generic


def job_on(network, told=None):
    model, cost = Model(network, network), workbench.cost_model("analytic")
    return Job(model, rule_set("default"), cost, Settings(), Stages(told))


def run(network, **limits):
    said = []
    job = job_on(network, lambda stage, detail: said.append(stage))
    with Saturation(network, job.rules, Limits(weights=job.rules.weights, **limits)) as saturation:
        best = explore(job, saturation, 60.0)
    return saturation, best, best.stop, job.stages, said


def test_what_is_merged_once_more_is_cheaper_and_the_rest_is_reported():
    saturation, best, stop, stages, said = run(benchmark("transformer", layers=2))
    assert best.solution.status is Status.OPTIMAL
    assert best.solution.cost < 0.97 * 371.5 < best.before
    assert stop is saturation.stop_reason
    assert len(best.costs) == len(best.egraph)
    assert list(stages.ordered()) == ["engine", "snapshot", "pricing", "extraction"]
    assert 1 <= said.count("extraction") <= 1 + ROUNDS
    assert StepKind.MERGE in {step.kind for step in saturation.trace.steps}
    assert said[0] == "saturation"


def test_what_a_greedy_extraction_takes_is_merged_before_an_exact_one(monkeypatch):
    order = []
    merge = Saturation.merge_among

    def merged(self, nodes, *given):
        changed = merge(self, nodes, *given)
        order.append("merged" if changed else "nothing to merge")
        return changed

    def exactly(egraph, costs, *, seconds):
        order.append("exact")
        return extract(egraph, costs, seconds=seconds)

    monkeypatch.setattr(Saturation, "merge_among", merged)
    monkeypatch.setattr(search_loop, "extraction_of", lambda job: exactly)
    job = job_on(benchmark("transformer", layers=2))
    with Saturation(job.model.graph, job.rules, Limits(weights=job.rules.weights)) as saturation:
        best = explore(job, saturation, 60.0)
    assert order[0] == "merged"
    assert "exact" in order
    assert best.solution.status is Status.OPTIMAL


def test_nothing_is_merged_where_a_limit_has_ended_the_run():
    saturation, best, stop, _, said = run(benchmark("bert"), e_nodes=400)
    assert stop is workbench.StopReason.E_NODE_LIMIT
    assert len(best.egraph) <= 400
    assert said.count("extraction") == 1
    assert np.isfinite(best.solution.cost)
    assert saturation.stop_reason is stop


def test_all_extractions_together_have_the_seconds(monkeypatch):
    monkeypatch.setattr(search_loop, "_merging_greedily", lambda *given: None)
    given = []

    def slow(egraph, costs, *, seconds):
        given.append(seconds)
        time.sleep(min(seconds, 0.6))
        return extract(egraph, costs, "dag")

    monkeypatch.setattr(search_loop, "extraction_of", lambda job: slow)
    job = job_on(benchmark("transformer", layers=2))
    with Saturation(job.model.graph, job.rules, Limits()) as saturation:
        explore(job, saturation, 1.0)
    assert given[0] == 1.0
    assert len(given) > 1
    assert given == sorted(given, reverse=True)
    assert given[-1] < 0.5


def test_operators_have_the_price_of_the_chosen_size_and_weights_of_symbolic_size_are_not_extracted():
    def expanded(rows):
        b = GraphBuilder("ones")
        x, w = b.input("x", (rows, 4)), b.weight((1, 4))
        wide = b.op("expand", w, shape=(rows, 4))
        return b.graph({"y": b.op("add", x, wide), "z": b.op("mul", x, b.op("relu", w))})

    def prices_of(model):
        job = Job(model, rule_set("default"), workbench.cost_model("analytic"), Settings(), Stages())
        with Saturation(model.searched, [], Limits(iterations=1)) as saturation:
            saturation.start_engine()
            egraph = saturation.egraph()
        return job, dict(zip(egraph.ops, prices(job, egraph).tolist(), strict=True))

    small = expanded(2)
    symbol = Symbol("n", (("x", 0),), "batch", True, 14_489)
    generic = Generic({"n": 14_489})
    symbolic = Model(small, expanded(14_489), symbols=(symbol,), sizes={"n": 2}, generic=generic)
    job, found = prices_of(symbolic)
    plain, known = prices_of(Model(small, small))
    assert job.cost_source == f"{plain.cost_source}, at n=2"
    assert found.pop("expand") > 1e9
    assert known.pop("expand") == 0.0
    assert found == known


def test_a_product_of_weights_beyond_the_limits_is_too_expensive_unless_it_is_the_models_own():
    b = GraphBuilder("factors")
    x, w, v, u = b.input("x", (1, 64)), *(b.weight((64, 64)) for _ in range(3))
    y = b.op("matmul", b.op("matmul", x, w), v)
    graph = b.graph({"y": b.op("relu", y), "z": b.op("matmul", x, b.op("matmul", w, u))})
    with Saturation(graph, rule_set("default"), Limits(iterations=4)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    w, v, u = (egraph.eclass[egraph.original[i]] for i in (w, v, u))

    def forbidden(**limits):
        job = replace(job_on(graph), settings=Settings(**limits))
        costs = prices(job, egraph).tolist()
        return {tuple(egraph.operands(i)) for i, cost in enumerate(costs) if cost > 1e9}

    assert not forbidden()
    # A product takes 524,288 operations and three matrices of 32 KiB in float64.
    for limits in ({"seconds": 1e-5}, {"memory": 90_000}):
        assert (w, v) in forbidden(**limits)
        assert (w, u) not in forbidden(**limits)
