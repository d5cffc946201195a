"""``workbench run``: a study once, again, in part, interrupted."""

import subprocess
import sys
import time

import pytest

from tests.studies.experiments.studies import write_optimisation, write_study
from workbench.faces.plots import reports


@pytest.fixture(autouse=True)
def reported(monkeypatch):
    """Return what reports are asked for; none is rendered, which takes seconds each."""
    asked = []
    monkeypatch.setattr(reports, "render", lambda _kind, folder: asked.append(folder))
    return asked


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_a_study_is_run_once_and_then_there_is_nothing_to_do(run, tmp_path):
    study = write_study(tmp_path, methods="tree, exact")
    code, out, err = run("run", study, "--results", tmp_path / "results")
    assert code == 0, err
    assert "4 of 4 runs done now" in out
    assert "[4/4] graphs/shared:exact: cost 4.5, bound 4.5, optimal" in err
    folder = tmp_path / "results" / "tiny"
    assert sorted(p.name for p in folder.iterdir()) == ["runs", "table.csv", "table.md"]
    assert len(list((folder / "runs").iterdir())) == 4
    assert str(folder / "table.md") in out
    code, out, err = run("run", study, "--results", tmp_path / "results")
    assert (code, err) == (0, "")
    assert out.startswith("nothing to do: 4 runs are done")
    code, out, _ = run("run", study, "--results", tmp_path / "results", "--only", "*:tree", "--force", "-q")
    assert code == 0
    assert "2 of 2 runs done now" in out


@pytest.mark.usefixtures("jobs_here")
def test_a_dry_run_lists_the_runs_and_does_none(run, tmp_path):
    study, results = write_study(tmp_path), tmp_path / "results"
    assert run("run", study, "--results", results, "--only", "graphs/cycle:dag", "-q")[0] == 0
    before = sorted(results.rglob("*"))
    code, out, _ = run("run", study, "--results", results, "--dry-run")
    assert code == 0
    lines = [line.split()[:4] for line in out.splitlines()]
    assert lines[0] == ["run", "seconds", "state", "folder"]
    assert lines[2][:3] == ["graphs/cycle:dag", "20", "done"]
    assert sum(line[2:4] == ["to", "do"] for line in lines) == 5
    assert sorted(results.rglob("*")) == before


@pytest.mark.slow
def test_a_run_that_fails_is_1_and_named(run, tmp_path):
    study = write_study(tmp_path, methods="tree")
    (tmp_path / "graphs" / "cycle.json").write_text("{}")
    for line in ("1 of 2", "nothing to do"):
        code, out, err = run("run", study, "--results", tmp_path / "results", "-j", 2)
        assert code == 1
        assert line.replace("1 of 2", "2 of 2") in out
        assert "1 failed: graphs/cycle:tree; --force does them again" in err


def test_a_wrong_study_is_2(run, tmp_path):
    study = write_study(tmp_path, more="secnds: 3\n")
    code, _, err = run("run", study, "--results", tmp_path / "results")
    assert (code, err) == (2, "workbench: tiny.yaml: unknown key 'secnds'; did you mean seconds?\n")
    assert run("run", tmp_path / "none.yaml")[0] == 2
    write_study(tmp_path)
    code, _, err = run("run", study, "--results", tmp_path / "results", "--only", "exakt")
    assert code == 2
    assert "got 'exakt'" in err


def test_results_that_cannot_be_written_are_3_before_any_work(run, tmp_path):
    study = write_study(tmp_path)
    (tmp_path / "results").write_text("a file")
    code, _, err = run("run", study, "--results", tmp_path / "results")
    assert code == 3
    assert err.startswith("workbench: cannot write: ")


@pytest.mark.usefixtures("jobs_here")
def test_an_interrupted_study_keeps_finished_runs(run, tmp_path, monkeypatch):
    from workbench.studies.experiments import plan

    save, kept = plan.save_record, []

    def interrupted(folder, record, trace=None):
        if len(kept) == 2:
            raise KeyboardInterrupt
        kept.append(record["name"])
        save(folder, record, trace)

    study, results = write_study(tmp_path), tmp_path / "results"
    with monkeypatch.context() as patch:
        patch.setattr(plan, "save_record", interrupted)
        code, _, err = run("run", study, "--results", results)
    assert code == 130
    assert "interrupted: 2 runs are kept, 4 are left; run the command again to continue" in err
    assert "- graphs/shared: tree, dag, exact" in (results / "tiny" / "table.md").read_text()
    code, out, _ = run("run", study, "--results", results, "-q")
    assert code == 0
    assert "4 of 6 runs done now" in out


@pytest.mark.usefixtures("jobs_here")
def test_reports_are_rendered_of_what_was_done_now(run, reported, tmp_path):
    study, results = write_study(tmp_path, methods="tree"), tmp_path / "results"
    assert run("run", study, "--results", results, "--only", "graphs/cycle:*", "-q")[0] == 0
    assert [path.name.partition("-tree")[0] for path in reported] == ["graphs-cycle", "tiny"]
    reported.clear()
    code, _, err = run("run", study, "--results", results)
    assert code == 0
    assert [path.name.partition("-tree")[0] for path in reported] == ["graphs-shared", "tiny"]
    assert "[report 2/2] the study" in err
    reported.clear()
    assert run("run", study, "--results", results, "-q")[0] == 0
    assert run("run", study, "--results", results, "-q", "--force", "--no-reports")[0] == 0
    assert reported == []


