"""The optimisation study on small networks: records, columns, skipped files, failures, tables."""

import os
import signal
import time
from pathlib import Path

import onnx
import pytest

from tests.faces.cli.models import two_matmuls
from tests.studies.experiments.studies import METHODS, figures, without_processes, write_optimisation
from workbench.results import load
from workbench.run.trace import Trace
from workbench.studies.experiments import optimisation as optimisation_study
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.optimisation import markdown, table
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.records import COLUMNS
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.tables import render, write_tables

ROOT = Path(__file__).parents[3]


@pytest.fixture
def plan_of(tmp_path):
    def call(**settings):
        study = write_optimisation(tmp_path, **settings)
        return make_plan(read_study(study), tmp_path, tmp_path / "results" / "small")

    return call


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a plan whose runs are done, and their records."""
    folder = tmp_path_factory.mktemp("done")
    study = write_optimisation(folder, networks="squeezenet", more="certify: true\n")
    plan = make_plan(read_study(study), folder, folder / "results" / "small")
    with without_processes():
        return plan, list(sweep(plan, plan.runs, command="workbench run small.yaml"))


def hang(study, run):
    time.sleep(60)


def die(study, run):
    os.kill(os.getpid(), signal.SIGKILL)


def exhaust(study, run):
    return bytes(1 << 40)


@pytest.mark.slow
def test_every_run_has_a_record_with_figures_and_provenance(done):
    plan, records = done
    assert [r["name"] for r in records] == ["squeezenet:ours", "squeezenet:taso"]
    assert records == plan.records()
    assert plan.missing() == []
    ours, taso = (r["row"] for r in records)
    assert set(list(COLUMNS)[:8]) <= set(taso)  # Tensat's
    assert set(COLUMNS) - {"hardware"} <= set(ours) | {"hardware"}
    assert ours["original"] == taso["original"]
    assert ours["optimized"] <= taso["optimized"] <= ours["original"]
    assert ours["bound"] == pytest.approx(ours["optimized"])
    assert (ours["by"], taso["by"]) == ("saturation", "search")
    assert 0 < ours["iter"] <= 6
    assert taso["iter"] == 6  # TASO's budget of 5 expands one graph more
    assert taso["nodes"] is None
    for record in records:
        row = record["row"]
        assert row["certified"] is True
        assert row["cost_source"].startswith("analytic roofline")
        assert row["claimed"] == pytest.approx(row["optimized"])
        assert not record["failed"]
        assert record["device"] == "t4"
        assert record["result"]["certificate"]["passed"]
        where = record["provenance"]
        assert where["command"] == "workbench run small.yaml"
        assert {"versions", "commit", "machine", "load", "began", "seed"} <= set(where)
        assert str(plan.folder.parent.parent) not in str(record)


@pytest.mark.slow
def test_the_trace_is_next_to_the_record(done):
    plan, records = done
    for run, record in zip(plan.runs, records, strict=True):
        trace = Trace.load(plan.place(run) / "trace.parquet")
        assert trace.meta["cost_after"] == pytest.approx(record["row"]["optimized"])
        assert len(trace) > 1


@pytest.mark.usefixtures("jobs_here")
def test_limits_that_had_a_part_are_named(plan_of):
    plan = plan_of(methods="  small: {by: saturation, e_nodes: 60}\n")
    (record,) = sweep(plan, plan.runs)
    assert record["stop_reason"] == "e-node limit"
    assert record["limits_hit"] == ["e-node limit"]


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_the_same_settings_give_the_same_figures_and_others_another_run(done, plan_of):
    _, records = done
    plan = plan_of(networks="squeezenet", more="certify: true\n")
    (again,) = sweep(plan, plan.only("taso"))
    assert figures(again) == figures(records[1])
    other = plan_of(networks="squeezenet", more="certify: true\nseed: 3\n")
    assert not {r.folder for r in other.runs} & {r.folder for r in plan.runs}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status", "hit"),
    [(hang, "killed", ["time limit"]), (die, "crashed", []), (exhaust, "failed", [])],
)
def test_a_run_that_hangs_dies_or_needs_too_much_is_a_row_that_says_so(
    plan_of, monkeypatch, end, status, hit
):
    methods = "  taso: {by: search, seconds: 1}\n"
    monkeypatch.setattr(optimisation_study, "optimise_one", end)
    plan = plan_of(methods=methods, more="grace: 0.5\nmemory: 4\n" if end is hang else "memory: 4\n")
    (record,) = sweep(plan, plan.runs)
    assert record["failed"]
    assert (record["row"]["status"], record["stop_reason"]) == (status, status)
    assert record["limits_hit"] == hit
    assert plan.missing() == []
    write_tables(plan)
    assert f"† {status}" in (plan.folder / "table.md").read_text()
    (row,) = load(plan.folder).to_dict("records")
    assert row["failed"]
    assert row["notes"]


def test_runs_whose_files_are_not_here_are_skipped_and_said(plan_of, monkeypatch):
    monkeypatch.delenv("ELSEWHERE", raising=False)
    rules = "  taso: {by: search, mode: taso-release, rules: '${ELSEWHERE}/graph_subst.pb'}\n"
    plan = plan_of(methods=METHODS.splitlines()[0] + "\n" + rules)
    assert plan.skipped == ("taso: ${ELSEWHERE}/graph_subst.pb: ELSEWHERE is not set in the environment",)
    assert [r.name for r in plan.missing()] == ["vgg19:ours"]
    assert [r.name for r in plan.only(None)] == ["vgg19:ours"]
    assert plan.only("taso") == []
    monkeypatch.setenv("ELSEWHERE", "/nowhere")
    assert plan_of(methods=rules).skipped == ("taso: ${ELSEWHERE}/graph_subst.pb: no such file",)


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_records_of_runs_whose_files_are_not_here_stay_in_the_table(plan_of, monkeypatch, tmp_path):
    library = tmp_path / "elsewhere"
    library.mkdir()
    (library / "own.rules").write_text("twice: relu(relu(x)) => relu(x)\n")
    methods = "  own: {by: saturation, rules: '${ELSEWHERE}/own.rules'}\n"
    monkeypatch.setenv("ELSEWHERE", str(library))
    there = plan_of(methods=methods)
    (record,) = sweep(there, there.runs)
    assert len(record["config"]["method"]["rules"]["sha256"]) == 64
    assert str(library) not in str(record)
    monkeypatch.delenv("ELSEWHERE")
    here = plan_of(methods=methods)
    assert here.skipped
    assert here.records() == [record]
    assert here.missing() == []
    # The content of the file decides: another file, another run.
    monkeypatch.setenv("ELSEWHERE", str(library))
    (library / "own.rules").write_text("thrice: relu(relu(relu(x))) => relu(x)\n")
    assert [r.name for r in plan_of(methods=methods).missing()] == ["vgg19:own"]


def test_costs_may_come_from_a_file_that_is_not_here(plan_of):
    plan = plan_of(more="cost: ../costs/none.parquet\n")
    assert plan.skipped == ("../costs/none.parquet: no such file",)
    assert plan.missing() == []


@pytest.mark.slow
def test_tables_put_published_figures_next_to_ours_and_mark_them(done):
    plan, _ = done
    frame, text = render(plan)
    assert frame["method"].tolist() == ["ours", "taso", "TASO", "Tensat"]
    assert frame["published"].tolist() == [False, False, True, True]
    assert frame.loc[frame["published"], "hardware"].tolist() == ["NVIDIA T4"] * 2
    assert "| Tensat, published (NVIDIA T4) |" in text
    assert "in Python on one thread" in text
    assert "| ours | taso | 1 | none | none |" in text
    assert "refused" not in text.partition("## Results")[2]
    write_tables(plan)
    texts = [(plan.folder / name).read_text() for name in ("table.csv", "table.md")]
    write_tables(plan)
    assert texts == [(plan.folder / name).read_text() for name in ("table.csv", "table.md")]


@pytest.mark.slow
def test_a_costlier_result_and_a_refused_one_are_reported(done):
    plan, (ours, taso) = done
    worse = ours | {"row": ours["row"] | {"optimized": taso["row"]["optimized"] * 1.5}}
    wrong = taso | {
        "row": taso["row"] | {"certified": False, "optimized": taso["row"]["original"]},
        "result": taso["result"] | {"offending_rules": ["taso-59"]},
    }
    text = markdown(plan, table([worse, taso]), [worse, taso])
    assert "| ours | taso | 1 | squeezenet +50.00% | squeezenet +50.00% |" in text
    text = markdown(plan, table([ours, wrong]), [ours, wrong])
    assert f"- squeezenet:taso: claimed {taso['row']['claimed']:.1f} µs; rules at fault: taso-59" in text
    assert " ✗ (+" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["headline", "k-multi"])
def test_the_projects_table_is_what_its_records_make(monkeypatch, name):
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    file, folder = ROOT / "experiments" / f"{name}.yaml", ROOT / "results" / name
    plan = make_plan(read_study(file), file.parent, folder)
    assert plan.missing() == []
    assert len(plan.records()) == len(plan.runs)
    assert render(plan)[0].to_csv(index=False, lineterminator="\n") == (folder / "table.csv").read_text()


def test_ours_is_never_costlier_than_the_search_with_the_same_rules():
    runs = load(ROOT / "results" / "headline")
    costs = runs.groupby(["network", "method"])["optimized"].mean().unstack()
    assert len(costs) == 9
    for search in ("taso-sound-1.05", "taso-sound-1.0"):
        assert (costs["workbench"] <= costs[search] * (1 + 1e-7)).all()


@pytest.mark.slow
def test_tables_hold_the_seconds_of_whole_calls(done):
    plan, records = done
    frame, text = render(plan)
    spent = [sum(v for v in record["seconds"].values() if v) for record in records]
    assert frame["call_seconds"].tolist()[:2] == pytest.approx(spent)
    assert (frame["wall_seconds"] >= frame["call_seconds"])[:2].all()
    assert (frame["call_seconds"] > frame["seconds"])[:2].all(), "the certificate is among them"
    section = text.partition("## Seconds of the whole call")[2].partition("##")[0]
    assert "| ours | taso |" in section
    assert "published" not in section, "papers report no whole calls"


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_a_network_may_be_a_model_file(tmp_path):
    onnx.save(two_matmuls(batch="rows"), tmp_path / "mine.onnx")
    study = write_optimisation(tmp_path, networks="mine.onnx")
    plan = make_plan(read_study(study), tmp_path, tmp_path / "results" / "small")
    assert plan.skipped == ()
    assert plan.runs[0].config["network"].keys() == {"file", "sha256"}
    (record, *_) = sweep(plan, plan.only("mine:ours"))
    assert record["row"]["network"] == "mine"
    assert record["row"]["certified"] in (True, None)
    write_tables(plan)
    assert "mine" in (plan.folder / "table.md").read_text()


def test_a_model_file_that_is_missing_is_skipped_and_names_differ(tmp_path):
    plan = make_plan(read_study(write_optimisation(tmp_path, networks="none.onnx")), tmp_path, tmp_path)
    assert plan.skipped == ("none.onnx: no such file",)
    assert all(run.absent for run in plan.runs)
    with pytest.raises(StudyError, match="different names"):
        read_study(write_optimisation(tmp_path, networks="a/m.onnx, b/m.onnx"))
