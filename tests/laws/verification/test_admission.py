"""Rules of one's own are judged before they are applied, once per content."""

import pytest

from tests.ops.operators import registered
from workbench.laws.foreign.tensat_file import tensat_rules
from workbench.laws.verification import admission
from workbench.laws.verification.admission import (
    RefutedRuleKept,
    RefutedRules,
    judged,
    sound_rules,
    sound_set,
)
from workbench.laws.verification.refuting.refute import search
from workbench.rules import RuleSet, parse_rules, rule_set
from workbench.support import disk_cache

RIGHT = "right: add(x, y) => add(y, x)\n"
WRONG = "wrong: relu(x) => x\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKBENCH_RULE_CACHE", raising=False)
    monkeypatch.setattr(disk_cache, "_memory", type(disk_cache._memory)())


def rules(text, name="mine"):
    return RuleSet(name, tuple(parse_rules(text)))


def forbid(monkeypatch):
    def fail(*args, **options):
        raise AssertionError("judged again")

    monkeypatch.setattr(admission, "Verification", fail)


def test_right_rules_get_their_verdicts():
    found = judged(rules(RIGHT))
    assert found.verdicts == {"right": "tested"}
    assert [r.name for r in found] == ["right"]


@pytest.mark.slow
def test_refuted_rules_are_refused_with_the_counterexample():
    with pytest.raises(
        RefutedRules, match=r"mine must hold, got 1 refuted rule: wrong \(x\[\]: .* on the left"
    ):
        judged(rules(RIGHT + WRONG))
    with pytest.raises(ValueError, match="keep_refuted=True, --keep-refuted"):
        judged(rules(WRONG))


@pytest.mark.slow
def test_refuted_rules_are_kept_on_purpose_with_a_warning():
    with pytest.warns(RefutedRuleKept, match="rule wrong of mine is wrong but is applied nevertheless"):
        found = judged(rules(RIGHT + WRONG), keep_refuted=True)
    assert found.verdicts == {"right": "tested", "wrong": "refuted"}


@pytest.mark.slow
def test_a_verdict_is_found_once_per_content(monkeypatch):
    first = judged(rules(RIGHT)).verdicts
    forbid(monkeypatch)
    monkeypatch.setattr(disk_cache, "_memory", type(disk_cache._memory)())  # only the disk is left
    assert judged(rules(RIGHT)).verdicts == first
    with pytest.raises(AssertionError, match="judged again"):
        judged(rules(RIGHT.replace("add", "mul")))


def test_the_library_is_not_judged_again(monkeypatch):
    forbid(monkeypatch)
    assert len(judged(rule_set("merge"))) == len(rule_set("merge"))


@pytest.mark.slow
def test_a_verdict_belongs_to_a_definition():
    def twice(x):
        return 2 * x

    def scaled(x):
        return x + x + x

    law = "sum: add(x, x) => twice(x)\n"
    with registered(twice, exact=1):
        assert judged(rules(law)).verdicts == {"sum": "tested"}
    scaled.__name__ = "twice"
    with registered(scaled, exact=1), pytest.raises(RefutedRules, match="2 on the left, 3 on the right"):
        judged(rules(law))


@pytest.mark.slow
def test_what_the_clock_ended_is_not_kept(monkeypatch):
    monkeypatch.setattr(admission, "SECONDS", 1e-9)
    assert judged(rules(RIGHT)).verdicts == {"right": "unknown"}
    monkeypatch.setattr(admission, "SECONDS", 60.0)
    assert judged(rules(RIGHT)).verdicts == {"right": "tested"}


CONV = "conv2d[strides=(1, 1), pads=(p, q, p, q), dilations=(1, 1), groups=g, act=none]"
RULES = f"""
good: relu(relu(x)) => relu(x)
bad: relu(add(x, y)) => add(relu(x), relu(y))
dense: concat[axis=-3]({CONV}(x, w), {CONV}(x, v)) => {CONV}(x, concat[axis=-4](w, v))
"""


@pytest.mark.slow
def test_what_holds_in_a_region_is_guarded():
    sound = sound_rules(parse_rules(RULES))
    assert [r.name for r in sound.rules] == ["good", "dense"]
    assert sound.guarded == ("dense",)
    assert sound.dropped == ("bad",)
    assert "where g = 1" in str(sound.rules["dense"])
    assert search(sound.rules["dense"], 60).counterexample is None
    assert repr(sound).startswith("rules, sound: 2 of 3 rules are sound, 1 of them under a further")


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.nightly)])
def test_tensats_rules_made_sound(shared_data, every):
    published = tensat_rules(shared_data / "tensat")
    assert len(published) == 139
    chosen = [r for i, r in enumerate(published) if i % every == 0 or r.name == "tensat-multi-12"]
    sound = sound_rules(chosen)
    assert sound.dropped == ()
    merged = sound.rules["tensat-multi-12"]
    assert len(merged.conditions) > len(published["tensat-multi-12"].conditions)


@pytest.mark.slow
def test_a_sound_set_brings_its_verdicts_along():
    sound = sound_rules(parse_rules(RULES)).rules
    assert [sound.verdict(r) for r in sound] == ["tested", "tested"]
    assert list(sound.without("good").frame()["status"]) == ["tested"]
    assert (sound.select("good") + parse_rules("other: tanh(x) => tanh(x)")).verdicts == sound.verdicts


def test_the_sound_rules_of_a_file_are_judged_once(tmp_path, monkeypatch):
    file = tmp_path / "foreign.rules"
    file.write_text("\n".join(RULES.strip().splitlines()[:2]) + "\n")
    first = sound_set(file)
    assert first.rules
    monkeypatch.setattr(admission, "sound_rules", None)
    monkeypatch.setattr(disk_cache, "_memory", type(disk_cache._memory)())  # only the disk is left
    assert sound_set(file) == first
    file.write_text("another: relu(relu(x)) => relu(x)\n")
    with pytest.raises(TypeError):
        sound_set(file)
