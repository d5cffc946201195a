"""Studies are read strictly: an error names the wrong key and the nearest known one."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from workbench.optimizer.pipeline import optimize
from workbench.saturation.limits import Limits
from workbench.studies.experiments.config import StudyError
from workbench.studies.experiments.registry import module_of, read_study
from workbench.studies.search.optimize import search_optimize

ROOT = Path(__file__).parents[3]
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
        ("xyzzy: 5", r"unknown key 'xyzzy' \(try .*seed, "),
        ("seconds: fast", r"own\.yaml: seconds must be a number, got a text \('fast'\)"),
        ("seconds: 1e3", r"seconds must be a number, got a text \('1e3'\)"),
        ("seconds: true", r"seconds must be a number, got true or false \('True'\)"),
        ("seconds: 0", "seconds must be greater than 0, got 0"),
        ("seconds: .nan", "seconds must be a finite number, got nan"),
        ("seconds: .inf", "seconds must be a finite number, got inf"),
        ("seconds_for: {tree: -1}", "seconds_for.tree must be greater than 0, got -1"),
        ("seconds_for: {dag: 1}", r"seconds_for: no method of this study is called 'dag'.* tree, exact"),
        ("seconds_for: {tree: x}", "seconds_for.tree must be a number, got a text"),
        ("seconds_for: [1]", "seconds_for must be a mapping, got a list"),
        ("repeats: 1.5", r"repeats must be a whole number, got a number \('1.5'\)"),
        ("repeats: 0", "repeats must be greater than 0, got 0"),
        ("seed: -1", r"seed must be at least 0, got -1"),
        ("grace:", "grace must be a number, got empty"),
        ("repeats: 2\nrepeats: 3", "line 5: the key 'repeats' is duplicated"),
        ("- a", "own.yaml must be readable YAML, got"),
    ],
)
def test_what_is_wrong_is_named(read, line, message):
    with pytest.raises(StudyError, match=message):
        read(SHORT + line + "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a study must be a mapping of keys to values, got empty"),
        ("- a\n- b\n", "a study must be a mapping of keys to values, got a list"),
        ("methods: [tree]\n", "'kind' is missing; it must be one of extraction, optimisation"),
        ("kind: extractoin\n", r"no kind of study is called 'extractoin'; did you mean extraction\?"),
        ("kind: [a]\n", "kind must be a text, got a list"),
        ("kind: extraction\nmethods: [tree]\n", "'instances' is missing"),
        (SHORT.replace("tree,", "tee,"), r"no extraction method is called 'tee'; did you mean tree\?"),
        (SHORT.replace("tree,", "tree, tree,"), "methods must be distinct, got 'tree' twice"),
        (SHORT.replace("[tree, exact]", "tree"), r"methods must be a list, got a text \('tree'\)"),
        (SHORT.replace("[tree, exact]", "[]"), "methods must name at least one, got none"),
        (SHORT.replace("tree,", "3,"), r"methods\[0\] must be a text, got a number"),
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
        ("e_nodes: 0", "instances.saturation.e_nodes must be at least 1, got 0"),
        ("e_nodes: 1.5", "instances.saturation.e_nodes must be a whole number, got a number"),
        ("rules: defualt", r"instances.saturation: .*did you mean default\?"),
        ("cost: gone.parquet", r"own\.yaml: .*gone\.parquet"),
        ("rules: gone.rules", r"own\.yaml: .*gone\.rules"),
        ("cost: analytc", r"instances.saturation: .*did you mean analytic\?"),
    ],
)
def test_settings_of_the_saturation_are_checked_before_anything_runs(read, settings, message):
    text = SHORT.replace("[vgg19]", "[vgg19], saturation: {" + settings + "}")
    with pytest.raises(StudyError, match=message):
        read(text)


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.name)
def test_every_study_of_the_project_can_be_read(file):
    study = read_study(file)
    assert type(study) in vars(module_of(study.KIND)).values()


OPTIMISE = "kind: optimisation\nnetworks: [vgg19]\nmethods:\n  ours: {by: saturation}\n  taso: {by: search}\n"


def test_an_optimisation_has_the_defaults_of_the_calls(read):
    study = read(OPTIMISE + "  more: {by: saturation, k_multi: 2, extractor: dag}\ncertify: false\n")
    assert list(study.methods) == ["ours", "taso", "more"]
    assert study.methods["more"].k_multi == 2
    assert (study.certify, study.cost, study.repeats) == (False, "analytic", 1)
    ours, taso = inspect.signature(optimize).parameters, inspect.signature(search_optimize).parameters
    assert study.methods["ours"].seconds == Limits().seconds == ours["seconds"].default / 2
    for name in ("rules", "e_nodes", "iterations", "k_multi", "settle", "extractor"):
        assert getattr(study.methods["ours"], name) == ours[name].default, name
    for name in ("mode", "alpha", "budget", "growth", "seconds"):
        assert getattr(study.methods["taso"], name) == taso[name].default, name
    assert (study.methods["ours"].limit, study.methods["taso"].limit) == (120.0, 600.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.methods["taso"].alpha = 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OPTIMISE + "cots: cpu\n", r"unknown key 'cots'; did you mean cost\?"),
        (OPTIMISE + "cost: analytc\n", r"did you mean analytic\?"),
        (OPTIMISE + "certify: 1\n", "certify must be true or false, got a number"),
        (OPTIMISE + "memory: 0\n", "memory must be greater than 0, got 0"),
        (OPTIMISE.replace("[vgg19]", "[]"), "networks must name at least one, got none"),
        (OPTIMISE.replace("[vgg19]", "[vgg]"), r"no network is called 'vgg'; did you mean vgg19\?"),
        (
            OPTIMISE.replace("search", "serch"),
            r"methods.taso.by must be one of saturation, search, got a text \('serch'\)",
        ),
        (
            OPTIMISE.replace("by: search", "alpha: 1"),
            "methods.taso.by must be one of saturation, search, got empty",
        ),
        (
            OPTIMISE.replace("by: search", "by: search, alfa: 1"),
            r"unknown key 'methods.taso.alfa'; did you mean alpha",
        ),
        (OPTIMISE.replace("by: search", "by: search, k_multi: 1"), "unknown key 'methods.taso.k_multi'"),
        (
            OPTIMISE.replace("by: search", "by: search, alpha: 0.5"),
            "methods.taso.alpha must be at least 1, got 0.5",
        ),
        (
            OPTIMISE.replace("by: search", "by: search, mode: taso"),
            "methods.taso.mode: no search mode is called 'taso'",
        ),
        (
            OPTIMISE.replace("by: search", "by: search, mode: taso-release"),
            "methods.taso.rules must be a TASO rule file for mode taso-release, got 'default'",
        ),
        (OPTIMISE.replace("by: saturation", "by: saturation, rules: defualt"), r"did you mean default\?"),
        (OPTIMISE.replace("by: saturation", "by: saturation, extractor: exakt"), r"did you mean exact\?"),
        (
            OPTIMISE.replace("by: saturation", "by: saturation, e_nodes: 0"),
            "methods.ours.e_nodes must be at least 1, got 0",
        ),
        (OPTIMISE.replace("{by: search}", "search"), "methods.taso must be a mapping, got a text"),
        (OPTIMISE.replace("taso:", "a/b:"), "methods: a name must start with .*, got 'a/b'"),
        (OPTIMISE.replace("taso:", "ours:"), "line 5: the key 'ours' is duplicated"),
    ],
)
def test_a_wrong_optimisation_says_why(read, text, message):
    with pytest.raises(StudyError, match=message):
        read(text)


@pytest.mark.slow
def test_a_study_beyond_all_measure_is_refused(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("kind: " + "[" * 20_000 + "]" * 20_000)
    with pytest.raises(StudyError, match="a study must have a few levels"):
        read_study(file)
