import warnings

import pytest

from workbench.optimizer.stages import rules_of
from workbench.rules import RuleSet, parse_rules, rule_set
from workbench.verification.screening import RefutedRule, refuted, warn_of_refuted

LAWS = "right: add(x, y) => add(y, x)\nwrong: relu(x) => x\n"


def test_a_wrong_rule_is_found_and_a_right_one_is_not():
    found = refuted(RuleSet("mine", tuple(parse_rules(LAWS))))
    assert list(found) == ["wrong"]
    assert "on the left" in found["wrong"]


def test_rules_with_a_verdict_are_not_looked_at(monkeypatch):
    monkeypatch.setattr("workbench.verification.screening.screen", lambda *a: pytest.fail("looked at"))
    assert refuted(rule_set("merge")) == {}


def test_a_file_with_a_wrong_rule_is_warned_of_when_it_is_read(tmp_path):
    path = tmp_path / "mine.rules"
    path.write_text(LAWS)
    with pytest.warns(RefutedRule, match="rule wrong of .*mine.rules is wrong but is applied nevertheless"):
        assert len(rules_of(str(path))) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_refuted(rules_of("merge"))
