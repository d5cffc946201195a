import json

import numpy as np
import pytest

from tests.costs.networks import ADD, RELU
from workbench.costs.analytic import AnalyticCost
from workbench.costs.keys import instance_key
from workbench.costs.recorded import CostTableError, RecordedCost, save_table
from workbench.costs.store import Measurement

TABLE = {instance_key(RELU): Measurement(7.5, 0.5, 42)}


def test_a_table_is_read_back_with_all_it_says(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    save_table(path, "a GPU", TABLE, date="2026-11-21", roofline="h200")
    model = RecordedCost.load(path)
    assert model.price([RELU]).tolist() == [7.5]
    assert model.source == "recorded table: a GPU; 1 instances recorded"
    assert model.meta == {"date": "2026-11-21", "roofline": "h200"}
    columns = pq.read_table(path).to_pydict()
    assert columns == {
        "instance": list(TABLE), "median_us": [7.5], "spread_us": [0.5], "runs": [42]
    }  # fmt: skip


def test_what_a_table_lacks_is_estimated_by_its_own_roofline_and_said():
    relu, add = AnalyticCost("h200").price([RELU, ADD])
    model = RecordedCost("a GPU", TABLE, {"roofline": "h200"})
    assert model.price([ADD]) == pytest.approx([add * 7.5 / relu])
    assert model.source == "recorded table: a GPU; 0 instances recorded, 1 estimated"
    assert RecordedCost("empty", {}).price([ADD]) == pytest.approx(AnalyticCost("cpu").price([ADD]))


def spoilt(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    good = {"instance": list(TABLE), "median_us": [7.5], "spread_us": [0.5], "runs": [42]} | columns
    meta = good.pop("meta", {"device": "a GPU"})
    data = pa.table({k: v for k, v in good.items() if v is not None})
    pq.write_table(data.replace_schema_metadata({b"workbench.costs": json.dumps(meta).encode()}), path)


@pytest.mark.parametrize(
    "columns",
    [
        {"median_us": [None]},
        {"median_us": [-1.0]},
        {"median_us": [float("nan")]},
        {"median_us": ["7.5"]},
        {"instance": ["relu"]},
        {"instance": [None]},
        {"runs": None},
        {"meta": {}},
        {"meta": ["a GPU"]},
    ],
    ids=str,
)
def test_a_table_with_senseless_content_is_refused(tmp_path, columns):
    path = tmp_path / "table.parquet"
    spoilt(path)
    assert RecordedCost.load(path).price([RELU]).tolist() == [7.5]
    spoilt(path, **columns)
    with pytest.raises(CostTableError, match="not a recorded cost table"):
        RecordedCost.load(path)


@pytest.mark.parametrize("content", [b"", b"not a parquet file", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_a_file_that_is_not_a_table_is_refused(tmp_path, content):
    path = tmp_path / "table.parquet"
    path.write_bytes(content)
    with pytest.raises(CostTableError, match="not a recorded cost table"):
        RecordedCost.load(path)


def test_an_empty_table_can_be_kept(tmp_path):
    save_table(tmp_path / "t.parquet", "d", {})
    assert np.isfinite(RecordedCost.load(tmp_path / "t.parquet").price([RELU])).all()
