"""The laws of movement: recorded verdicts, and the tempting wrong versions of them."""

from pathlib import Path

import pytest

from workbench.rules import load_rules, rule_set
from workbench.rules.status import library, statuses
from workbench.verification.refuting.refute import search

RULES = load_rules(library() / "movement.rules")
WRONG = load_rules(Path(__file__).parent / "wrong_movement.rules")


@pytest.mark.parametrize("rule", WRONG, ids=lambda r: r.name)
def test_a_tempting_version_is_refuted(rule):
    found = search(rule, draws=400)
    assert found.counterexample is not None, f"{len(found.passed)} passed; {found.reason}"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_has_no_counterexample(rule):
    found = search(rule, draws=30, seed=11)
    assert found.counterexample is None, str(found.counterexample)
    assert len(found.passed) >= 10, found.reason


def test_each_is_known_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"proved", "tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert all(rule.provenance for rule in RULES)
