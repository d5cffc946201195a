"""The extraction study on tiny e-graphs: records, resuming, failures as rows, tables."""

import os
import pickle
import signal
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import workbench
from tests.studies.experiments.studies import SHARED, write_egraph, write_study
from workbench.studies.experiments import extraction as extraction_study
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.extraction import contradictions, markdown, table
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.pool import local_pool
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.tables import write_tables

ROOT = Path(__file__).parents[3]
NAMES = [f"graphs/{g}:{m}" for g in ("cycle", "shared") for m in ("tree", "dag", "exact")]


@pytest.fixture
def plan_of(tmp_path):
    def call(**settings):
        study = write_study(tmp_path, **settings)
        return make_plan(read_study(study), tmp_path, tmp_path / "results" / "tiny")

    return call


def hang(study, run):
    time.sleep(60)


def die(study, run):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("jobs_here")
def test_every_run_has_a_record_with_figures_and_provenance(plan_of):
    plan = plan_of()
    assert [run.name for run in plan.runs] == NAMES
    records = list(sweep(plan, plan.runs))
    assert [r["name"] for r in records] == NAMES
    assert records == plan.records()
    assert plan.missing() == []
    rows = {r["name"]: r["row"] for r in records}
    assert rows["graphs/shared:exact"]["cost"] == 4.5
    assert all(rows[f"graphs/shared:{m}"]["cost"] >= 4.5 for m in ("tree", "dag"))
    exact = rows["graphs/cycle:exact"]
    assert (exact["cost"], exact["bound"], exact["gap"], exact["status"]) == (3.0, 3.0, 0.0, "optimal")
    assert (exact["e_nodes"], exact["e_classes"], exact["scope"]) == (5, 3, "e-graph")
    for record in records:
        assert not record["failed"]
        assert record["stop_reason"] in ("optimal", "finished")
        assert record["row"]["seconds"] <= record["wall_seconds"] + 1e-3  # both are rounded
        assert record["e_graph"]["cost_source"] == "the file's own"
        assert record["config"]["seed"] == 0
        assert {"versions", "commit", "machine", "load"} <= set(record["provenance"])
        assert str(plan.folder.parent.parent) not in str(record)


@pytest.mark.usefixtures("jobs_here")
def test_a_sweep_continues_where_it_was_given_up(plan_of):
    plan = plan_of()
    first = sweep(plan, plan.runs)
    done = [next(first)["name"], next(first)["name"]]
    first.close()
    assert [r.name for r in plan.missing()] == NAMES[2:]
    assert [r["name"] for r in sweep(plan, plan.runs)] == [n for n in NAMES if n not in done]
    assert list(sweep(plan, plan.runs)) == []
    assert [r["name"] for r in sweep(plan, plan.only("*shared:tree"), force=True)] == ["graphs/shared:tree"]


def test_an_other_limit_seed_or_file_is_another_run(plan_of, tmp_path):
    folders = {run.folder for run in plan_of().runs}
    assert len(folders) == 6
    assert not folders & {r.folder for r in plan_of(more="seed: 1\n").runs}
    changed = {r.folder for r in plan_of(more="seconds_for: {dag: 2}\n").runs} - folders
    assert len(changed) == 2
    assert all("-dag-" in name for name in changed)
    plan_of()
    write_egraph(tmp_path / "graphs" / "cycle.json", SHARED)
    study = read_study(tmp_path / "tiny.yaml")
    again = {r.folder for r in make_plan(study, tmp_path, tmp_path).runs}
    assert len(again - folders) == 3


