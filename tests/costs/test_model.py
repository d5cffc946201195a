"""A cost model of one's own writes its prices and inherits the rest."""

import numpy as np
import pytest

import workbench
from workbench.costs import CostModel, graph_cost
from workbench.costs.analytic import AnalyticCost
from workbench.costs.recorded import RecordedCost
from workbench.studies.benchmarks import benchmark


class Elements(CostModel):
    def price(self, instances):
        return np.array([float(i.type.elements) for i in instances])


def test_prices_are_enough():
    graph = benchmark("squeezenet", image=64)
    result = workbench.optimize(graph, cost=Elements(), certify=False)
    assert result.cost_source == "Elements"
    assert result.cost_before == graph_cost(graph, Elements())
    assert result.cost_after < result.cost_before
    assert workbench.studies.search_optimize(graph, cost=Elements(), certify=False).cost_source == "Elements"


def test_a_model_without_prices_is_refused():
    class Nothing(CostModel):
        pass

    with pytest.raises(TypeError, match="price"):
        Nothing()


def test_the_defaults():
    model, graph = Elements(), benchmark("bert", layers=1)
    assert (model.source, model.device) == ("Elements", "Elements")
    assert (model.analytic, model.measured) == (False, False)
    model.bind(graph)
    assert model.measure([]) == 0
    other = AnalyticCost()
    assert model.with_model(other) is other
    costs = np.ones(3)
    assert model.settle(None, costs) is costs


def test_a_model_that_measures_says_so():
    class Measuring(Elements):
        def measure(self, instances):
            return len(instances)

    assert Measuring().measured
    assert not AnalyticCost().measured
    assert not RecordedCost("a device", {}).measured


def test_every_model_names_its_device():
    assert AnalyticCost("h200").device == "h200"
    assert RecordedCost("a device", {}).device == "a device"
    assert AnalyticCost("h200").analytic