@pytest.mark.usefixtures("jobs_here")
def test_a_report_that_fails_costs_no_run(run, monkeypatch, tmp_path):
    def fail(kind, folder):
        if kind == "run":
            raise reports.ReportError("the kernel died")

    monkeypatch.setattr(reports, "render", fail)
    study, results = write_study(tmp_path, methods="tree"), tmp_path / "results"
    code, out, err = run("run", study, "--results", results, "-q")
    assert code == 0
    assert "2 of 2 runs done now" in out
    assert err == "workbench: no report of graphs/cycle:tree and 1 more: the kernel died\n"
    assert len(list(results.rglob("run.json"))) == 2


@pytest.mark.usefixtures("jobs_here")
def test_an_interrupt_while_reports_are_made_keeps_the_runs(run, monkeypatch, tmp_path):
    def interrupt(kind, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(reports, "render", interrupt)
    study, results = write_study(tmp_path, methods="tree"), tmp_path / "results"
    code, _, err = run("run", study, "--results", results, "-q")
    assert code == 130
    assert "all runs are kept, 3 reports are not made" in err
    assert (results / "tiny" / "table.md").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_here")
def test_a_study_of_optimisations_is_run_and_its_skipped_runs_are_said(run, tmp_path, monkeypatch):
    monkeypatch.delenv("ELSEWHERE", raising=False)
    release = "  taso: {by: search, mode: taso-release, rules: '${ELSEWHERE}/graph_subst.pb'}\n"
    study = write_optimisation(tmp_path, methods="  ours: {by: saturation}\n" + release)
    code, out, err = run("run", study, "--results", tmp_path / "results")
    assert code == 0, err
    assert "skipped: taso: ${ELSEWHERE}/graph_subst.pb: ELSEWHERE is not set in the environment" in err
    assert "[1/1] vgg19:ours: 1.05× (10.22 → " in err
    assert "1 of 1 runs done now, 1 are skipped" in out
    text = (tmp_path / "results" / "small" / "table.md").read_text()
    assert "- taso: ${ELSEWHERE}/graph_subst.pb: ELSEWHERE is not set" in text
    code, out, _ = run("run", study, "--results", tmp_path / "results", "-q")
    assert code == 0
    assert out.startswith("nothing to do: 1 runs are done, 1 are skipped because a file is missing")


@pytest.mark.usefixtures("jobs_here")
def test_the_command_that_is_kept_names_no_folder_of_this_machine(run, tmp_path):
    from workbench.studies.experiments.store import load_record

    study = write_study(tmp_path, methods="tree")
    assert run("run", study, "--results", tmp_path / "results", "--only", "*cycle*", "-j", 2, "-q")[0] == 0
    (folder,) = (tmp_path / "results" / "tiny" / "runs").iterdir()
    assert load_record(folder)["provenance"]["command"] == "workbench run tiny.yaml --only '*cycle*' -j 2"


@pytest.mark.slow
def test_a_sweep_that_is_killed_continues_where_it_was(tmp_path):
    study, results = write_optimisation(tmp_path, networks="vgg19, resnet50"), tmp_path / "results"
    command = [sys.executable, "-m", "workbench.faces.cli", "run", str(study), "--results", str(results)]
    command.append("--no-reports")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = results / "small" / "runs"
    until = time.monotonic() + 120
    while not list(runs.glob("*/run.json")) and time.monotonic() < until:
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = {file: file.read_bytes() for file in runs.glob("[!.]*/run.json")}
    assert 1 <= len(kept) < 4
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert f"{4 - len(kept)} of 4 runs done now" in found.stdout
    assert len(list(runs.glob("[!.]*/run.json"))) == 4
    assert all(file.read_bytes() == content for file, content in kept.items())
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout.startswith("nothing to do: 4 runs are done")


@pytest.mark.slow
@pytest.mark.dask
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("jobs_here")
def test_a_scheduler_that_is_not_there_is_2_before_any_work(run, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="distributed is not installed (the extra dask)")
    monkeypatch.setattr("workbench.studies.experiments.pool.PATIENCE", 1.0)
    study, results = write_study(tmp_path), tmp_path / "results"
    code, _, err = run("run", study, "--results", results, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in err
    assert list(results.rglob("run.json")) == []
    # Where there is nothing to do none is asked.
    assert run("run", study, "--results", results, "-q")[0] == 0
    assert run("run", study, "--results", results, "--scheduler", "tcp://127.0.0.1:9")[0] == 0


def test_a_study_of_the_folder_is_found_by_its_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no study is called tiny (try a file STUDY.yaml" in run("run", "tiny", "--dry-run")[2]
    (tmp_path / "experiments").mkdir()
    write_study(tmp_path / "experiments")
    code, out, _ = run("run", "tiny", "--dry-run")
    assert code == 0
    assert "graphs/shared:tree" in out
    code, _, err = run("run", "tinny", "--dry-run")
    assert code == 2
    assert "did you mean tiny?" in err
