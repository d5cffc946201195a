"""The study of blocking: its runs, their settings and their table."""

from pathlib import Path

import pytest

import workbench
from workbench.studies.experiments.blocking import (
    BlockingStudy,
    block_one,
    make_plan,
    markdown,
    outcome,
    table,
)
from workbench.studies.experiments.config import StudyError, read_object
from workbench.studies.experiments.plan import network_of
from workbench.studies.experiments.registry import read_study

ROOT = Path(__file__).parents[3]


def test_the_study_of_glenside_has_a_run_of_every_set_of_rules_on_every_unit(tmp_path):
    study = read_study(ROOT / "experiments" / "glenside.yaml")
    plan = make_plan(study, ROOT / "experiments", tmp_path)
    assert len(plan.runs) == len(study.networks) * len(study.units) * len(study.methods)
    assert plan.runs[0].name == "mobilenetv1-systolic64:generic"


def test_a_network_may_be_a_model_file(tmp_path):
    workbench.save_onnx(workbench.benchmark("squeezenet"), tmp_path / "mine.onnx")
    study = BlockingStudy(networks=("mine.onnx",), units=("systolic64",))
    (run, *_) = make_plan(study, tmp_path, tmp_path / "out").runs
    assert run.name.startswith("mine-systolic64")
    assert run.config["network"]["file"] == "mine.onnx"
    assert network_of(str(tmp_path / "mine.onnx")).operators()["conv2d"] > 0
    with pytest.raises(StudyError, match=r"networks: .*gone.onnx"):
        make_plan(BlockingStudy(networks=("gone.onnx",), units=("systolic64",)), tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("networks", ("mobilenetv9",), "mobilenetv"),
        ("units", ("systolic46",), "did you mean systolic64"),
        ("methods", ("magic",), "no method of blocking"),
        ("units", (), "units must name at least one"),
    ],
)
def test_wrong_settings_are_refused(key, value, message):
    given = {"networks": ("bert",), "units": ("systolic64",)} | {key: value}
    with pytest.raises(StudyError, match=message):
        read_object(BlockingStudy, given)


def test_a_run_gives_a_row_and_a_table(tmp_path):
    study = BlockingStudy(
        networks=("bert",),
        units=("systolic128",),
        methods=("any-orientation",),
        e_nodes=5000,
        seconds=20.0,
        certify=False,
    )
    plan = make_plan(study, tmp_path, tmp_path)
    found = block_one(study, plan.runs[0])
    assert found["row"]["products_left"] == 0
    assert found["status"] == "optimal"
    record = {
        "row": {"network": "bert", "unit": "systolic128", "method": "any-orientation", "repeat": 0,
                "status": found["status"], "notes": "", **found["row"]},
        "stop_reason": found["stop_reason"], "failed": False,
        "provenance": {
            "machine": {"cpus": 1, "processor": "p", "platform": "x"}, "versions": {},
            "commit": "c", "load": None,
        },
    }  # fmt: skip
    assert outcome(record).endswith("cycles")
    text = markdown(plan, table([record]), [record])
    assert "| bert | systolic128 | any-orientation |" in text
