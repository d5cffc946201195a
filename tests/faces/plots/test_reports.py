"""Reports are rendered from stored files alone, small and readable without trust; none costs a run."""

import json
import sys
from pathlib import Path

import pytest

from tests.studies.experiments.studies import without_processes
from workbench.faces.plots import reports
from workbench.faces.plots.reports import ReportError, RunReport, StudyReport, render
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.tables import write_tables

STUDY = """
kind: optimisation
networks: [vgg19]
methods:
  ours: {by: saturation}
  taso: {by: search, budget: 3}
certify: false
"""
TEMPLATES = sorted((Path(reports.__file__).parent / "templates").glob("*.ipynb"))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    (folder / "small.yaml").write_text(STUDY)
    plan = make_plan(read_study(folder / "small.yaml"), folder, folder / "results" / "small")
    with without_processes():
        assert len(list(sweep(plan, plan.runs))) == 2
    write_tables(plan)
    return plan


def outputs(path):
    cells = json.loads(path.read_text())["cells"]
    return [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]


@pytest.mark.notebook
def test_a_run_and_its_study_are_rendered_small_and_without_scripts(plan):
    for path in (render("run", plan.place(plan.runs[0])), render("study", plan.folder)):
        assert path.name == "report.ipynb"
        text = path.read_text()
        assert len(text) < 1_000_000
        assert "<script" not in text
        # A report may be sent to others: it names no folder of this machine.
        assert str(plan.folder.parent) not in text
        assert "widget" not in text
        shown = [set(output.get("data", {})) for output in outputs(path)]
        assert sum("image/png" in kinds for kinds in shown) == 1
        assert any("text/markdown" in kinds for kinds in shown)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_a_template_is_thin_and_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])] == [code[0]]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(len(cell["source"]) <= 4 for cell in code)


@pytest.mark.slow
def test_a_report_shows_the_run(plan):
    run = plan.runs[0]
    report = RunReport.load(plan.place(run))
    assert "vgg19:ours" in report.heading._repr_markdown_()
    assert float(report.row.loc["optimized"].item()) == pytest.approx(report.record["row"]["optimized"], 1e-5)
    assert report.settings.loc["method.k_multi"].item() == "1"
    assert {"original", "optimised"} == set(report.details.columns)
    assert report.details.loc["conv2d", "original"] == 16
    assert report.draw()._repr_png_().startswith(b"\x89PNG")
    search = RunReport.load(plan.place(plan.runs[1]))
    assert search.draw()._repr_png_().startswith(b"\x89PNG")


def test_without_a_trace_the_report_says_so(plan, tmp_path):
    (tmp_path / "run.json").write_text((plan.place(plan.runs[0]) / "run.json").read_text())
    report = RunReport.load(tmp_path)
    assert report.trace is None
    assert "trace is missing" in report.draw()


def test_other_kinds_show_what_they_found(tmp_path, plan):
    record = json.loads((plan.place(plan.runs[0]) / "run.json").read_text())

    def details(study, **more):
        changed = record | {"config": record["config"] | {"study": study}} | more
        return RunReport(tmp_path, changed, None).details

    rules = {"verdicts": {"b": "refuted", "a": "by axioms"}}
    assert details("verification", result=rules)["rule"].tolist() == ["a", "b"]
    rows = {"without": [{"rule": "a", "loss": 1.5}]}
    assert details("ablation", result=rows)["loss"].tolist() == [1.5]
    grown = details("extraction", result={}, e_graph={"iterations": 7})
    assert grown.loc["iterations"].tolist() == ["7"]
    # A run that failed has found nothing, whatever its kind.
    assert details("verification", result={}, failed=True).empty


def test_a_run_that_times_shows_its_rows_and_its_study_a_figure_of_each_target():
    folder = Path(__file__).parents[3] / "results" / "latency"
    (timing,) = (folder / "runs").glob("bert-timing-*")
    details = RunReport.load(timing).details
    assert set(details["form"]) == {"original", "workbench", "taso-search", "chosen"}
    assert details["median"].gt(0).all()
    (optimised,) = (folder / "runs").glob("bert-workbench-*")
    assert "optimised" in RunReport.load(optimised).details
    assert len(StudyReport.load(folder).draw().figure.axes) == 3
    training = next((folder.parent / "training" / "runs").glob("stack-*"))
    assert "parts" in RunReport.load(training).details.index


def test_nothing_stored_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run is stored there"):
        RunReport.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no tables of a study here"):
        StudyReport.load(tmp_path)


@pytest.mark.notebook
def test_a_cell_that_fails_leaves_no_report_and_says_why(tmp_path):
    with pytest.raises(ReportError, match="no run is stored there"):
        render("run", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_papermill_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(ReportError, match="--no-reports"):
        render("run", tmp_path)


@pytest.mark.slow
def test_what_is_too_large_is_not_a_report(monkeypatch, tmp_path):
    papermill = pytest.importorskip("papermill", reason="papermill is not installed")

    def execute(template, output, *_, **__):
        cell = {"cell_type": "markdown", "metadata": {}, "source": ["x" * 1_100_000]}
        Path(output).write_text(json.dumps({"cells": [cell], "metadata": {}}))

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    with pytest.raises(ReportError, match=r"1\.1 MB"):
        render("run", tmp_path)
    assert list(tmp_path.iterdir()) == []
