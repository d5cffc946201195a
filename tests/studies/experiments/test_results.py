"""Stored runs as a frame, as tables, and against others."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from workbench.results import MORE, compare, load, table, with_published
from workbench.studies.experiments.records import COLUMNS
from workbench.studies.experiments.store import save_record


def record(network, method, *, repeat=0, original=200.0, optimized=100.0, seconds=1.0, **more):
    row = {
        "network": network, "method": method, "repeat": repeat, "original": original, "optimized": optimized,
        "seconds": seconds, "by": "saturation", "cost_source": "a table", "nodes": 7, "certified": True,
        "notes": "",
    }  # fmt: skip
    return {
        "name": f"{network}:{method}",
        "config": {"study": "optimisation", "seed": repeat},
        "row": row,
        "failed": False,
        "wall_seconds": 3.0,
        "stop_reason": "saturated",
        "limits_hit": [],
        "provenance": {"machine": {"cpus": 2, "processor": "a CPU"}, "commit": "0123456789ab"},
    } | more


def store(folder, *records):
    for i, found in enumerate(records):
        save_record(folder / "runs" / f"run-{i}", found)
    return folder


@pytest.fixture
def folder(tmp_path):
    return store(
        tmp_path / "study",
        record("vgg19", "ours", optimized=160.0),
        record("bert", "ours"),
        record("bert", "ours", repeat=1, optimized=125.0, seconds=3.0),
        record("bert", "other", optimized=200.0),
    )


def test_all_runs_below_a_folder_are_loaded_in_the_papers_order(folder):
    frame = load(folder.parent)
    assert {*COLUMNS, *MORE} <= set(frame.columns)
    assert frame["network"].tolist() == ["bert", "bert", "bert", "vgg19"]
    assert frame["method"].tolist() == ["other", "ours", "ours", "ours"]
    assert frame["speedup"].tolist() == pytest.approx([0.0, 100.0, 60.0, 25.0])
    assert frame["hardware"].unique().tolist() == ["2 CPUs, a CPU"]
    assert frame["nodes"].tolist() == [7] * 4
    assert str(frame["nodes"].dtype) == "Int64"
    assert len(load(folder / "runs" / "run-0")) == 1
    assert load(frame["folder"][0] + "/run.json")["method"].tolist() == ["other"]


def test_extractions_have_their_figures_under_the_same_names(tmp_path):
    row = {
        "instance": "bert", "e_nodes": 9, "e_classes": 4, "method": "exact", "cost": 50.0, "bound": 50.0,
        "gap": 0.0, "status": "optimal", "scope": "e-graph", "seconds": 0.5, "found_by": "exact", "notes": "",
    }  # fmt: skip
    e_graph = {"original_cost": 100.0, "iterations": 3, "saturation_seconds": 0.1, "cost_source": "a table"}
    config = {"study": "extraction", "seed": 0, "instance": {"k_multi": 2}}
    store(
        tmp_path,
        record("bert", "exact") | {"row": row, "e_graph": e_graph, "config": config, "name": "bert:exact#2"},
    )
    (found,) = load(tmp_path).to_dict("records")
    assert (found["original"], found["optimized"], found["speedup"]) == (100.0, 50.0, 100.0)
    assert (found["nodes"], found["classes"], found["iter"], found["k_multi"]) == (9, 4, 3, 2)
    assert (found["repeat"], found["by"], found["extraction"]) == (1, "extraction", 0.5)


def test_where_there_is_nothing_or_something_broken_it_is_said(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"must have a stored run, got none \(try `workbench run STUDY\.yaml`"
    ):
        load(tmp_path)
    store(tmp_path, record("bert", "ours"))
    (tmp_path / "runs" / "run-0" / "run.json").write_text("{")
    with pytest.raises(ValueError, match="must be the record of a run"):
        load(tmp_path)
    (tmp_path / "runs" / "run-0" / "run.json").write_text(json.dumps({"other": 1}))
    with pytest.raises(FileNotFoundError):
        load(tmp_path)


def test_a_table_has_means_errors_the_geometric_mean_and_gaps(folder):
    found = table(load(folder))
    assert found.loc["bert", "ours"].tolist() == ["80.0 ± 20.0", "2.00 ± 1.00", "2"]
    assert found.loc["vgg19", "other"].tolist() == ["—", "—", "—"]
    # The geometric mean of 1.8 and 1.25 is 1.5, of 2 s and 1 s the root of 2.
    assert found.loc["geometric mean", "ours"].tolist() == ["50.0", "1.41", "2"]
    assert found.loc["geometric mean", "other"].tolist() == ["0.0", "1.00", "1"]


def test_published_figures_are_marked_with_their_hardware(folder):
    found = table(with_published(load(folder)))
    assert found.loc["bert", "Tensat, published (NVIDIA T4)"].tolist() == ["9.2", "1.40", "1"]
    assert found.loc["bert", "ours"].tolist() == ["80.0 ± 20.0", "2.00 ± 1.00", "2"]


def test_two_sets_of_runs_stand_side_by_side(folder, tmp_path):
    other = store(
        tmp_path / "later", record("bert", "ours", optimized=90.0, seconds=1.0), record("nasrnn", "ours")
    )
    found = compare(load(folder), load(other)).set_index(["network", "method"])
    bert = found.loc["bert", "ours"]
    assert (bert["optimized_a"], bert["optimized_b"], bert["cost_ratio"]) == (112.5, 90.0, 0.8)
    assert (bert["seconds_ratio"], bert["n_a"], bert["n_b"]) == (0.5, 2, 1)
    assert found.loc["nasrnn", "ours"]["n_a"] == 0
    assert pd.isna(found.loc["vgg19", "ours"]["cost_ratio"])
    foreign = load(other).assign(cost_source="measured")
    with pytest.raises(ValueError, match="must have the same cost source, got a table and measured"):
        compare(load(folder), foreign)


def test_results_are_there_after_importing_the_package_alone():
    code = "import sys, workbench; assert 'pandas' not in sys.modules; print(workbench.results.load.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "load\n"
