"""Derivations at drawn instances."""

import pytest

from workbench.laws.synthesis.coverage import Coverage
from workbench.laws.synthesis.samples import derived_at_samples
from workbench.rules import parse_rules

MERGED = (
    "merged: reshape[shape=(n, m)](reshape[shape=(n, a, b)](relu(x))) => relu(reshape[shape=(n, m)](x)) "
    "where rank(x) = 2, dim(x, -2) = n"
)
LAWS = parse_rules(
    "of-relu: reshape[shape=n](relu(x)) => relu(reshape[shape=n](x))\n"
    "twice: reshape[shape=m](reshape[shape=n](x)) => reshape[shape=m](x)"
)

pytestmark = pytest.mark.slow


def test_a_rule_with_a_product_of_unknowns_is_derived_at_instances():
    (rule,) = parse_rules(MERGED)
    assert derived_at_samples(rule, LAWS) >= 3
    assert derived_at_samples(rule, LAWS[1:]) == 0


def test_a_rule_with_a_generic_instance_is_not_drawn():
    (rule,) = parse_rules("twice: relu(relu(x)) => relu(x)")
    assert derived_at_samples(rule, [rule]) == 0


def test_coverage_says_at_how_many_instances():
    coverage = Coverage(parse_rules(MERGED), LAWS)
    assert coverage.derived == ["merged"]
    assert "drawn instances" in coverage.frame()["evidence"][0]
