import pytest

from workbench.saturation import Limits
from workbench.studies.benchmarks.run import run_benchmark


@pytest.fixture(scope="module")
def vgg():
    return run_benchmark("vgg19")


def test_stages_sizes_and_costs_are_there(vgg):
    assert vgg.network == "vgg19"
    assert 0 < vgg.e_classes <= vgg.e_nodes <= 50_000
    assert vgg.stop_reason == "saturated"
    assert vgg.search == pytest.approx(vgg.saturation + vgg.snapshot + vgg.extraction)
    assert "analytic" in vgg.cost_source


def test_exact_is_the_best_and_never_below_its_bound(vgg):
    assert vgg.bound <= vgg.exact + 1e-6
    assert vgg.exact <= vgg.dag + 1e-6
    assert vgg.exact <= vgg.original + 1e-6
    assert vgg.gain("exact") == pytest.approx(vgg.original / vgg.exact - 1)


def test_the_published_figures_are_shown_too(vgg):
    assert vgg.published.tensat_seconds == 0.4
    assert vgg.faster == pytest.approx(0.4 / vgg.search)
    record = vgg.summary()
    assert record["published"]["tensat_speedup"] == 8.9
    assert set(record["gains"]) == {"tree", "dag", "exact"}


def test_a_network_without_published_figures_has_none():
    run = run_benchmark("resnet50", limits=Limits(iterations=1))
    assert run.published is None
    assert run.faster is None
    assert run.iterations == 1


def test_progress_is_reported_by_stage():
    seen = []
    run_benchmark("vgg19", limits=Limits(iterations=1), progress=lambda stage, step: seen.append(stage))
    assert seen == ["saturation", "pricing", "extraction"]


def test_unknown_names_get_the_nearest():
    with pytest.raises(LookupError, match="did you mean nasrnn"):
        run_benchmark("nasrn")
    with pytest.raises(LookupError, match="did you mean default"):
        run_benchmark("vgg19", rules="defalt")
