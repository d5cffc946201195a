"""A network without its rules, one run for all of them: the stored records and the tables."""

import json

import pandas as pd
import pytest

from tests.studies.experiments.studies import without_processes
from workbench.studies.experiments.ablation import AblationStudy
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.tables import write_tables

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]

STUDY = """
kind: ablation
networks: [resnext50, vgg19]
methods: {small: {rules: default, iterations: 3}}
candidates: [merge-convs, conv-takes-relu]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablation")
    (folder / "small.yaml").write_text(STUDY)
    plan = make_plan(read_study(folder / "small.yaml"), folder, folder / "results" / "small")
    with without_processes():
        records = list(sweep(plan, plan.runs))
    write_tables(plan)
    return plan, records


@pytest.mark.slow
def test_every_rule_is_left_out_and_kept_with_its_loss(done):
    plan, records = done
    assert [r["name"] for r in records] == ["resnext50:small", "vgg19:small"]
    assert plan.missing() == []
    resnext, vgg = (r["result"]["without"] for r in plan.records())
    assert {row["rule"] for row in resnext} == {"merge-convs", "conv-takes-relu"}
    loss = {row["rule"]: row["loss"] for row in vgg}
    # Nothing in VGG shares an operand, and every convolution of it has a relu.
    assert loss["merge-convs"] == pytest.approx(0)
    assert loss["conv-takes-relu"] > 1
    for record in records:
        row = record["row"]
        assert row["optimized"] <= row["original"]
        assert row["left_out"] == 2
        assert not record["failed"]
        assert record["provenance"]["seed"] == 0


def test_the_table_has_a_row_a_rule(done):
    plan, records = done
    frame = pd.read_csv(plan.folder / "table.csv")
    assert len(frame) == 4
    row = records[1]["row"]
    vgg = frame[frame["network"] == "vgg19"].set_index("rule")
    assert vgg.loc["conv-takes-relu", "with_all"] == pytest.approx(row["optimized"])
    assert vgg.loc["conv-takes-relu", "cost"] > row["optimized"]


def test_what_is_not_needed_is_marked_so(done):
    plan, _ = done
    text = (plan.folder / "table.md").read_text()
    overview = text[text.index("At a glance") : text.index("## resnext50")]
    cells = {
        line.split("|")[1].strip(): line.split("|")[2:4] for line in overview.splitlines() if "|" in line
    }
    assert cells["merge-convs"][1].strip() == "="
    assert cells["conv-takes-relu"][1].strip().startswith("+")


def test_the_record_is_json_and_the_trace_has_a_step_a_run(done):
    plan, _ = done
    place = plan.place(plan.runs[1])
    record = json.loads((place / "run.json").read_text())
    assert record["stop_reason"] == "finished"
    assert record["config"]["candidates"] == ["merge-convs", "conv-takes-relu"]
    trace = pd.read_parquet(place / "trace.parquet")
    assert len(trace) == 3


def test_time_that_is_up_keeps_the_results_so_far(tmp_path):
    study = AblationStudy(networks=("vgg19",), methods=read_study_methods(tmp_path), seconds=1e-6)
    plan = make_plan(study, tmp_path, tmp_path / "results")
    (record,) = sweep(plan, plan.runs)
    assert record["stop_reason"] == "time limit"
    assert record["limits_hit"] == ["time limit"]
    assert record["row"]["left_out"] == 0
    assert record["result"]["not_left_out"]
    write_tables(plan)
    assert "The time was up before" in (tmp_path / "results" / "table.md").read_text()


def read_study_methods(folder):
    (folder / "one.yaml").write_text(STUDY)
    return read_study(folder / "one.yaml").methods


def test_a_candidate_that_is_not_a_rule_fails_its_run_with_the_nearest_name(tmp_path):
    study = AblationStudy(
        networks=("vgg19",), methods=read_study_methods(tmp_path), candidates=("merge-conv",)
    )
    plan = make_plan(study, tmp_path, tmp_path / "results")
    (record,) = sweep(plan, plan.runs)
    assert record["failed"]
    assert "merge-convs" in record["row"]["notes"]
    write_tables(plan)
    assert "failed: " in (tmp_path / "results" / "table.md").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("networks: [resnext5]", "did you mean resnext50"),
        ("methods: {small: {rule: default}}", "unknown key 'methods.small.rule'; did you mean rules"),
        ("methods: {small: {by: search}}", "by"),
        ("candidates: [a, a]", "candidates must be distinct, got 'a' twice"),
        ("seconds: 0", "seconds must be greater than 0, got 0"),
    ],
)
def test_mistakes_are_named(tmp_path, line, message):
    key = line.partition(":")[0]
    lines = [other for other in STUDY.splitlines() if not other.startswith(f"{key}:")]
    (tmp_path / "wrong.yaml").write_text("\n".join([*lines, line]))
    with pytest.raises(StudyError, match=message):
        read_study(tmp_path / "wrong.yaml")
