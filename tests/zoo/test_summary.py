"""What stored runs of branches came to, in tables and sentences: one statistic, runs that disagree shown."""

import pytest

from zoo.summary import (
    compile_said,
    differing,
    operators,
    provenance,
    runs_said,
    speedups,
    timed_records,
    unmerged_said,
)

TITLES = {"onnxruntime": "a runtime", "torch": "torch", "torch+compile": "torch, compiled"}
COUNTS = {"original": {"Conv": 2, "Relu": 1}, "by hand": {"Conv": 1, "Relu": 1}, "onnxsim": {"Conv": 2}}


def timing(target, form, median, speedup, low, high):
    return {
        "target": target, "form": form, "median_us": median, "quartiles_us": [median, median],
        "rounds": 9, "speedup": speedup, "interval": [low, high],
    }  # fmt: skip


def record(family="repvgg", method="t4", *, ours=None, by_hand=(2.0, 1.9, 2.1), measured=None, **row):
    rows = [
        timing("onnxruntime", "original", 200.0, 1.0, 1.0, 1.0),
        timing("onnxruntime", "onnxsim", 200.0, 1.0, 0.9, 1.1),
        timing("onnxruntime", "by hand", 100.0, *by_hand),
        timing("onnxruntime", "ours", 50.0, 4.0, 3.9, 4.1),
        timing("torch", "original", 100.0, 1.0, 1.0, 1.0),
        timing("torch+compile", "original", 150.0, 1.0, 1.0, 1.0),
    ]
    about = {"network": family, "family": family, "method": method, "repeat": 0, "blocks": 2}
    costs = {"original": 300.0, "optimized": 100.0, "by_hand": 120.0, "cost_source": f"{method} costs; 3 new"}
    made = {"operators": 2, "operators_original": 3}
    machine = {"cpus": 2, "processor": "a processor"}
    return {
        "name": f"{family}:{method}",
        "failed": False,
        "wall_seconds": 1.0,
        "seconds": {"engine": 1.0},
        "config": {"study": "branches", "seed": 0, "latency": {}, "parameters": {"blocks": 2, "size": 28}},
        "row": about | costs | made | row,
        "result": {"nodes": COUNTS | {"ours": ours or {"Conv": 1, "Relu": 1}}, "measured": measured},
        "latency": {"threads": 1, "titles": TITLES, "rivals": {"onnxsim": {"version": "1.2"}}, "rows": rows},
        "provenance": {"machine": machine, "versions": {"egglog": "1"}, "commit": "abc", "load": 0.5},
    }


def scaled():
    larger = record(network="repvgg-x9")
    return larger | {"config": larger["config"] | {"latency": None}, "latency": {}}


def test_runs_that_failed_or_were_not_timed_are_left_out():
    failed = record() | {"failed": True}
    kept = timed_records([record("dbb"), record(method="t4"), record(method="cpu"), scaled(), failed])
    assert [r["name"] for r in kept] == ["repvgg:cpu", "repvgg:t4", "dbb:t4"]


def test_figures_are_the_geometric_means_of_runs_and_runs_that_disagree_are_shown_too():
    found = [record(method="cpu", by_hand=(8.0, 7.9, 8.1)), record(method="t4")]
    table = speedups(found, predicted=True)
    ort = table["ONNX Runtime"]
    assert list(ort) == ["original, µs", "onnxsim 1.2", "by hand", "ours, cpu", "ours, t4"]
    assert ort.loc["repvgg"].tolist() == ["200", "1.00", "4.00 (2.00–8.00)", "4.00", "4.00"]
    assert table["predicted by costs"].loc["repvgg"].to_dict() == {"cpu": "3.00", "t4": "3.00"}
    assert ort.loc["geometric mean", "by hand"] == "4.00"
    told = runs_said(found)
    assert "by hand: 2; ours, cpu: 1" in told
    assert "intervals in: repvgg, by hand (1.90–8.10)." in told


def test_what_agrees_is_said_to():
    found = [record(method="cpu"), record(method="t4"), record("dbb", original=600.0)]
    table = speedups(found, predicted=True)
    assert table.loc["repvgg", ("ONNX Runtime", "by hand")] == "2.00"
    assert table.loc["dbb", ("ONNX Runtime", "ours, cpu")] == "—"
    assert table.loc["geometric mean", ("predicted by costs", "t4")] == "4.24"
    assert runs_said(found).endswith("agree within their 95 % intervals.")
    assert "predicted by costs" not in speedups(found).columns.get_level_values(0)


def test_a_target_that_was_not_timed_is_refused():
    with pytest.raises(ValueError, match="target must have timings, got 'torch:cuda'"):
        speedups([record()], "torch:cuda")


def test_operators_of_every_form_and_the_size_of_the_network():
    (row,) = operators([record(method="cpu"), record(method="t4")]).to_dict("records")
    assert row == {
        "blocks": 2, "sizes": "size 28", "original": 3, "by hand": 2, "onnxsim": 2, "ours, cpu": 2,
        "ours, t4": 2,
    }  # fmt: skip


def test_an_original_that_the_compiler_slows_is_reported():
    assert "in 1 of 1 families by more than 3 % (most: repvgg: 100 → 150 µs)" in compile_said([record()])
    even = record()
    even["latency"]["rows"][-1]["median_us"] = 101.0
    assert compile_said([even]).startswith("torch.compile does not make any original slower")
    even["latency"]["rows"].pop()
    assert compile_said([even]) == ""


def test_families_that_costs_merge_differently():
    same = [record("dbb", m) for m in ("cpu", "t4")]
    other = [record(method="cpu", ours=COUNTS["original"]), record(method="t4")]
    table = differing([*same, *other])
    assert list(table.index) == ["repvgg"]
    assert table.loc["repvgg"].tolist() == ["2 Conv, 1 Relu", "2 Conv, 1 Relu", "1 Conv, 1 Relu"]
    assert differing(same).empty


def test_what_is_left_apart_is_reported_with_its_costs():
    assert unmerged_said([record()]) == "Every result has fewer operators than its original."
    stayed = {"candidates": [{}], "winner": None}
    kept = record(operators=3)
    kept["row"]["by_hand"] = None
    told = unmerged_said([kept, record("dbb", operators=3, measured=stayed)])
    assert "`repvgg` by t4 (original 300, ours 100 µs)" in told
    assert "`dbb` by t4 (original 300, by hand 120, ours 100 µs, none ran faster end to end)" in told


def test_provenance_names_machine_versions_rivals_and_cost_sources():
    told = provenance([record(), scaled()])
    assert "machine: 2 CPUs, a processor" in told
    assert "rivals: onnxsim 1.2" in told
    assert "cost sources: t4: t4 costs" in told
    assert "versions: egglog 1" in told
    assert "load when runs began: 0.5 to 0.5" in told


def test_no_records_make_no_tables():
    assert operators([]).empty
    assert differing([]).empty
    assert provenance([]) == []
    assert compile_said([]) == ""
