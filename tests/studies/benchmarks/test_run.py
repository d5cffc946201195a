"""A published network, optimised in a process of its own, next to the papers' figures."""

import sys

import pytest

import workbench
from workbench.saturation import Limits
from workbench.studies.benchmarks import run
from workbench.studies.benchmarks.run import run_benchmark


@pytest.fixture(scope="module")
def vgg():
    return run_benchmark("vgg19")


@pytest.mark.slow
def test_stages_sizes_and_costs_are_there(vgg):
    assert vgg.network == "vgg19"
    assert 0 < vgg.e_classes <= vgg.e_nodes <= 50_000
    assert vgg.stop_reason == "saturated"
    assert vgg.search == pytest.approx(sum(map(vgg.stage, ("saturation", "snapshot", "extraction"))))
    assert "analytic" in vgg.cost_source


@pytest.mark.slow
def test_exact_is_the_best_and_never_below_its_bound(vgg):
    assert vgg.bound <= vgg.exact + 1e-6
    assert vgg.exact <= vgg.dag + 1e-6
    assert vgg.exact <= vgg.original + 1e-6
    assert vgg.gain("exact") == pytest.approx(vgg.original / vgg.exact - 1)


@pytest.mark.slow
def test_the_published_figures_are_shown_too(vgg):
    assert vgg.published.tensat_seconds == 0.4
    assert vgg.faster == pytest.approx(0.4 / vgg.search)
    record = vgg.summary()
    assert record["published"]["tensat_speedup"] == 8.9
    assert set(record["gains"]) == {"tree", "dag", "exact"}


@pytest.mark.slow
def test_a_network_without_published_figures_has_none():
    found = run_benchmark("resnet50", limits=Limits(iterations=1))
    assert found.published is None
    assert found.faster is None
    assert found.iterations == 1


@pytest.mark.slow
def test_a_whole_call_gives_seconds_by_stage_and_the_same_cost():
    limits = Limits(e_nodes=400, iterations=2)
    call = run_benchmark("vgg19", limits=limits).whole_call
    assert call.certified
    assert 0 < sum(call.stages.values()) <= call.seconds
    here = workbench.optimize(
        workbench.benchmark("vgg19"), e_nodes=400, iterations=2, settle=0, certify=False
    )
    assert call.cost_after == here.cost_after


def test_the_limits_are_those_of_each_stage(monkeypatch):
    told = "import sys; sys.exit(sys.stdin.read())"
    monkeypatch.setattr(run, "command", lambda module: [sys.executable, "-c", told])
    with pytest.raises(RuntimeError, match='"saturation_seconds": 5, "extraction_seconds": 5, "seconds": 20'):
        run_benchmark("vgg19", limits=Limits(seconds=5))


def test_what_fails_there_is_raised_here(monkeypatch):
    failing = [sys.executable, "-c", "import sys; sys.exit('the engine is missing')"]
    monkeypatch.setattr(run, "command", lambda module: failing)
    with pytest.raises(RuntimeError, match="vgg19 in its own process: the engine is missing"):
        run_benchmark("vgg19")


def test_unknown_names_get_the_nearest():
    with pytest.raises(LookupError, match="did you mean nasrnn"):
        run_benchmark("nasrn")
    with pytest.raises(LookupError, match="did you mean default"):
        run_benchmark("vgg19", rules="defalt")