@pytest.mark.slow
def test_repeats_take_the_next_seed_and_have_rows_of_their_own(plan_of):
    plan = plan_of(methods="tree", more="repeats: 2\nseed: 5\n")
    names = ["graphs/cycle:tree", "graphs/cycle:tree#2", "graphs/shared:tree", "graphs/shared:tree#2"]
    assert [(r.name, r.seed) for r in plan.runs] == list(zip(names, (5, 6, 5, 6), strict=True))
    list(sweep(plan, plan.runs, pool=local_pool(2)))
    frame = table(plan.records())
    assert frame["repeat"].tolist() == [1, 2, 1, 2]
    assert frame["cost"].nunique() <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "seconds", "status", "note"),
    [(hang, 0.5, "killed", "not finished"), (die, 60, "crashed", "SIGKILL")],
)
def test_a_run_that_hangs_or_dies_is_a_row_that_says_so(plan_of, monkeypatch, end, seconds, status, note):
    monkeypatch.setattr(extraction_study, "extract_one", end)
    plan = plan_of(methods="tree", more=f"seconds_for: {{tree: {seconds}}}\ngrace: 0.5\n")
    records = list(sweep(plan, plan.runs))
    assert [r["failed"] for r in records] == [True, True]
    row = records[0]["row"]
    assert (row["status"], row["cost"], row["e_nodes"]) == (status, None, 5)
    assert note in row["notes"]
    assert plan.missing() == []
    write_tables(plan)
    assert f"† {status}" in (plan.folder / "table.md").read_text()


@pytest.mark.usefixtures("jobs_here")
def test_an_egraph_that_cannot_be_read_fails_all_its_runs_and_no_other(plan_of, tmp_path):
    plan = plan_of(methods="tree, dag")
    (tmp_path / "graphs" / "cycle.json").write_text("{}")
    records = list(sweep(plan, plan.runs))
    assert [r["failed"] for r in records] == [True, True, False, False]
    assert "without an e-graph (failed): EGraphFormatError" in records[0]["row"]["notes"]
    assert records[0]["row"]["e_nodes"] is None
    write_tables(plan)


def test_files_that_are_not_there_are_skipped_and_said(tmp_path, monkeypatch):
    monkeypatch.delenv("ELSEWHERE", raising=False)
    study = write_study(tmp_path)
    study.write_text(study.read_text().replace("graphs/*.json", '"${ELSEWHERE}/*.json", none/*.json'))
    plan = make_plan(read_study(study), tmp_path, tmp_path / "results")
    assert plan.runs == ()
    assert plan.skipped == (
        "${ELSEWHERE}/*.json: ELSEWHERE is not set in the environment",
        "none/*.json: no such file",
    )
    write_tables(plan)
    assert "ELSEWHERE is not set" in (tmp_path / "results" / "table.md").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_records_of_files_that_are_not_here_stay_in_the_table(tmp_path, monkeypatch):
    study = write_study(tmp_path)
    study.write_text(study.read_text().replace("graphs/*.json", '"${ELSEWHERE}/*.json"'))
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "graphs"))
    there = make_plan(read_study(study), tmp_path, tmp_path / "results")
    list(sweep(there, there.runs))
    write_tables(there)
    whole = (tmp_path / "results" / "table.csv").read_text()
    monkeypatch.delenv("ELSEWHERE")
    here = make_plan(read_study(study), tmp_path, tmp_path / "results")
    assert here.runs == ()
    assert here.records() == there.records()
    write_tables(here)
    assert (tmp_path / "results" / "table.csv").read_text() == whole
    # Of another limit they are another study's.
    study.write_text(study.read_text().replace("seconds: 20", "seconds: 21"))
    assert make_plan(read_study(study), tmp_path, tmp_path / "results").records() == []


def test_two_files_of_one_name_are_refused(tmp_path):
    study = write_study(tmp_path)
    write_egraph(tmp_path / "more" / "graphs" / "cycle.json", SHARED)
    study.write_text(study.read_text().replace("graphs/*.json", "'**/graphs/*.json'"))
    with pytest.raises(StudyError, match="two files have the name graphs/cycle"):
        make_plan(read_study(study), tmp_path, tmp_path)


