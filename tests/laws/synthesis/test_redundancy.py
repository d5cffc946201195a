"""Rules that the other rules of a set imply are reported, with the rules that suffice."""

import json

import pytest

from workbench.laws.synthesis import redundancy
from workbench.laws.synthesis.redundancy import digest, examine, main, near, redundant, table
from workbench.rules import parse_rules
from workbench.rules.verdicts import law_of

RULES = parse_rules(
    "commutes: add(x, y) => add(y, x)\n"
    "right: matmul(x, add(y, z)) <=> add(matmul(x, y), matmul(x, z))\n"
    "swapped: matmul(x, add(y, z)) => add(matmul(x, z), matmul(x, y))\n"
    "twice: relu(relu(x)) => relu(x)\n"
)
NAMED = {r.name: r for r in RULES}


def test_only_rules_of_the_operators_in_question_are_near():
    assert {r.name for r in near(NAMED["commutes"], RULES)} == {"commutes"}
    assert "twice" not in {r.name for r in near(NAMED["swapped"], RULES)}


@pytest.mark.slow
def test_a_rule_that_the_others_imply_is_derived_and_its_other_direction_does_not_count():
    found = {rule.name: redundant(rule, RULES) for rule in RULES}
    assert {n: one.outcome for n, one in found.items()} == {
        "commutes": "independent",
        "right": "derived",
        "right-back": "derived",
        "swapped": "derived",
        "twice": "independent",
    }
    assert {n.removesuffix("-back") for n in found["swapped"].used} == {"right", "commutes"}
    assert found["swapped"].cases > 1


def test_an_earlier_outcome_is_kept_unless_the_set_has_changed(monkeypatch):
    asked = []

    def decide(rule, rules):
        asked.append(rule.name)
        return redundancy.Redundant(rule.name, "independent")

    monkeypatch.setattr(redundancy, "redundant", decide)
    *_, first = kept = list(examine(RULES, {}, 60.0))
    assert asked == list(NAMED)
    assert len(kept) == len(RULES) + 1
    assert list(examine(RULES, first, 60.0)) == [first]
    assert len(asked) == len(RULES)
    list(examine(RULES[:-1], first, 60.0))
    assert len(asked) == 2 * len(RULES) - 1
    assert digest(RULES) != digest(RULES[:-1])


def test_a_run_without_time_decides_nothing(monkeypatch):
    monkeypatch.setattr(redundancy, "redundant", lambda *given: pytest.fail("too late"))
    assert list(examine(RULES, {}, -1.0)) == [{}]


def test_the_table_counts_outcomes_and_names_the_rules():
    found = {
        "swapped": {"outcome": "derived", "used": ["right", "commutes"], "steps": 2},
        "twice": {"outcome": "independent", "used": [], "steps": 0},
    }
    text = table(RULES, found)
    assert "2 of 5 default rules asked: 1 derived, 1 independent, 0 open" in text
    assert "| swapped | derived | right, commutes | 2 |" in text


def test_the_command_writes_a_record_and_a_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(redundancy, "rule_set", lambda name: RULES)
    monkeypatch.setattr(redundancy, "redundant", lambda rule, rules: redundancy.Redundant(rule.name, "open"))
    main(["--folder", str(tmp_path)])
    record = json.loads((tmp_path / "redundancy.json").read_text())
    assert record["twice"]["law"] == law_of(NAMED["twice"])
    assert "5 open" in (tmp_path / "redundancy.md").read_text()
    with pytest.raises(SystemExit):
        main(["--seconds", "0"])
