import pytest

from tests.costs.networks import network
from workbench.costs.analytic import AnalyticCost
from workbench.costs.endtoend import EndToEnd, end_to_end
from workbench.costs.measured import MeasuredCost


def test_operators_are_all_measured_and_the_whole_is_run(tmp_path):
    found = end_to_end(network(), MeasuredCost(tmp_path, budget=0, milliseconds=1), seconds=0.05)
    assert found.source.endswith("3 instances measured")
    assert found.operators > 0
    assert 0 < found.quartiles[0] <= found.whole <= found.quartiles[1]
    assert found.rounds >= 5
    assert "1 thread" in found.executor
    assert found.summary()["ratio"] == found.ratio == pytest.approx(found.operators / found.whole)


def test_any_cost_model_can_be_compared():
    found = end_to_end(network(), AnalyticCost("cpu"), seconds=0.05, threads=None)
    assert "analytic roofline, cpu" in str(found)
    assert "all cores" in str(found)


def test_a_whole_of_no_time_has_no_ratio():
    assert EndToEnd(1.0, 0.0, (0.0, 0.0), 5, "", "").ratio == 0.0
