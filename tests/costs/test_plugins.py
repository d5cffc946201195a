"""Cost models of the user's own, by name."""

import numpy as np
import pytest

import workbench
from tests.packages import install
from workbench.costs import CostModel
from workbench.costs.analytic import AnalyticCost
from workbench.costs.plugins import OWN
from workbench.costs.registry import UnknownCostModel, cost_model


@pytest.fixture(autouse=True)
def _empty():
    yield
    OWN._own.clear()


def graph():
    b = workbench.GraphBuilder()
    return b.graph({"y": b.op("relu", b.op("relu", b.input("x", (2, 3))))})


def test_a_function_prices_instances():
    @cost_model.register("ones")
    def ones(instance):
        return 1.0

    found = workbench.optimize(graph(), cost="ones")
    assert found.cost_source == "the cost model ones"
    assert (found.cost_before, found.cost_after) == (2.0, 1.0)
    assert "ones" in cost_model.names()


def test_a_class_and_an_object_are_models():
    @cost_model.register("twos")
    class Twos(CostModel):
        source = "twos"

        def price(self, instances):
            return np.full(len(instances), 2.0)

    model = AnalyticCost("a100")
    cost_model.register("mine", model)
    assert isinstance(cost_model("twos"), Twos)
    assert cost_model("mine") is model


def test_other_things_and_names_are_refused():
    cost_model.register("seven", 7)
    with pytest.raises(TypeError, match="'seven' must be a CostModel, a class of them or a function, got 7"):
        cost_model("seven")
    with pytest.raises(ValueError, match="must not be a built-in one, got 'cpu'"):
        cost_model.register("cpu", AnalyticCost())
    with pytest.raises(UnknownCostModel, match="did you mean seven"):
        cost_model("sevne")


def test_a_package_offers_a_model(tmp_path, monkeypatch):
    install(
        tmp_path, monkeypatch, "prices", "def fixed(i):\n    return 5.0\n", cost_models={"fixed": "fixed"}
    )
    assert workbench.optimize(graph(), cost="fixed").cost_before == 10.0
