"""Measuring only instances that can change a decision, with a measured model of scripted runs."""

import numpy as np
import pytest

from tests.costs.networks import instance, network
from workbench.costs import instances_of
from workbench.costs import measured as module
from workbench.costs.analytic import AnalyticCost
from workbench.costs.keys import same_kernel
from workbench.costs.lazy_measured import SECONDS, Economical, economical
from workbench.costs.measured import MeasuredCost
from workbench.costs.pricing import deciding_instances


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    """Return a model whose measurements take one second each of a clock that otherwise does not move."""
    now = [0.0]

    def timed(self, run):
        now[0] += 1.0
        return module.Measurement(5.0, 0.0, 3)

    monkeypatch.setattr(MeasuredCost, "_timed", timed)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
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
