"""Laws of tensor algebra: the search passes every true one and refutes every tempting wrong version."""

from pathlib import Path

import pytest

from workbench.rules import load_rules
from workbench.verification.refute import search

HERE = Path(__file__).parent
LAWS = load_rules(HERE / "laws.rules")
WRONG = load_rules(HERE / "wrong.rules")


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_a_law_has_no_counterexample(rule):
    found = search(rule, draws=60)
    assert found.counterexample is None, f"{rule}: {found.counterexample}"
    assert len(found.passed) >= 20, found.reason


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_wrong_version_has_a_counterexample(rule):
    found = search(rule, draws=60)
    assert found.counterexample is not None, f"{rule}: {len(found.passed)} passed; {found.reason}"
