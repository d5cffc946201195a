"""Laws of tensor algebra: the search passes every true one and refutes every tempting wrong version."""

from pathlib import Path

import pytest

from workbench.rules import load_rules
from workbench.verification.refute import search

HERE = Path(__file__).parent

#: True laws that the search does not confirm, and why; wrong versions that it does not refute.
NOT_CONFIRMED = {
    "slack-below": "the small menu has no stride 2, without which no instance is typed: called empty",
}
NOT_REFUTED: dict[str, str] = {}


def rules(file, failing):
    """Return the rules of a file as parameters; those in ``failing`` are expected to fail."""
    for rule in load_rules(HERE / file):
        marks = [pytest.mark.xfail(strict=True, reason=failing[rule.name])] if rule.name in failing else []
        yield pytest.param(rule, marks=marks, id=rule.name)


@pytest.mark.parametrize("rule", rules("laws.rules", NOT_CONFIRMED))
def test_a_law_has_no_counterexample(rule):
    found = search(rule, draws=60)
    assert found.counterexample is None, f"{rule}: {found.counterexample}"
    assert len(found.passed) >= 20, found.reason


@pytest.mark.parametrize("rule", rules("wrong.rules", NOT_REFUTED))
def test_a_wrong_version_has_a_counterexample(rule):
    found = search(rule, draws=60)
    assert found.counterexample is not None, f"{rule}: {len(found.passed)} passed; {found.reason}"