def test_a_pattern_fits_run_instance_or_method(plan_of):
    plan = plan_of()
    assert [r.name for r in plan.only("graphs/cycle:*")] == NAMES[:3]
    assert [r.name for r in plan.only("graphs/cycle")] == NAMES[:3]
    assert [r.method for r in plan.only("exact")] == ["exact", "exact"]
    with pytest.raises(
        ValueError, match=r"must match SUBJECT:METHOD, .*, got 'exakt' \(try graphs/cycle:tree"
    ):
        plan.only("exakt")


@pytest.mark.usefixtures("jobs_here")
def test_a_network_is_grown_by_our_rules(tmp_path):
    file = tmp_path / "grown.yaml"
    file.write_text(
        "kind: extraction\ninstances:\n  networks: [vgg19]\n  saturation: {iterations: 3}\nmethods: [tree]\n"
    )
    plan = make_plan(read_study(file), tmp_path, tmp_path / "results")
    (record,) = sweep(plan, plan.runs)
    assert record["config"]["instance"]["iterations"] == 3
    assert record["e_graph"]["iterations"] <= 3
    assert "analytic" in record["e_graph"]["cost_source"]
    assert record["row"]["cost"] < record["e_graph"]["original_cost"]


@pytest.mark.usefixtures("jobs_here")
def test_a_network_may_be_a_model_file(tmp_path):
    workbench.save_onnx(workbench.benchmark("squeezenet"), tmp_path / "mine.onnx")
    file = tmp_path / "grown.yaml"
    file.write_text(
        "kind: extraction\ninstances:\n  networks: [mine.onnx, gone.onnx]\n  saturation: {iterations: 1}\n"
        "methods: [tree]\n"
    )
    plan = make_plan(read_study(file), tmp_path, tmp_path / "results")
    assert "gone.onnx" in plan.skipped[0]
    (record,) = sweep(plan, plan.runs)
    assert record["row"]["e_nodes"] > 20
    assert record["config"]["instance"]["network"]["file"] == "mine.onnx"


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize("method", ["tensat", "tensat-integer", "tensat-filtered"])
def test_tensats_programs_run_by_themselves(plan_of, method):
    plan = plan_of(methods=method)
    rows = [record["row"] for record in sweep(plan, plan.runs)]
    # Without the cycle's edges the e-node that closes it is gone; the optimum does not need it.
    assert [row["cost"] for row in rows] == [3.0, 4.5]
    assert [row["status"] for row in rows] == ["optimal", "optimal"]
    assert {row["found_by"] for row in rows} == {method}


def test_a_program_that_finds_nothing_in_time_says_so(tmp_path, plan_of):
    from workbench.egraph import load_json

    plan = plan_of()
    pickled = pickle.dumps(load_json(tmp_path / "graphs" / "shared.json"))
    run = replace(plan.runs[0], method="tensat", seconds=0.001, order=pickled)
    found = extraction_study.extract_one(plan.study, run)
    assert found["status"] == "nothing found"
    assert (found["notes"], found["stop_reason"]) == (("time limit",), "time limit")
    assert found["row"]["bound"] >= 0.0
    assert set(found["row"]) == {"bound", "seconds"}


# -- tables -------------------------------------------------------------------------------------------
def record_of(instance, method, cost, bound, *, scope="e-graph", status="optimal"):
    row = dict.fromkeys(("e_nodes", "e_classes"), 3)
    row |= {"instance": instance, "method": method, "cost": cost, "bound": bound, "status": status}
    row |= {"scope": scope, "seconds": 1.0, "gap": 0.0, "found_by": method, "notes": ""}
    return {"name": f"{instance}:{method}", "row": row, "config": {"seconds": 60.0}}


def test_repeats_are_read_next_to_a_number_sign_in_an_e_graphs_name():
    records = [record_of("lean-egg/Stuck 1 #1", "dag", 2.0, 1.0) for _ in range(2)]
    records[1]["name"] += "#2"
    assert table(records)["repeat"].tolist() == [1, 2]


