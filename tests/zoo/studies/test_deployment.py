"""A study of deployment from end to end: a file in, a file out, both run, the table tells."""

import json
from pathlib import Path

import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.models import model, node, normal, value
from workbench.studies.experiments.plan import Run, sweep
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.tables import render, write_tables
from zoo.studies import deployment as deployment_study
from zoo.studies.deployment import (
    AGAIN,
    BY_HAND,
    ORIGINAL,
    OURS,
    DeploymentMethod,
    DeploymentTiming,
    cleaned,
    markdown,
    model_file,
    remarks,
    size_of,
    time_files,
)

pytestmark = pytest.mark.slow

STUDY = """
kind: deployment
models: [light/squeezenet]
methods: {t4: {options: [--cost, analytic, --e-nodes, "2000"]}}
timing: {seconds: 0.05, rivals: [onnxslim]}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    (folder / "small.yaml").write_text(STUDY)
    plan = make_plan(read_study(folder / "small.yaml"), folder, folder / "results" / "small")
    records = list(sweep(plan, plan.runs))
    write_tables(plan)
    return plan, records


@pytest.mark.slow
def test_a_file_goes_in_and_one_comes_out_that_computes_the_same(done):
    _, (record,) = done
    assert record["name"] == "light/squeezenet:t4"
    assert not record["failed"], record["row"]["notes"]
    row = record["row"]
    assert row["certified"] is True
    assert row["kept"] is False
    assert row["optimized"] < row["original"]
    assert row["difference"] < 1e-4
    assert record["call"]["code"] == 0
    assert row["seconds"] == record["call"]["seconds"] > sum(record["seconds"].values())
    assert 50 < row["peak_mib"] <= row["together_mib"]
    assert 4 < row["given_mib"] < 6
    assert "merge-convs-bias" in record["result"]["rules"]


def test_all_files_are_timed_against_the_original(done):
    _, (record,) = done
    rows = {r["form"]: r for r in record["latency"]["rows"]}
    assert set(rows) >= {ORIGINAL, AGAIN, OURS}
    assert rows[ORIGINAL]["speedup"] == 1
    assert len({r["rounds"] for r in rows.values() if "rounds" in r}) == 1
    low, high = rows[OURS]["interval"]
    assert low <= rows[OURS]["speedup"] <= high
    assert record["row"]["measured_speedup"] == rows[OURS]["speedup"]


def test_the_table_tells_speed_call_and_certificate(done):
    plan, (record,) = done
    text = (plan.folder / "table.md").read_text()
    for heading in ("## Speed: ONNX Runtime", "## The call", "## Certificates"):
        assert heading in text
    assert "| light/squeezenet, t4 | " in text
    assert "## Missing" not in text
    assert "Load when the calls began" in text
    frame = pd.read_csv(plan.folder / "table.csv")
    assert frame["peak_mib"].iloc[0] == pytest.approx(record["row"]["peak_mib"])
    ours = next(r for r in record["latency"]["rows"] if r["form"] == OURS)
    assert frame["onnxruntime-1: ours µs"].iloc[0] == pytest.approx(ours["median_us"])


def test_a_second_sweep_has_nothing_to_do(done):
    plan, _ = done
    assert plan.missing() == []
    assert list(sweep(plan, plan.runs)) == []


def altered(record, *, low, high, kept=False):
    found = json.loads(json.dumps(record))
    found["row"]["kept"] = kept
    for row in found["latency"]["rows"]:
        if row["form"] == OURS:
            row |= {"speedup": (low + high) / 2, "interval": [low, high]}
    return found


def test_slower_faster_and_kept_are_counted(done):
    plan, (record,) = done
    frame, _ = render(plan)
    slow = markdown(plan, frame, [altered(record, low=0.8, high=0.9)])
    assert "1 slower than 0.98× (light/squeezenet)" in slow
    assert "✗ 0.850× (0.80–0.90)" in slow
    fast = markdown(plan, frame, [altered(record, low=1.1, high=1.3)])
    assert "1 faster than the original (the whole interval above 1), 0 kept unchanged, 0 slower" in fast
    assert "**1.200×** (1.10–1.30)" in fast
    even = markdown(plan, frame, [altered(record, low=0.9, high=1.1, kept=True)])
    assert "0 faster than the original (the whole interval above 1), 1 kept unchanged, 0 slower" in even
    assert "| same file |" in even
    assert "geometric mean of the ratios 1.000" in even


def test_a_run_that_failed_is_reported_and_not_counted(done):
    plan, (record,) = done
    lost = json.loads(json.dumps(record)) | {"failed": True, "latency": {}, "result": {}, "seconds": {}}
    lost["row"] = {"network": "gpt2", "method": "t4", "repeat": 0, "status": "failed", "notes": "no memory"}
    lost["name"] = "gpt2:t4"
    frame, _ = render(plan)
    text = markdown(plan, frame, [record, lost])
    assert "- gpt2:t4: no memory" in text
    assert "1 models" in text


def test_an_optimiser_that_writes_nothing_fails_the_run(tmp_path, monkeypatch):
    (tmp_path / "m.yaml").write_text(STUDY.replace('--e-nodes, "2000"', "--cost, nonsense"))
    plan = make_plan(read_study(tmp_path / "m.yaml"), tmp_path, tmp_path / "results")
    (record,) = sweep(plan, plan.runs)
    assert record["failed"]
    assert "workbench optimize wrote nothing (exit code 2)" in record["row"]["notes"]
    write_tables(plan)
    assert "Nothing is timed" not in (plan.folder / "table.md").read_text()


def small(*, among_inputs):
    w = normal("w", 8, 8)
    inputs = [value("x", [2, 8]), *([value("w", [8, 8])] if among_inputs else [])]
    return model([node("MatMul", "x w", "y")], inputs, [value("y", [2, 8])], [w])


def test_cleaning_takes_initialisers_out_of_the_inputs_and_changes_nothing_else(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save_model(small(among_inputs=True), path)
    found = onnx.load(cleaned(path, tmp_path / "cleaned.onnx"))
    assert found == small(among_inputs=False)
    onnx.save_model(found, path)
    assert cleaned(path, tmp_path / "again.onnx") == path
    assert not (tmp_path / "again.onnx").exists()


def test_a_file_that_the_runtime_refuses_has_a_row_that_says_so(tmp_path):
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    onnx.save_model(small(among_inputs=False), good)
    bad.write_bytes(b"no model")
    found = time_files({ORIGINAL: good, OURS: bad}, DeploymentTiming((1, 0), 0.01, ()), 0)
    rows = {(r["target"], r["form"]): r for r in found["rows"]}
    assert len(rows) == 4
    assert "skipped" in rows["onnxruntime-1", OURS]
    assert rows["onnxruntime", ORIGINAL]["speedup"] == 1
    assert "1 thread" in found["titles"]["onnxruntime-1"]


def test_a_size_counts_the_external_data(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x" * 2**20)
    assert size_of(tmp_path / "m.onnx") == 1
    (tmp_path / "m.onnx.data").write_bytes(b"x" * 2**21)
    assert size_of(tmp_path / "m.onnx") == 3


@pytest.mark.torch
def test_an_architecture_is_exported_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = onnx.load(model_file("lenet5", tmp_path / "m.onnx"))
    weights = sum(numpy_helper.to_array(t).size for t in found.graph.initializer)
    assert weights >= 61_706 - 10
    assert found.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert helper.printable_graph(found.graph)
    assert Path(tmp_path / "m.onnx").stat().st_size > 200_000


def test_what_cannot_be_exported_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(deployment_study, "exported", None)
    with pytest.raises(RuntimeError, match="the export of lenet5"):
        model_file("lenet5", tmp_path / "m.onnx")


def test_a_file_that_is_too_large_is_optimised_and_not_timed(tmp_path, monkeypatch):
    def call(order, given, place):
        onnx.save(small(among_inputs=True), place / "ours.onnx")
        return {"seconds": 1.0, "peak_mib": 1.0, "together_mib": 1.0, "code": 0, "said": ""}, {}

    def export(name, path, seed):
        onnx.save(small(among_inputs=False), path)
        return path

    monkeypatch.setattr(deployment_study, "_call", call)
    monkeypatch.setattr(deployment_study, "model_file", export)
    order = deployment_study.Order("lenet5", DeploymentMethod(), DeploymentTiming(up_to=1e-6))
    found = deployment_study.deploy_one(None, Run("lenet5", "t4", {}, 60.0, order=order))
    assert found["latency"]["rows"] == []
    assert found["notes"] == ["not timed, as its file is larger than 1e-06 MiB"]
    assert found["row"]["measured_speedup"] is None


ZOO = """
kind: deployment
models: [ms_marco_tinybert_l2, quantised/lenet5]
methods: {t4: {options: [--cost, analytic]}}
timing: {threads: [1, 2], seconds: 0.05, rivals: [], targets: [torch], by_hand: true}
"""


@pytest.mark.slow
@pytest.mark.torch
def test_the_form_by_hand_and_other_targets_are_timed_too(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "zoo.yaml").write_text(ZOO)
    plan = make_plan(read_study(tmp_path / "zoo.yaml"), tmp_path, tmp_path / "results" / "zoo")
    reader, quantised = sweep(plan, plan.runs)
    assert not reader["failed"], reader["row"]["notes"]
    assert not quantised["failed"], quantised["row"]["notes"]
    timed = {(r["target"], r["form"]): r for r in reader["latency"]["rows"]}
    assert set(timed) == {
        *((f"onnxruntime-{n}", form) for n in (1, 2) for form in (ORIGINAL, AGAIN, BY_HAND, OURS)),
        *(("torch", form) for form in (ORIGINAL, AGAIN, OURS)),
    }
    assert all("speedup" in row or row["target"] == "torch" for row in timed.values())
    assert BY_HAND not in {r["form"] for r in quantised["latency"]["rows"]}
    assert quantised["row"]["certified"] is True


def record(name, title, skipped=""):
    row = {"network": name, "method": "default", "repeat": 0}
    figures = {"target": "torch+compile", "form": "original"} | ({"skipped": skipped} if skipped else {})
    return {"row": row, "latency": {"rows": [figures], "titles": {"torch+compile": title}}}


def test_models_that_ran_otherwise_or_not_at_all_are_named():
    records = [
        record("a", "compiled"),
        record("b", "compiled without its patterns"),
        record("c", "compiled without its patterns"),
        record("d", "torch+compile", "no torch form"),
    ]
    assert remarks("torch+compile", "compiled", records) == [
        "b, c: compiled without its patterns.\nNot timed: d (no torch form)."
    ]
    assert remarks("onnxruntime-1", "one thread", records[:1]) == []
