"""The settings of a study of branches: an error names the fault and the nearest known name."""

import re
from pathlib import Path

import pytest

from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.registry import read_study
from zoo.studies.branches import BranchesStudy, Latency, Scaling

GIVEN = "kind: branches\nfamilies: {repvgg: {channels: 4, size: 6}}\nmethods: {t4: {}}\n"


def read(tmp_path, text):
    (tmp_path / "study.yaml").write_text(text)
    return read_study(tmp_path / "study.yaml")


def test_what_is_not_given_has_defaults(tmp_path):
    study = read(tmp_path, GIVEN)
    assert isinstance(study, BranchesStudy)
    assert study.families == {"repvgg": {"channels": 4, "size": 6}}
    assert study.methods["t4"].cost == "analytic"
    assert (study.latency, study.scaling) == (Latency(), Scaling())
    assert study.limit("t4") == study.methods["t4"].limit + study.latency.seconds


def test_the_study_that_comes_along_can_be_read():
    study = read_study(Path(__file__).parents[3] / "experiments" / "branches.yaml")
    assert len(study.families) == 10
    assert set(study.scaling.families) <= set(study.families)
    assert study.limit("cpu") > study.limit("t4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GIVEN.replace("repvgg", "repvg"), "families: no family is called 'repvg'; did you mean repvgg?"),
        (
            GIVEN.replace("channels", "chanels"),
            "families.repvgg: no parameter is called 'chanels'; did you mean channels?",
        ),
        (
            GIVEN.replace("channels: 4", "channels: four"),
            "families.repvgg.channels must be like its default a number ('32'), got a text ('four')",
        ),
        (
            GIVEN.replace("channels: 4", "channels: true"),
            "channels must be like its default a number ('32'), got true",
        ),
        (
            GIVEN.replace("channels: 4", "channels: [4]"),
            "families.repvgg.channels must be a whole number or a number or true or false or a text, got a list",
        ),
        (GIVEN.replace("channels: 4", "blocks: 0"), "families.repvgg.blocks must be at least 1, got 0"),
        (GIVEN.replace("channels: 4", "order: upwards"), "families.repvgg: "),
        (GIVEN.replace("channels: 4", "channels: 5, groups: 3"), "families.repvgg: "),
        ("kind: branches\nfamilies: {}\nmethods: {t4: {}}", "families must name at least one, got none"),
        (GIVEN.replace("{t4: {}}", "{}"), "methods must name at least one, got none"),
        (GIVEN.replace("t4: {}", "t4: {cost: analitic}"), "did you mean analytic"),
        (GIVEN.replace("t4: {}", "t4: {rules: defalt}"), "did you mean default"),
        (
            GIVEN.replace("t4: {}", "t4: {mesure: 2}"),
            "unknown key 'methods.t4.mesure'; did you mean measure?",
        ),
        (GIVEN.replace("t4: {}", "t4: {measure: -2}"), "methods.t4.measure must be at least 0, got -2"),
        (
            GIVEN.replace("t4: {}", "t4: {seconds: 0}"),
            "methods.t4.seconds must be positive, got 0.0",
        ),
        (GIVEN.replace("t4: {}", "t 4: {}"), "and '-', got 't 4'"),
        (GIVEN + "latency: {targets: [onnxruntim]}", "did you mean onnxruntime"),
        (
            GIVEN + "latency: {rivals: [onnxslm]}",
            "latency.rivals: no rival is called 'onnxslm'; did you mean onnxsl",
        ),
        (GIVEN + "latency: {threads: 0}", "latency.threads must be greater than 0, got 0"),
        (GIVEN + "scaling: {families: {repvgg: {}}}", "scaling.blocks must name at least one, got none"),
        (
            GIVEN + "scaling: {families: {repvgg: {}}, blocks: [1, one], methods: [t4]}",
            "scaling.blocks[1] must be a whole number, got a text ('one')",
        ),
        (
            GIVEN + "scaling: {families: {repvgg: {}}, blocks: [0], methods: [t4]}",
            "scaling.blocks[0] must be greater than 0, got 0",
        ),
        (
            GIVEN + "scaling: {families: {dbb: {}}, blocks: [1], methods: [t4]}",
            "scaling.families: no family of this",
        ),
        (
            GIVEN + "scaling: {families: {repvgg: {}}, blocks: [1, 1], methods: [t4]}",
            "scaling.blocks must be distinct, got 1 twice",
        ),
        (
            GIVEN + "scaling: {families: {repvgg: {size: 0}}, blocks: [1], methods: [t4]}",
            "scaling.families.repvgg.size must be at least 1, got 0",
        ),
        (GIVEN + "repeats: 0", "repeats must be greater than 0, got 0"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        read(tmp_path, text)
