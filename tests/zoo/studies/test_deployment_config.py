"""What a study of deployment may ask for."""

from hashlib import sha256

import pytest

from workbench.studies.benchmarks.light import light_names
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.registry import make_plan, read_study
from zoo.exports import architectures
from zoo.studies.deployment import DeploymentMethod, DeploymentStudy, known_models

STUDY = """
kind: deployment
models: [lenet5, light/squeezenet]
methods: {default: {}, t4: {options: [--cost, analytic], seconds: 60}}
timing: {threads: [1, 0], seconds: 2, rivals: [onnxslim]}
"""


def read(folder, text):
    (folder / "study.yaml").write_text(text)
    return read_study(folder / "study.yaml")


def test_a_study_is_read(tmp_path):
    study = read(tmp_path, STUDY)
    assert isinstance(study, DeploymentStudy)
    assert study.methods["default"] == DeploymentMethod()
    assert study.methods["t4"].options == ("--cost", "analytic")
    assert study.timing.threads == (1, 0)
    assert study.limit("t4") == 60 + 4 * 2 * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lenet5", "lenet-5"), "no model is called 'lenet-5'; did you mean lenet5"),
        (("[lenet5, light/squeezenet]", "[]"), "models must name at least one, got none"),
        (("--cost, analytic", "--json, there"), "options must not have '--json'"),
        (("--cost, analytic", "--output=there"), "options must not have '--output=there'"),
        (("[1, 0]", "[1, 1]"), r"yaml: timing\.threads must be distinct, got 1 twice"),
        (("[1, 0]", "[-1]"), r"yaml: timing\.threads\[0\] must be at least 0, got -1"),
        (("seconds: 2", "seconds: 2, targets: [torhc]"), "no target is called 'torhc'; did you mean torch"),
        (("onnxslim", "onnxslin"), "no rival is called 'onnxslin'; did you mean onnxslim"),
        (("seconds: 60", "seconds: 0"), "seconds must be greater than 0, got 0"),
        (("seconds: 2", "second: 2"), "did you mean seconds"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(tmp_path, change, message):
    with pytest.raises(StudyError, match=message):
        read(tmp_path, STUDY.replace(*change))


def test_a_file_is_found_beside_the_study_and_in_packages_or_skipped(tmp_path, monkeypatch):
    (tmp_path / "own.onnx").write_bytes(b"one")
    (tmp_path / "packed" / "data").mkdir(parents=True)
    (tmp_path / "packed" / "data" / "m.onnx").write_bytes(b"two")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["own.onnx", "packed/data/m.onnx", "nowhere/m.onnx"]
    study = read(tmp_path, STUDY.replace("lenet5, light/squeezenet", ", ".join(names)))
    plan = make_plan(study, tmp_path, tmp_path / "results")
    networks = {run.subject: run.config["network"] for run in plan.runs if not run.absent}
    assert list(networks) == names[:2]
    assert networks[names[1]] == {"file": names[1], "sha256": sha256(b"two").hexdigest()}
    (reason,) = plan.skipped
    assert reason.startswith("nowhere/m.onnx: ")


def test_all_architectures_can_be_asked_for_and_the_studies_that_come_along_ask_for_them():
    names = known_models()
    quantised = {f"quantised/{n}" for n in architectures()}
    assert set(names) == {*architectures(), *(f"light/{n}" for n in light_names()), *quantised}
    study, zoo = read_study("experiments/deployment.yaml"), read_study("experiments/zoo.yaml")
    assert {*study.models, *zoo.models} >= set(names) - quantised
    assert len(zoo.models) >= 20
    assert zoo.timing.by_hand
    assert zoo.timing.threads == (1, 2)
    assert len(study.models) >= 30
    assert study.methods["default"].options == ()
