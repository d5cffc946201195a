import pytest

from workbench.laws.foreign.tensat_file import tensat_rules
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.sound import sound_rules
from workbench.rules import parse_rules

CONV = "conv2d[strides=(1, 1), pads=(p, q, p, q), dilations=(1, 1), groups=g, act=none]"
RULES = f"""
good: relu(relu(x)) => relu(x)
bad: relu(add(x, y)) => add(relu(x), relu(y))
dense: concat[axis=-3]({CONV}(x, w), {CONV}(x, v)) => {CONV}(x, concat[axis=-4](w, v))
"""


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
def test_tensats_rules_made_sound(shared_data):
    published = tensat_rules(shared_data / "tensat")
    sound = sound_rules(published)
    assert len(published) == 139
    assert sound.dropped == ()
    merged = sound.rules["tensat-multi-12"]
    assert len(merged.conditions) > len(published["tensat-multi-12"].conditions)


@pytest.mark.slow
def test_a_sound_set_brings_its_verdicts_along():
    sound = sound_rules(parse_rules(RULES)).rules
    assert [sound.verdict(r) for r in sound] == ["tested", "tested"]
    assert list(sound.without("good").frame()["status"]) == ["tested"]
    assert (sound.select("good") + parse_rules("other: tanh(x) => tanh(x)")).verdicts == sound.verdicts
