from pathlib import Path

import pytest

from workbench.studies.experiments.config import StudyError, read_object
from workbench.studies.experiments.registry import read_study
from zoo.studies.training import TrainingStudy, make_plan, markdown, outcome, run_one, table

ROOT = Path(__file__).parents[3]


def test_the_study_of_training_has_every_network_in_both_ways(tmp_path):
    study = read_study(ROOT / "experiments" / "training.yaml")
    plan = make_plan(study, ROOT / "experiments", tmp_path)
    assert len(plan.runs) == 2 * len(study.networks) == 10
    assert plan.runs[0].name == "non-local:eager"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"networks": ("segfromer",)}, "did you mean segformer"),
        ({"networks": ("stack",), "thens": ("inductr",)}, "did you mean inductor"),
        ({"networks": ("stack",), "size": 2.0}, "size must be at most 1, got 2"),
        ({"networks": ("stack",), "rounds": 0}, "rounds must be greater than 0, got 0"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(StudyError, match=message):
        read_object(TrainingStudy, given)


@pytest.mark.torch
def test_a_run_trains_both_ways_and_its_table_says_how_far_the_gradients_are(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    threads = torch.get_num_threads()
    study = TrainingStudy(networks=("non-local",), thens=("eager",), rounds=2, size=0.25)
    plan = make_plan(study, tmp_path, tmp_path)
    try:
        record = run_one(study, plan.runs[0])
    finally:
        torch.set_num_threads(threads)
        torch._dynamo.reset()
    row = record["row"]
    assert 0 < row["distance"] < 1e-4
    assert 0 < row["own"] < 1e-4
    assert row["losses"] < 1e-4
    assert row["before"] > 0 < row["after"]
    machine = {"cpus": 1, "processor": "p", "platform": "x"}
    whole = {
        **record,
        "row": {"network": "non-local", "then": "eager", "repeat": 0, "notes": "", **row}
        | {"status": record["status"]},
        "failed": False,
        "provenance": {"machine": machine, "versions": {}, "commit": "c", "load": None},
    }
    assert "ms a step), gradients" in outcome(whole)
    text = markdown(plan, table([whole]), [whole])
    assert "| non-local | eager |" in text
    assert "nan" not in text
