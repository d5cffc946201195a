"""Rules verified both ways: the same verdicts, seconds side by side, other machines' files."""

import re

import pandas as pd
import pytest

from tests.studies.experiments.studies import without_processes
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.registry import make_plan, read_study
from workbench.studies.experiments.results import load
from workbench.studies.experiments.tables import render, write_tables
from workbench.studies.experiments.verification import VerificationStudy, markdown, subject

pytestmark = pytest.mark.slow

RULES = """
sums: add(x, y) => add(y, x)
relus: relu(relu(x)) => relu(x)
wrong: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verification")
    (folder / "three.rules").write_text(RULES)
    (folder / "small.yaml").write_text("kind: verification\nrules: [three.rules, grouping]\n")
    plan = make_plan(read_study(folder / "small.yaml"), folder, folder / "results" / "small")
    with without_processes():
        records = list(sweep(plan, plan.runs))
    write_tables(plan)
    return plan, records


@pytest.mark.slow
def test_both_ways_judge_alike(done):
    plan, records = done
    assert [r["name"] for r in records] == [
        "three:batch", "three:one-by-one", "grouping:batch", "grouping:one-by-one"
    ]  # fmt: skip
    batch, single = (r["result"]["verdicts"] for r in records[:2])
    assert batch == single
    assert batch["wrong"] == "refuted"
    assert batch["sums"] == "by axioms"
    assert "None: every rule has the same evidence in both modes" in (plan.folder / "table.md").read_text()


def test_the_row_counts_verdicts_and_tells_seconds(done):
    plan, records = done
    frame = pd.read_csv(plan.folder / "table.csv")
    assert frame["count"].tolist()[:2] == [3, 3]
    assert frame["refuted"].tolist() == [1, 1, 0, 0]
    assert (frame["e_graph_seconds"] <= frame["proving_seconds"]).all()
    assert (frame["proving_seconds"] <= frame["seconds"]).all()
    assert frame["status"].tolist() == ["finished"] * 4
    for record in records:
        assert sum(record["row"][v] for v in ("tested", "refuted", "unknown", "rejected")) == len(
            record["result"]["verdicts"]
        )


def test_the_ratio_is_that_of_the_seconds(done):
    plan, records = done
    text = (plan.folder / "table.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("| three | 3 |"))
    ratio = float(re.findall(r"([\d.]+)×", line)[0])
    batch, single = (r["row"]["e_graph_seconds"] for r in records[:2])
    assert ratio == pytest.approx(single / batch, abs=0.06)
    assert "Published, for orientation" in text


def test_a_rule_judged_otherwise_is_named(done):
    plan, records = done
    frame, _ = render(plan)
    other = records[1] | {"result": {"verdicts": {**records[1]["result"]["verdicts"], "sums": "tested"}}}
    text = markdown(plan, frame, [records[0], other, *records[2:]])
    assert "- three, sums: by axioms (batch), tested (one-by-one)" in text
    assert "None: every rule" not in text


def test_a_second_sweep_has_nothing_to_do(done):
    plan, _ = done
    assert list(sweep(plan, plan.runs)) == []


def test_a_file_that_is_not_here_is_skipped(tmp_path, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    plan = make_plan(
        VerificationStudy(rules=("${NOWHERE}/taso/graph_subst.pb",)), tmp_path, tmp_path / "results"
    )
    assert plan.skipped == ("${NOWHERE}/taso/graph_subst.pb: NOWHERE is not set in the environment",)
    assert [run.name for run in plan.runs] == ["taso/graph_subst:batch", "taso/graph_subst:one-by-one"]
    assert list(sweep(plan, plan.runs)) == []
    write_tables(plan)
    assert "NOWHERE" in (tmp_path / "results" / "table.md").read_text()


def test_names_of_files_are_short():
    assert subject("own.rules") == "own"
    assert subject("../rules/own.rules") == "rules/own"
    assert subject("${SHARED}/own.rules") == "own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [defalt]", "did you mean default"),
        ("rules: []", "rules must name at least one, got none"),
        (
            "rules: [default]\nmodes: [batsch]",
            "modes: no mode of verification is called 'batsch'; did you mean batch",
        ),
        ("rules: [default]\ne_nodes: -1", "e_nodes must be greater than 0, got -1"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    (tmp_path / "wrong.yaml").write_text(f"kind: verification\n{text}\n")
    with pytest.raises(StudyError, match=re.escape(message)):
        read_study(tmp_path / "wrong.yaml")


def test_runs_are_loaded_under_the_names_of_their_rules(done):
    plan, _ = done
    frame = load(plan.folder)
    assert list(frame["network"]) == ["grouping", "grouping", "three", "three"]
    assert set(frame["by"]) == {"verification"}
