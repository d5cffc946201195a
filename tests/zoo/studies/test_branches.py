"""A study of branches from end to end: merged, certified, timed, kept, resumed, told."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.studies.experiments.studies import without_processes
from workbench.faces.plots.reports import RunReport, StudyReport
from workbench.studies.experiments.plan import Run, sweep
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.results import latency, load
from workbench.studies.experiments.tables import render, write_tables
from zoo.studies import branches as branches_study
from zoo.studies.branches import BranchesMethod, Latency, Order, markdown, merge_one, node_counts

STUDY = """
kind: branches
families:
  repvgg: {blocks: 1, channels: 4, size: 6}
methods:
  t4: {}
latency: {targets: [onnxruntime], rivals: [onnxslim], seconds: 0.05}
scaling: {families: {repvgg: {}}, blocks: [1, 2], methods: [t4]}
"""


def run(*, family="repvgg", timing=None, method=None, **parameters):
    given = {"blocks": 1, "channels": 4, "size": 6} | parameters
    wanted = Order(family, given, method or BranchesMethod(), "default", "analytic", timing, 1)
    return Run(family, "t4", {}, 60.0, order=wanted)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("branches")
    (folder / "small.yaml").write_text(STUDY)
    plan = make_plan(read_study(folder / "small.yaml"), folder, folder / "results" / "small")
    with without_processes():
        records = list(sweep(plan, plan.runs))
    write_tables(plan)
    return plan, records


@pytest.mark.slow
def test_the_branches_are_merged_and_certified(done):
    _, records = done
    assert [r["name"] for r in records] == ["repvgg:t4", "repvgg-x1:t4", "repvgg-x2:t4"]
    assert not any(r["failed"] for r in records)
    row, result = records[0]["row"], records[0]["result"]
    assert (row["operators_original"], row["operators_by_hand"], row["operators"]) == (8, 2, 2)
    assert result["nodes"]["ours"] == result["nodes"]["by hand"] == {"Conv": 1, "Relu": 1}
    assert result["certificate"]["passed"] is row["certified"] is True
    assert 0 < row["own_rounding"] < 1e-5
    assert 0 < row["rounding"] < 1e-5
    assert "batchnorm-as-affine" in result["rules"]
    assert "batchnorm-as-affine" in result["chain"]
    assert result["chain"][-1] == "conv-takes-relu-bias", "the chain of an operator that runs"
    assert row["optimized"] < row["original"]
    assert {"saturation", "extraction", "certificate"} <= set(records[0]["seconds"])


@pytest.mark.slow
def test_every_form_is_timed_against_the_original(done):
    plan, records = done
    frame = latency(plan.folder).set_index("form")
    assert set(frame.index) >= {"original", "onnxslim", "by hand", "ours"}
    assert frame.loc["original", "speedup"] == 1
    timed = frame[frame["skipped"].isna()]
    assert (timed["low"] <= timed["median"]).all()
    assert (timed["median"] <= timed["high"]).all()
    assert (timed["speedup_low"] <= timed["speedup"]).all()
    assert timed["rounds"].nunique() == 1, "all run in the same rounds"
    assert set(timed["hardware"]) == {load(plan.folder)["hardware"].iloc[0]}
    rivals = records[0]["latency"]["rivals"]
    assert frame.loc["onnxslim", "version"] == rivals["onnxslim"]["version"]
    assert set(timed["title"]) == {records[0]["latency"]["titles"]["onnxruntime"]}
    assert "1 thread, its optimiser on" in timed["title"].iloc[0]


def test_the_runs_that_scale_are_not_timed(done):
    _, records = done
    assert [r["row"]["blocks"] for r in records] == [1, 1, 2]
    assert [bool(r["latency"]) for r in records] == [True, False, False]
    assert records[2]["row"]["operators_original"] == 16
    assert "onnxslim" not in records[2]["result"]["nodes"]


def test_a_second_sweep_has_nothing_to_do(done):
    plan, _ = done
    assert plan.missing() == []
    assert list(sweep(plan, plan.runs)) == []


def test_what_is_stored_is_loaded(done):
    plan, records = done
    frame = load(plan.folder)
    assert list(frame["network"]) == ["repvgg", "repvgg-x1", "repvgg-x2"]
    assert set(frame["study"]) == {"branches"}
    assert frame["operators"].tolist() == [2, 2, 4]
    assert frame["call_seconds"].iloc[0] == pytest.approx(sum(records[0]["seconds"].values()))
    assert (frame["call_seconds"] > frame["seconds"]).all()
    assert frame["versions"].str.contains("egglog").all()
    assert frame["rounding"].iloc[0] == records[0]["row"]["rounding"]


def test_the_tables_tell_operators_latency_rounding_rules_and_scaling(done):
    plan, records = done
    text = (plan.folder / "table.md").read_text()
    for heading in ("Operators and costs", "Latency: ONNX Runtime", "Rounding", "Rules behind", "scales"):
        assert f"## {heading}" in text or heading in text
    assert "| repvgg | t4 | 8 | " in text
    assert "batchnorm-as-affine" in text
    assert "## Missing" not in text
    table = pd.read_csv(plan.folder / "table.csv")
    assert len(table) == 3
    ours = [row for row in records[0]["latency"]["rows"] if row["form"] == "ours"]
    assert table["onnxruntime: ours µs"].iloc[0] == pytest.approx(ours[0]["median_us"])
    assert table["onnxruntime: ours µs"].isna().tolist() == [False, True, True]


def test_the_report_draws_latency_and_scaling(done):
    plan, _ = done
    figure = StudyReport.load(plan.folder).draw().figure
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["Speed-up in ONNX Runtime", "Optimiser time by blocks"]


def test_the_report_of_a_run_has_the_operators_of_all_forms(done):
    plan, _ = done
    details = RunReport.load(plan.place(plan.runs[0])).details
    assert list(details.columns) == ["original", "optimised", "by hand"]
    assert details.loc["conv2d"].tolist() == [2, 1, 1]


def test_what_cannot_be_timed_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxsim", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    timing = Latency(("onnxruntime", "torch"), ("onnxsim",), 1, 0.05)
    found = merge_one(None, run(timing=timing))
    skipped = {(r["target"], r["form"]): r["skipped"] for r in found["latency"]["rows"] if "skipped" in r}
    assert "pip install 'tamago-workbench[rivals]'" in skipped["onnxruntime", "onnxsim"]
    assert "tamago-workbench[torch]" in skipped["torch", "ours"]
    assert ("torch", "onnxsim") not in skipped
    assert any("onnxsim is not installed" in note for note in found["notes"])
    assert any(r["form"] == "ours" and "median_us" in r for r in found["latency"]["rows"])


@pytest.mark.slow
def test_a_network_that_nobody_merges_by_hand_is_optimised_all_the_same():
    found = merge_one(None, run(family="dbb", border="biased", timing=Latency(("onnxruntime",), (), 1, 0.05)))
    assert found["row"]["operators_by_hand"] is found["row"]["by_hand"] is None
    (row,) = [r for r in found["latency"]["rows"] if r["form"] == "by hand"]
    assert "after a bias" in row["skipped"]
    assert found["row"]["certified"] is True


def test_a_result_can_be_chosen_by_measuring():
    found = merge_one(None, run(method=BranchesMethod(measure=2, measure_seconds=0.05)))
    assert found["result"]["measured"]["rounds"] > 0
    assert "1 thread" in found["result"]["measured"]["target"]
    assert found["latency"] == {}


@pytest.mark.torch
def test_graphs_are_timed_in_torch_next_to_onnx_runtime():
    pytest.importorskip("torch", reason="torch is not installed")
    found = merge_one(None, run(timing=Latency(("onnxruntime", "torch"), (), 1, 0.05)))
    timed = [(r["target"], r["form"]) for r in found["latency"]["rows"] if "median_us" in r]
    assert timed == [(t, f) for t in ("onnxruntime", "torch") for f in ("original", "by hand", "ours")]
    assert len({r["rounds"] for r in found["latency"]["rows"]}) == 1


def test_a_run_that_failed_and_what_was_skipped_are_in_the_table(done):
    plan, records = done
    lost = json.loads(json.dumps(records[0])) | {"failed": True, "result": {}, "latency": {}}
    lost["row"] |= {"status": "killed", "notes": "not over after 1 s", "operators": None}
    frame, _ = render(plan)
    text = markdown(plan, frame, [lost, *records[1:]])
    assert "† killed" in text
    assert "- killed: not over after 1 s (all runs)" in text
    worse = json.loads(json.dumps(records[0]))
    worse["latency"]["rows"][-1] = {"target": "onnxruntime", "form": "ours", "skipped": "refused"}
    assert "- onnxruntime, ours: refused (all runs)" in markdown(plan, frame, [worse])


def test_what_was_chosen_by_measuring_is_in_the_table(done):
    plan, records = done
    chosen = json.loads(json.dumps(records[0]))
    entrant = {"cost": 1.0, "median": 1.0, "quartiles": [1.0, 1.0], "speedup": 1.25, "interval": [1.2, 1.3]}
    chosen["result"]["measured"] = {"candidates": [entrant], "winner": None, "noise": 0.4, "rounds": 9}
    frame, text = render(plan)
    assert "Chosen by measuring" not in text
    assert "| repvgg | t4 | 1 | 1.250× | 40.0% | 9 | the original |" in markdown(plan, frame, [chosen])


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_an_interrupted_study_continues_where_it_was(tmp_path):
    (tmp_path / "small.yaml").write_text(STUDY.replace("[1, 2]", "[1]"))
    plan = make_plan(read_study(tmp_path / "small.yaml"), tmp_path, tmp_path / "results")
    runs = sweep(plan, plan.runs)
    first = next(runs)
    runs.close()
    assert [run.name for run in plan.missing()] == ["repvgg-x1:t4"]
    assert [record["name"] for record in sweep(plan, plan.runs)] == ["repvgg-x1:t4"]
    assert first["name"] == "repvgg:t4"


def test_constants_are_not_operators():
    from onnx import TensorProto, helper

    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    nodes = [helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Relu", ["c"], ["y"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    assert node_counts(helper.make_model(helper.make_graph(nodes, "g", [], [output]))) == {"Relu": 1}


def test_an_original_that_stays_has_no_chain():
    class Same:
        graph = original = object()

    assert branches_study.chain(Same()) == []


@pytest.mark.parametrize("name", ["branches", "movement"])
def test_the_stored_runs_are_those_of_the_study(name):
    root = Path(__file__).parents[3]
    study = read_study(root / "experiments" / f"{name}.yaml")
    assert make_plan(study, root / "experiments", root / "results" / name).missing() == []
