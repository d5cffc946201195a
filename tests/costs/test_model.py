"""A cost model of one's own writes its prices and inherits the rest."""

import numpy as np
import pytest

import workbench
from workbench.costs import CostModel, graph_cost
from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.lookup import RecordedCost
from workbench.costs.measured import MeasuredCost
from workbench.costs.model import described, is_this_machine
from workbench.studies.benchmarks import benchmark


class Elements(CostModel):
    def price(self, instances):
        return np.array([float(i.type.elements) for i in instances])


@pytest.mark.slow
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


def test_a_roofline_is_not_this_machine():
    for name in DEVICES:
        text = described(AnalyticCost(name).source)
        assert text.startswith("by a roofline of a")
        assert text.endswith(", not this machine")
        assert not is_this_machine(AnalyticCost(name).source)


def test_sizes_that_prices_are_for_are_kept():
    text = described("analytic roofline, t4, at batch=4, sequence=128")
    assert text == "by a roofline of an NVIDIA T4, not this machine, at batch=4, sequence=128"


def test_what_was_measured_here_says_so(tmp_path):
    model = MeasuredCost(tmp_path)
    assert described(model.source).startswith("by operators measured on this machine: ONNX Runtime")
    assert is_this_machine(model.source)
    assert is_this_machine(RecordedCost(model.device, {}).source)
    assert not is_this_machine(RecordedCost("NVIDIA H200, torch 2.9", {}).source)
    elsewhere = described(RecordedCost("NVIDIA H200, torch 2.9", {}).source)
    assert elsewhere.startswith("by operators recorded not on this machine: NVIDIA H200")


def test_another_source_is_named_as_it_names_itself():
    assert described("a colleague's table") == "by a colleague's table"
    assert not is_this_machine("a colleague's table")
