import pytest

from workbench.costs import CostModel
from workbench.costs.recorded import RecordedCost, save_table
from workbench.costs.registry import NAMES, UnknownCostModel, cost_model
from workbench.costs.store import Measurement


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


def test_what_is_not_a_model_is_refused_with_the_class_to_use():
    class Mine:
        def price(self, instances):
            return [1.0 for _ in instances]

    with pytest.raises(TypeError, match=r"class Mine\(workbench.costs.CostModel\)"):
        cost_model(Mine())


def test_devices():
    assert cost_model("analytic").source == "analytic roofline, t4"
    assert cost_model("analytic:h200").source == "analytic roofline, h200"


def test_a_path_is_a_recorded_table(tmp_path):
    path = tmp_path / "table.parquet"
    save_table(path, "some device", {'["relu",[],[],"float32[1]",""]': Measurement(1.0, 0.0, 3)})
    assert isinstance(cost_model(path), RecordedCost)
    assert cost_model(str(path)).source == "recorded table: some device"


def test_unknown_names_and_missing_files():
    with pytest.raises(UnknownCostModel, match="did you mean analytic"):
        cost_model("analytik")
    with pytest.raises(LookupError, match="h200"):
        cost_model("analytic:h20")
    with pytest.raises(LookupError, match="There are: analytic"):
        cost_model("")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cost_model("tables/nowhere.parquet")
