import json

import numpy as np
import pytest

from tests.costs.networks import ADD, MATMUL, RELU, instance
from workbench.costs import OpInstance
from workbench.costs.analytic import AnalyticCost
from workbench.costs.keys import instance_key
from workbench.costs.lookup import CostTableError, Lookup, RecordedCost, save_table
from workbench.costs.store import Measurement
from workbench.graph import GraphBuilder, Opaque
from workbench.ops import TensorType

BASE = AnalyticCost("cpu")
VIEW = instance("reshape", [(4, 64)], (256,), ((256,),))


def priced(lookup, *instances):
    return lookup.price([(lookup.key(i), i) for i in instances]).tolist()


def test_known_figures_count_the_rest_is_estimated_and_views_are_free():
    relu, add = BASE.price([RELU, ADD])
    lookup = Lookup({instance_key(RELU): Measurement(3 * relu, 0.1, 9)}, BASE)
    assert priced(lookup, RELU, ADD, VIEW) == pytest.approx([3 * relu, 3 * add, 0.0])
    assert lookup.tally("measured") == "; 1 instances measured, 1 estimated"
    tally = lookup.tally("measured", [lookup.key(ADD), "an instance nobody asked for"])
    assert tally == "; 1 instances measured, 1 estimated (1 of them could not be run)"


def test_each_operator_has_its_scale_and_the_others_take_the_middle():
    costs = BASE.price([RELU, ADD, MATMUL])
    assert Lookup({}, BASE).estimate([RELU, MATMUL]) == pytest.approx(BASE.price([RELU, MATMUL]))
    known = {
        instance_key(i): Measurement(k * c, 0.1, 9)
        for i, k, c in zip((RELU, ADD), (2, 4), costs, strict=False)
    }
    assert Lookup(known, BASE).estimate([RELU, ADD, MATMUL]) == pytest.approx(costs * [2, 4, 3])


def test_an_estimate_depends_on_what_is_known_and_not_on_what_is_asked():
    lookup = Lookup({instance_key(RELU): Measurement(99.0, 0.1, 9)}, BASE)
    alone = priced(lookup, ADD)
    assert priced(lookup, MATMUL, ADD, RELU)[1:2] == alone
    lookup.add({instance_key(MATMUL): Measurement(1.0, 0.1, 9)})
    assert priced(lookup, ADD) != alone


def test_keys_of_another_version_do_no_harm():
    known = {key: Measurement(1.0, 0.1, 3) for key in ('["fft",[],["float32[2]"],"float32[2]","v"]', "?")}
    assert priced(Lookup(known, BASE), RELU) == BASE.price([RELU]).tolist()


def test_opaque_operators_are_known_by_content():
    kind = TensorType("float32", (3,))

    def bound(payload, key):
        b = GraphBuilder()
        (y,) = b.opaque(Opaque("Foo", "", (kind,), payload), [b.input("x", (3,))], key)
        lookup = Lookup({}, BASE)
        lookup.bind(b.graph({"y": y}))
        return lookup.key(OpInstance("opaque", (key,), (kind,), kind, (False,)))

    assert bound(b"1", "Foo_0") == bound(b"1", "Foo_7")
    assert bound(b"1", "Foo_0") != bound(b"2", "Foo_0")


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
