"""The rules of branches: what they say, and the tempting wrong versions of them."""

import pytest

from workbench.rules import load_rules, parse_rule, parse_rules, rule_set
from workbench.rules.language import RuleSyntaxError
from workbench.rules.library import LEFT_OUT
from workbench.rules.pattern import format_rule
from workbench.rules.status import library, statuses
from workbench.verification.refuting.refute import search

RULES = load_rules(library() / "branches.rules")


def test_without_its_condition_on_sizes_a_sum_of_convolutions_is_wrong():
    # One of the two has a single output, which broadcasts over those of the other.
    law = format_rule(RULES["conv-sums-crossed"]).partition("  @")[0].partition(": ")[2]
    head, _, _ = law.partition(", (dim(x, -2)")
    (rule,) = parse_rule(f"sizes-forgotten: {head}")
    found = search(rule, draws=400)
    assert found.counterexample is not None, len(found.passed)


def test_each_is_known_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"proved", "tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert not set(LEFT_OUT["default"]) & {r.name for r in rule_set("default")}
    assert not rule_set("default").weights
    assert rule_set("tensat-like").weights


def test_every_rule_says_where_it_is_from():
    assert all(rule.provenance for rule in RULES)


# -- where a rule is of use -----------------------------------------------------------------------------
def test_use_is_read_and_written():
    text = "some: add(add(x, a), y) => add(add(x, y), a) "
    text += "where rank(a) = 1, constant(a), running(y), distinct(x, y)"
    (rule,) = parse_rule(text)
    assert (rule.constants, rule.running, rule.distinct) == (("a",), ("y",), (("x", "y"),))
    assert format_rule(rule) == text
    assert parse_rules(format_rule(rule)) == parse_rules(text)


@pytest.mark.parametrize(
    "where", ["constant(q)", "running(3)", "distinct(x)", "distinct(x, q)", "constant x"]
)
def test_a_use_that_makes_no_sense_is_reported(where):
    with pytest.raises(RuleSyntaxError, match="rule"):
        parse_rule(f"some: add(x, y) => add(y, x) where {where}")
