"""Messages on one line, the nearest known name, and the error for an unknown one."""

import pickle

import pytest
import yaml

import workbench
from workbench.devices.targets import target
from workbench.kernels.accelerators import unit
from workbench.studies.benchmarks import benchmark
from workbench.studies.benchmarks.light import demonstration
from workbench.studies.search.modes import MODES as SEARCH_MODES
from workbench.support.messages import UnknownName, nearest, unknown, yaml_reason
from zoo.branches import branched
from zoo.exports import architecture


def test_the_nearest_name_is_named_if_there_is_one():
    assert nearest("squezenet", ["vgg19", "squeezenet"]) == "; did you mean squeezenet?"
    assert nearest("abacus", ["vgg19", "squeezenet"]) == ""
    assert unknown("rule", "ab", ["abc"], listed=False) == "no rule is called 'ab'; did you mean abc?"


def test_the_error_for_an_unknown_name_says_of_what_and_reaches_another_process():
    with pytest.raises(UnknownName, match="did you mean bert") as error:
        benchmark("brt")
    sent = pickle.loads(pickle.dumps(error.value))
    for one in (error.value, sent):
        assert (one.kind, one.name) == ("benchmark", "brt")
        assert "resnet50" in one.known
    assert str(sent) == str(error.value)


CALLS = {
    "rule set": lambda name: workbench.rule_set(name),
    "cost model": lambda name: workbench.cost_model(name),
    "device": lambda name: workbench.costs.analytic.AnalyticCost(name),
    "extractor": workbench.extractor,
    "accelerator": unit,
    "search mode": SEARCH_MODES.__getitem__,
    "benchmark": benchmark,
    "family": branched,
    "architecture": demonstration,
    "exported architecture": architecture,
    "target": target,
}


@pytest.mark.parametrize("noun", CALLS)
@pytest.mark.parametrize("name", ["zzzzz", "default_", "t44", "bertt", "repvgk", "resnet19"])
def test_a_sentence_ends_before_the_list_of_names(noun, name):
    with pytest.raises(UnknownName) as error:
        CALLS[noun](name)
    before, there_are, names = str(error.value.args[0]).partition(" There are: ")
    assert there_are
    assert names
    assert before[-1] in ".?"
    assert repr(name) in before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: [1", "line 2: expected ',' or ']', but got the end"),
        ("a: 1\nb: c: d", "line 2: mapping values are not allowed here"),
        ("\t- x", "line 1: found character '\\t' that cannot start any token"),
        ("a: \x01", "unacceptable character #x0001: special characters are not allowed in"),
    ],
)
def test_the_line_comes_first(text, reason):
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load(text)
    assert yaml_reason(caught.value).startswith(reason)
    assert "\n" not in yaml_reason(caught.value)
