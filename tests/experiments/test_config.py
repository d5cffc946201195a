"""Studies are read strictly: what is wrong is named with its key, and the nearest key there is."""

import dataclasses
from pathlib import Path

import pytest

from workbench.experiments.config import KINDS, StudyError, read_study

ROOT = Path(__file__).parents[2]
SHORT = "kind: extraction\ninstances: {networks: [vgg19]}\nmethods: [tree, exact]\n"


@pytest.fixture
def read(tmp_path):
    def call(text):
        file = tmp_path / "own.yaml"
        file.write_text(text)
        return read_study(file)

    return call


def test_a_short_study_has_the_defaults(read):
    study = read(SHORT)
    assert study.instances.networks == ("vgg19",)
    assert study.instances.files == ()
    assert study.instances.saturation.e_nodes == 50_000
    assert study.methods == ("tree", "exact")
    assert (study.seconds, study.repeats, study.seed) == (60.0, 1, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.seconds = 1.0


def test_a_method_can_have_a_limit_of_its_own(read):
    study = read(SHORT + "seconds: 20\nseconds_for: {exact: 5}\n")
    assert [study.limit(m) for m in study.methods] == [20.0, 5.0]
    assert isinstance(study.seconds, float)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("secnds: 5", r"own\.yaml: unknown key 'secnds'; did you mean seconds\?"),
        ("xyzzy: 5", r"unknown key 'xyzzy'$"),
        ("seconds: fast", r"seconds: a text \('fast'\) where a number is expected"),
        ("seconds: 1e3", r"seconds: a text \('1e3'\)"),
        ("seconds: true", r"seconds: true or false \('True'\) where a number"),
        ("seconds: 0", "seconds: 0.0 is not a positive number"),
        ("seconds: .nan", "seconds: nan is not a positive number"),
        ("seconds: .inf", "seconds: inf is not"),
        ("seconds_for: {tree: -1}", "seconds_for.tree: -1.0 is not"),
        ("seconds_for: {dag: 1}", r"seconds_for: no method of this study is called 'dag'.* tree, exact"),
        ("seconds_for: {tree: x}", "seconds_for.tree: a text"),
        ("seconds_for: [1]", "seconds_for: a list where a mapping is expected"),
        ("repeats: 1.5", r"repeats: a number \('1.5'\) where a whole number is expected"),
        ("repeats: 0", "repeats: 0 is not"),
        ("seed: -1", "seed: -1 is not"),
        ("grace:", "grace: empty"),
        ("repeats: 2\nrepeats: 3", "line 5: 'repeats' stands there twice"),
        ("- a", "own.yaml is not YAML"),
    ],
)
def test_what_is_wrong_is_named(read, line, message):
    with pytest.raises(StudyError, match=message):
        read(SHORT + line + "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a study is a mapping of keys to values, not empty"),
        ("- a\n- b\n", "not a list"),
        ("methods: [tree]\n", "'kind' is missing; it is one of extraction, optimisation"),
        ("kind: extractoin\n", r"no kind of study is called 'extractoin'; did you mean extraction\?"),
        ("kind: [a]\n", "kind: a list where a text"),
        ("kind: extraction\nmethods: [tree]\n", "'instances' is missing"),
        (SHORT.replace("tree,", "tee,"), r"no extraction method is called 'tee'; did you mean tree\?"),
        (SHORT.replace("tree,", "tree, tree,"), "methods: 'tree' stands there twice"),
        (SHORT.replace("[tree, exact]", "tree"), r"methods: a text \('tree'\) where a list"),
        (SHORT.replace("[tree, exact]", "[]"), "methods: name at least one"),
        (SHORT.replace("tree,", "3,"), r"methods\[0\]: a number"),
        (
            SHORT.replace("vgg19", "vgg"),
            r"instances.networks: no network is called 'vgg'; did you mean vgg19",
        ),
        (SHORT.replace("networks", "network"), r"unknown key 'instances.network'; did you mean networks\?"),
    ],
)
def test_a_wrong_study_says_why(read, text, message):
    with pytest.raises(StudyError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("e_node: 5", r"unknown key 'instances.saturation.e_node'; did you mean e_nodes\?"),
        ("e_nodes: 0", "instances.saturation: the limit e_nodes is positive"),
        ("e_nodes: 1.5", "instances.saturation.e_nodes: a number"),
        ("rules: defualt", r"instances.saturation: .*did you mean default\?"),
        ("cost: analytc", r"instances.saturation: .*did you mean analytic\?"),
    ],
)
def test_settings_of_the_saturation_are_checked_before_anything_runs(read, settings, message):
    text = SHORT.replace("[vgg19]", "[vgg19], saturation: {" + settings + "}")
    with pytest.raises(StudyError, match=message):
        read(text)


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.name)
def test_every_study_of_the_project_can_be_read(file):
    assert type(read_study(file)) in KINDS.values()