def test_a_bound_above_a_cost_is_called_a_contradiction():
    sound = [record_of("g", "exact", 2.0, 2.0), record_of("g", "dag", 2.5, 1.0)]
    assert contradictions(table(sound)) == []
    part = record_of("g", "filtered", 3.0, 3.0, scope="cycle-free part")
    assert contradictions(table([*sound, part])) == []
    (found,) = contradictions(table([*sound, record_of("g", "highs", 3.0, 3.0)]))
    assert "highs proves" in found
    assert "exact has a term of cost 2.0" in found


def test_a_bound_above_a_published_cost_is_one_too():
    right = record_of("extraction-gym/bert", "exact", 0.7047198, 0.7047198)
    assert contradictions(table([right])) == []
    assert len(contradictions(table([record_of("extraction-gym/bert", "exact", 0.71, 0.71)]))) == 1
    unreached = record_of("maxsat/hamming6-2.clq", "exact", -2700.0, -3600.0)
    assert contradictions(table([unreached])) == [], "the published cost, -3648, counts what no root reaches"


def test_published_figures_stand_below_ours_and_are_marked(plan_of, tmp_path):
    frame = table([record_of("extraction-gym/bert", "exact", 0.70472, 0.70472)])
    assert frame["source"].tolist() == ["workbench"] + ["published"] * 5
    assert frame["method"].tolist()[1:3] == ["CPLEX 900 s", "CPLEX 36 000 s"]
    assert frame["e_nodes"].tolist() == [3] * 6


@pytest.mark.usefixtures("jobs_here")
def test_tables_are_the_same_when_written_again_and_name_what_is_missing(plan_of):
    plan = plan_of()
    list(sweep(plan, plan.only("graphs/cycle:*")))
    write_tables(plan)
    texts = [(plan.folder / name).read_text() for name in ("table.csv", "table.md")]
    assert "- graphs/shared: tree, dag, exact" in texts[1]
    assert "3.000000" in texts[1]
    write_tables(plan)
    assert texts == [(plan.folder / name).read_text() for name in ("table.csv", "table.md")]
    list(sweep(plan, plan.runs))
    write_tables(plan)
    assert "Missing" not in (plan.folder / "table.md").read_text()


@pytest.mark.parametrize(
    ("cost", "cell"), [(2.0, "=, "), (2.0 + 1e-6, "=, "), (2.5, "+25.00%, "), (9.0, "×4.5, ")]
)
def test_a_cell_says_how_far_a_cost_lies_above_the_least(plan_of, cost, cell):
    plan = plan_of(methods="tree, exact")
    records = [record_of("g", "exact", 2.0, 2.0), record_of("g", "tree", cost, 1.0, status="greedy")]
    text = markdown(plan, table(records), [])
    (line,) = [line for line in text.splitlines() if line.startswith("| g (3 / 3) |")]
    assert line == f"| g (3 / 3) | 2.000000 | 2.000000 | {cell}1.0 s | =, 1.0 s ✓ |"


def test_a_cell_and_a_contradiction_of_negative_costs(plan_of):
    plan = plan_of(methods="tree, exact")
    records = [record_of("g", "exact", -4.0, -4.0), record_of("g", "tree", -3.0, -5.0, status="greedy")]
    text = markdown(plan, table(records), [])
    (line,) = [line for line in text.splitlines() if line.startswith("| g (3 / 3) |")]
    assert line == "| g (3 / 3) | -4.000000 | -4.000000 | +25.00%, 1.0 s | =, 1.0 s ✓ |"
    assert contradictions(table(records)) == []
    assert len(contradictions(table([*records, record_of("g", "highs", -3.5, -3.5)]))) == 1


