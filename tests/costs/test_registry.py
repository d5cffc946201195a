"""Cost models by name: built-in ones, registered ones, those that packages offer, and unknown names."""

import numpy as np
import pytest

import workbench
from tests.packages import install
from workbench.costs import CostModel
from workbench.costs.analytic import AnalyticCost
from workbench.costs.lookup import RecordedCost, save_table
from workbench.costs.model import OpInstance
from workbench.costs.registry import NAMES, cost_model
from workbench.costs.store import Measurement
from workbench.ops import TensorType
from workbench.support.messages import UnknownName


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_cost_model(name, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    model = cost_model(name)
    assert isinstance(model, CostModel)
    assert model.source.startswith("measured" if name == "cpu" else "analytic")


def test_a_model_is_itself():
    model = cost_model("analytic")
    assert cost_model(model) is model
    with pytest.raises(LookupError, match="analytic"):
        cost_model("analytical")


def test_what_is_not_a_model_is_refused_with_its_name():
    class Mine:
        def price(self, instances):
            return [1.0 for _ in instances]

    with pytest.raises(TypeError, match="'Mine' must be a CostModel, a class of them or a function"):
        cost_model(Mine())


def test_a_function_is_a_model_and_its_errors_name_it():
    instance = OpInstance("relu", (), (TensorType("float32", (2,)),), TensorType("float32", (2,)), (False,))

    def two(instance):
        return 2

    def broken(instance):
        return instance.nothing

    assert cost_model(two).price([instance, instance]).tolist() == [2.0, 2.0]
    assert cost_model(two).source == "the cost model two"
    for wrong in (None, "3", True):
        with pytest.raises(TypeError, match="must return microseconds"):
            cost_model(lambda i, wrong=wrong: wrong).price([instance])
    with pytest.raises(AttributeError) as failure:
        cost_model(broken).price([instance])
    assert failure.value.__notes__ == ["in the cost model broken, for the operator relu"]


def test_devices():
    assert cost_model("analytic").source == "analytic roofline, t4"
    assert cost_model("analytic:h200").source == "analytic roofline, h200"


def test_a_path_is_a_recorded_table(tmp_path):
    path = tmp_path / "table.parquet"
    save_table(path, "some device", {'["relu",[],[],"float32[1]",""]': Measurement(1.0, 0.0, 3)})
    assert isinstance(cost_model(path), RecordedCost)
    assert cost_model(str(path)).source == "recorded table: some device"


def test_unknown_names_and_missing_files():
    with pytest.raises(UnknownName, match="did you mean analytic"):
        cost_model("analytik")
    with pytest.raises(LookupError, match="h200"):
        cost_model("analytic:h20")
    with pytest.raises(LookupError, match="There are: analytic"):
        cost_model("")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cost_model("tables/nowhere.parquet")


@pytest.fixture(autouse=True)
def _empty():
    yield
    cost_model._own.clear()


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
    with pytest.raises(UnknownName, match="did you mean seven"):
        cost_model("sevne")


def test_a_package_offers_a_model(tmp_path, monkeypatch):
    install(
        tmp_path, monkeypatch, "prices", "def fixed(i):\n    return 5.0\n", cost_models={"fixed": "fixed"}
    )
    assert workbench.optimize(graph(), cost="fixed").cost_before == 10.0
