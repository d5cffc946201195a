"""Saturation and extraction in turn."""

import time

import numpy as np

import workbench
from workbench.extraction import Status
from workbench.extraction.extract import extract
from workbench.optimizer import search_loop
from workbench.optimizer.search_loop import ROUNDS, explore
from workbench.rules import rule_set
from workbench.run.progress import Stages
from workbench.run.trace import StepKind
from workbench.saturation import Limits, Saturation
from workbench.studies.benchmarks import benchmark


def run(network, **limits):
    rules = rule_set("default")
    said = []
    stages = Stages(lambda stage, detail: said.append(stage))
    saturation = Saturation(network, rules, Limits(weights=rules.weights, **limits))
    with saturation:
        cost = workbench.cost_model("analytic")
        best = explore(saturation, cost, extract, 60.0, stages)
    return saturation, best, best.stop, stages, said


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
    rules = rule_set("default")
    network = benchmark("transformer", layers=2)
    with Saturation(network, rules, Limits(weights=rules.weights)) as saturation:
        best = explore(saturation, workbench.cost_model("analytic"), exactly, 60.0, Stages())
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

    rules = rule_set("default")
    with Saturation(benchmark("transformer", layers=2), rules, Limits()) as saturation:
        cost = workbench.cost_model("analytic")
        explore(saturation, cost, slow, 1.0, Stages())
    assert given[0] == 1.0
    assert len(given) > 1
    assert given == sorted(given, reverse=True)
    assert given[-1] < 0.5