def test_the_projects_table_is_what_its_records_make(monkeypatch):
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    file = ROOT / "experiments" / "extraction.yaml"
    folder = ROOT / "results" / "extraction"
    plan = make_plan(read_study(file), file.parent, folder)
    assert plan.missing() == []
    kept = (folder / "table.csv").read_text()
    assert table(plan.records()).to_csv(index=False, lineterminator="\n") == kept
    assert contradictions(table(plan.records())) == []


@pytest.mark.shared
@pytest.mark.usefixtures("jobs_here")
def test_the_study_of_the_project_finds_the_shared_e_graphs(shared_data, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_SHARED", str(shared_data.parent))
    file = ROOT / "experiments" / "extraction.yaml"
    plan = make_plan(read_study(file), file.parent, tmp_path)
    assert plan.skipped == ()
    assert {"extraction-gym/bert", "extraction-gym/vgg_acyclic", "bert"} <= {r.subject for r in plan.runs}
    (record,) = sweep(plan, plan.only("extraction-gym/vgg:dag"))
    assert record["row"]["cost"] == pytest.approx(4.850757, abs=1e-6)


PROGRAM = """#!/bin/sh
case "$2" in *ilp*) echo "thread 'main' panicked" >&2; exit 101;; esac
echo '{"extractor": "'$2'", "tree": 7, "dag": 4.5, "micros": 1500}' > "$4"
"""


@pytest.mark.usefixtures("jobs_here")
def test_methods_of_the_gyms_program_stand_beside_ours(plan_of, tmp_path, monkeypatch):
    program = tmp_path / "extraction-gym"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("EXTRACTION_GYM_PROGRAM", str(program))
    plan = plan_of(methods="exact, gym-faster-greedy-dag, gym-faster-ilp-cbc-timeout")
    records = {r["name"]: r for r in sweep(plan, plan.runs)}
    greedy = records["graphs/shared:gym-faster-greedy-dag"]
    assert (greedy["row"]["cost"], greedy["row"]["seconds"]) == (4.5, 0.0015)
    assert greedy["config"]["program"]
    failed = records["graphs/shared:gym-faster-ilp-cbc-timeout"]
    assert extraction_study.outcome(failed) == "cost none, bound none, nothing found, no time"
    assert (failed["row"]["status"], failed["row"]["notes"]) == ("nothing found", "thread 'main' panicked")
    frame = table(records.values())
    assert set(frame["source"]) == {"workbench", "extraction gym"}
    text = markdown(plan, frame, list(records.values()))
    assert "| =, 0.002 s | † nothing found |" in text
    assert "## By family" not in text


def test_without_the_gyms_program_its_methods_are_missing(plan_of, monkeypatch):
    monkeypatch.delenv("EXTRACTION_GYM_PROGRAM", raising=False)
    plan = plan_of(methods="exact, gym-bottom-up")
    assert {r.absent for r in plan.runs if r.method == "gym-bottom-up"} == {
        "EXTRACTION_GYM_PROGRAM names no file (try the gym's target/release/extraction-gym)"
    }


def test_families_are_counted(plan_of):
    plan = plan_of(methods="exact, tree")

    def row(instance, method, cost, status="feasible"):
        return {"instance": instance, "method": method, "cost": cost, "status": status, "seconds": 1.0,
                "source": "workbench", "scope": "e-graph", "bound": cost}  # fmt: skip

    frame = pd.DataFrame(
        [row("a/x", "exact", 1.0, "optimal"), row("a/x", "tree", 2.0), row("a/y", "exact", None, "nothing found"),
         row("a/y", "tree", 3.0), row("b/z", "exact", -4.0), row("b/z", "tree", -4.0)]
    )  # fmt: skip
    found = "\n".join(extraction_study._families(plan.study, frame))
    assert "| a | 2 | 1 of 2, 1 optimal, 1.0 s | 1 of 2, 2.0 s |" in found
    assert "| b | 1 | 1 of 1, 1.0 s | 1 of 1, 1.0 s |" in found
    assert "| all | 3 | 2 of 3, 1 optimal, 2.0 s | 2 of 3, 3.0 s |" in found
