import math

import numpy as np
import pytest

import workbench
from tests.faces.plots.runs import runs, with_k
from workbench.faces.plots import COLUMNS, published_records, record, records_frame
from workbench.studies.experiments.records import estimate, series_of


def small_result(**settings):
    b = workbench.GraphBuilder("pair")
    x = b.input("x", (4, 8))
    left, right = (b.op("matmul", x, b.weight((8, 8))) for _ in range(2))
    return workbench.optimize(b.graph({"y": b.op("add", left, right)}), certify=False, **settings)


def test_a_result_becomes_a_record_with_every_column():
    result = small_result()
    row = record(result)
    assert set(COLUMNS) <= set(row)
    assert (row["network"], row["repeat"], row["hardware"], row["published"]) == ("pair", 0, "", False)
    assert (row["original"], row["optimized"]) == (result.cost_before, result.cost_after)
    assert (row["nodes"], row["classes"], row["iter"]) == (
        result.e_nodes, result.e_classes, result.iterations,
    )  # fmt: skip
    sizes = [len(m) for m in result.egraph.members() if m]
    assert row["programs"] == pytest.approx(sum(math.log2(n) for n in sizes))
    assert row["seconds"] <= sum(result.seconds.values())


def test_speedup_and_seconds_come_from_costs_and_stages_unless_given():
    frame = records_frame(runs())
    assert list(frame["speedup"][:3]) == pytest.approx([20, 40, 50])
    assert list(frame["seconds"][:3]) == [2, 4, 10]
    assert list(frame["speedup"][-2:]) == [12, 25]
    assert set(COLUMNS) <= set(frame.columns)


def test_sources_are_put_together():
    frame = records_frame([small_result(), published_records(["bert"]), {"network": "n", "speedup": 3}])
    assert list(frame["network"]) == ["pair", "bert", "bert", "n"]
    assert list(frame["published"]) == [False, True, True, False]
    assert list(frame["speedup"][1:]) == [8.5, 9.2, 3]


def test_published_figures_are_marked_with_their_machine():
    frame = published_records()
    assert len(frame) == 14
    assert frame["published"].all()
    assert set(frame["hardware"]) == {"NVIDIA T4"}
    assert published_records(["unheard-of"]).empty


def test_what_is_missing_is_named_with_what_is_near():
    frame = runs().rename(columns={"optimized": "optimised"}).drop(columns="speedup")
    with pytest.raises(ValueError, match=r"must have 'speedup'.*; did you mean 'optimised'\?"):
        records_frame(frame, "speedup")
    with pytest.raises(ValueError, match=r"'nodes' must have numbers"):
        records_frame([{"network": "n", "nodes": "many"}])
    with pytest.raises(TypeError, match="got int"):
        records_frame(3)
    with pytest.raises(TypeError, match=r"got str \(try pandas\.read_csv"):
        records_frame("runs.csv")


def test_an_estimate_is_mean_and_standard_error():
    values = [1.0, 2.0, 4.0, math.nan]
    known = np.array(values[:3])
    found = estimate(values)
    assert found.mean == pytest.approx(known.mean())
    assert found.error == pytest.approx(known.std(ddof=1) / math.sqrt(3))
    assert (found.count, estimate([5.0]).error, estimate([]).count) == (3, 0, 0)


def test_a_method_with_several_k_multi_is_several_series_and_published_ones_come_last():
    networks, series = series_of(records_frame(runs()), "speedup")
    assert networks == ("toy", "net")
    assert [s.label for s in series] == [
        "workbench, k=1", "workbench, k=2", "TASO, published (T4)", "Tensat, published (T4)",
    ]  # fmt: skip
    assert [v.count for v in series[0].values] == [2, 2]
    assert [v.count for v in series[2].values] == [1, 0]


def test_repeats_of_different_machines_are_not_averaged():
    frame = with_k(1)
    frame.loc[frame["repeat"] == 1, "hardware"] = "elsewhere"
    with pytest.raises(ValueError, match=r"workbench on toy.*'elsewhere', 'here'"):
        series_of(records_frame(frame), "speedup")
