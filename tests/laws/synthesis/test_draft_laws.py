"""Laws of movement that people drafted are derived from laws that a synthesis finds without them."""

from pathlib import Path

import pytest

from workbench.laws.synthesis import Coverage, Synthesis, known_to, read_grammar
from workbench.laws.verification.evidence import Effort
from workbench.rules import parse_rules, rule_set

ROOT = Path(__file__).parents[3]
GRAMMARS = ROOT / "rules" / "grammars"
DRAFTS = parse_rules((ROOT / "experiments" / "draft-laws.rules").read_text())
#: The grammar of each draft law that is found.
FOUND = {
    "m01": "resize",
    "m02": "resize-sums",
    "m03": "resize-sums",
    "m04": "resize",
    "m08": "slice",
    "m09": "heads",
    "m10": "softmax",
    "m11": "repeat",
}


def number(rule):
    return rule.name.partition("-")[0]


def known(grammar):
    return known_to(grammar, rule_set("default"), without={"movement", "quantised"})


def test_there_are_twelve_drafts_and_eight_or_more_are_found():
    assert {number(rule) for rule in DRAFTS} == {f"m{i:02}" for i in range(1, 13)}
    assert len(FOUND) >= 8


@pytest.mark.slow
def test_what_is_known_implies_none_of_the_drafts_as_a_whole():
    for name in sorted(set(FOUND.values())):
        laws = known(read_grammar(GRAMMARS / f"{name}.yaml"))
        drafts = [rule for rule in DRAFTS if FOUND.get(number(rule)) == name]
        derived = Coverage(drafts, laws).derived if laws else []
        for draft in {number(rule) for rule in drafts}:
            assert not {rule.name for rule in drafts if number(rule) == draft} <= set(derived)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(FOUND.values())))
def test_the_laws_of_a_grammar_imply_its_drafts(name):
    grammar = read_grammar(GRAMMARS / f"{name}.yaml")
    effort = Effort(chain=0, draws=60, seconds=120.0)
    synthesis = Synthesis(grammar, known(grammar), seconds=1500.0, effort=effort)
    synthesis.run()
    drafts = [rule for rule in DRAFTS if FOUND.get(number(rule)) == name]
    assert synthesis.covers(drafts).derived == [rule.name for rule in drafts]


@pytest.mark.slow
def test_a_rule_without_a_generic_instance_is_derived_at_drawn_ones():
    (heads,) = [rule for rule in DRAFTS if number(rule) == "m09"]
    assert Coverage([heads], [heads]).sampled[heads.name] > 2
    assert Coverage([heads], parse_rules("twice: relu(relu(x)) => relu(x)")).named("not derived") == [
        heads.name
    ]
