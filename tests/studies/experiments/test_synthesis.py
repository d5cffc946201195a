"""Syntheses of a study: laws, counts, coverage of other rules, and the tables."""

import pandas as pd
import pytest

from tests.studies.experiments.studies import without_processes
from workbench.studies.experiments.config import StudyError, read_object
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.registry import make_plan, outcome_line, read_study
from workbench.studies.experiments.synthesis import SynthesisStudy
from workbench.studies.experiments.tables import write_tables

GRAMMAR = "operators: [add, relu]\noperands: {matrix: 2}\n"
STUDY = """
kind: synthesis
grammars: [small.yaml]
sizes: [1, 2]
instances: 40
against: [two.rules, "${NO_SUCH_FOLDER}/a.rules"]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthesis")
    (folder / "small.yaml").write_text(GRAMMAR)
    (folder / "two.rules").write_text("swap: add(x, y) => add(y, x)\nwrong: add(x, y) => relu(x)\n")
    (folder / "study.yaml").write_text(STUDY)
    plan = make_plan(read_study(folder / "study.yaml"), folder, folder / "results" / "study")
    with without_processes():
        records = list(sweep(plan, plan.runs))
    write_tables(plan)
    return plan, records


@pytest.mark.slow
def test_laws_and_coverage_are_stored(done):
    _, records = done
    small, large = records
    assert "add-commutes" in large["result"]["laws"]
    assert set(small["result"]["laws"]) <= set(large["result"]["laws"])
    (covered,) = large["result"]["covers"].values()
    assert (covered["derived"], covered["refuted"]) == (1, 1)
    assert "2 operators" in large["name"] or "2-operators" in large["name"]
    assert "laws" in outcome_line(large)
    assert large["row"]["processor"] > 0
    assert len(large["result"]["levels"]) == 2
    assert not any(refuted for _, refuted, _ in large["result"]["rechecks"].values())


@pytest.mark.slow
def test_the_tables_have_the_funnel_and_the_laws_and_name_what_is_missing(done):
    plan, _ = done
    frame = pd.read_csv(plan.folder / "table.csv")
    assert frame["status"].tolist() == ["finished"] * 2
    assert (frame["terms"].diff().dropna() > 0).all()
    text = (plan.folder / "table.md").read_text()
    assert "28 744" in text
    assert "add(x, y)" in text
    assert "NO_SUCH_FOLDER is not set" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"grammars": ()}, "at least one"),
        ({"grammars": ("a.yaml",), "sizes": (0,)}, r"sizes\[0\] must be greater than 0"),
        ({"grammars": ("a.yaml",), "instances": -1}, "instances must be at least 0, got -1"),
        ({"grammars": ("a.yaml", "a.yaml")}, "a.yaml"),
        ({"grammars": ("a.yaml",), "known": "defaultt"}, "default"),
    ],
)
def test_settings_are_checked(given, said):
    with pytest.raises(StudyError, match=said):
        read_object(SynthesisStudy, given)
