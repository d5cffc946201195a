"""Derivability: laws read both ways make two terms equal in an e-graph, or do not."""

import pytest

from workbench.laws.synthesis.derivation import Coverage, backwards, derivable
from workbench.ops import TensorType
from workbench.rules import parse_rules
from workbench.rules.language import parse_term


def test_terms_are_derived_from_laws_read_both_ways():
    types = {n: TensorType("float32", (3, 3)) for n in "xyz"}
    laws = parse_rules("commutes: add(x, y) => add(y, x)\nassociates: add(add(x, y), z) => add(x, add(y, z))")
    pairs = [
        ("add(x, add(y, z))", "add(z, add(y, x))"),
        ("add(x, x)", "add(x, y)"),
        ("relu(add(x, y))", "relu(add(y, x))"),
    ]
    terms = [(parse_term(a), parse_term(b)) for a, b in pairs]
    assert derivable(terms, types, laws) == [True, False, True]
    assert derivable(terms, types, []) == [False, False, False]


def test_a_law_that_forgets_a_variable_is_not_read_backwards():
    first, second = parse_rules(
        "part: slice[axis=a, start=0, stop=b](concat[axis=a](x, y)) => x where b = dim(x, a)\n"
        "twice: relu(relu(x)) => relu(x)"
    )
    assert backwards(first) is None
    assert str(backwards(second)) == "twice-back: relu(x) => relu(relu(x))"


def test_conditions_are_kept_if_the_other_side_binds_their_variables():
    (rule,) = parse_rules("pad: add(x, y) => add(y, x) where dim(x, -1) = dim(y, -1)")
    assert backwards(rule).conditions == rule.conditions


MERGED = (
    "merged: reshape[shape=(n, m)](reshape[shape=(n, a, b)](relu(x))) => relu(reshape[shape=(n, m)](x)) "
    "where rank(x) = 2, dim(x, -2) = n"
)
LAWS = parse_rules(
    "of-relu: reshape[shape=n](relu(x)) => relu(reshape[shape=n](x))\n"
    "twice: reshape[shape=m](reshape[shape=n](x)) => reshape[shape=m](x)"
)


@pytest.mark.slow
def test_a_rule_with_a_product_of_unknowns_is_derived_at_instances():
    coverage = Coverage(parse_rules(MERGED), LAWS)
    assert coverage.derived == ["merged"]
    assert coverage.sampled["merged"] >= 3
    assert coverage.used == ["of-relu", "twice"]
    assert "drawn instances" in coverage.frame()["evidence"][0]
    assert Coverage(parse_rules(MERGED), LAWS[1:]).named("not derived") == ["merged"]


@pytest.mark.slow
def test_a_rule_with_a_generic_instance_is_not_drawn():
    (rule,) = parse_rules("twice: relu(relu(x)) => relu(x)")
    assert Coverage([rule], [rule]).sampled == {}
