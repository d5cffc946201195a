"""Derivability: laws read both ways make two terms equal in an e-graph, or do not."""

import pytest

from workbench.laws.synthesis.derivation import Coverage, backwards, derivable, grounded, instances, readable
from workbench.laws.synthesis.grammar import Grammar
from workbench.ops import TensorType
from workbench.rules import parse_rules
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_term


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


GRAMMAR = Grammar.of(
    "relu transpose[perm=(1, 0)] concat[axis=-1] concat[axis=-2] concat[axis=-3]", "matrix: 2"
)
TYPES = {o.name: o.type(GRAMMAR.sizes[0]) for o in GRAMMAR.operands}


def texts(rules):
    return [str(r).partition(": ")[2] for r in rules]


def law(text):
    return parse_rules(f"law: {text}")[0]


def test_an_attribute_takes_the_values_of_the_forms():
    rule = law("concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))")
    found = grounded(rule, GRAMMAR.forms, GRAMMAR.sizes[0])
    assert [t.partition(" =>")[0] for t in texts(found)] == [
        f"concat[axis={n}](relu(x), relu(y))" for n in (-1, -2, -3)
    ]


def test_conditions_on_attributes_choose_instances_and_are_gone():
    rule = law(
        "concat[axis=b](concat[axis=a](x, y), z) => concat[axis=b](concat[axis=a](x, y), z) where a != b"
    )
    found = grounded(rule, GRAMMAR.forms, GRAMMAR.sizes[0])
    assert len(found) == 6
    assert not any(r.conditions for r in found)


def test_conditions_on_extents_stay():
    grammar = Grammar.of("concat[axis=-1] slice[axis=-1, start=0, stop=n]", "matrix: 2")
    rule = law("slice[axis=a, start=0, stop=b](concat[axis=a](x, y)) => x where b = dim(x, a)")
    (found,) = grounded(rule, grammar.forms, grammar.sizes[0])
    assert [str(c) for c in found.conditions] != []
    types = {o.name: o.type(grammar.sizes[0]) for o in grammar.operands}
    assert len(instances(rule, grammar, types)) == 1
    wide = {**types, "x": type(types["x"])("float32", (3, 7))}
    assert instances(rule, grammar, wide) == []


def test_only_well_typed_instances_count():
    rule = law("concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))")
    found = [format_term(a) for a, _ in instances(rule, GRAMMAR, TYPES)]
    assert found == ["concat[axis=-1](relu(x), relu(y))", "concat[axis=-2](relu(x), relu(y))"]


@pytest.mark.parametrize("both", [True, False])
def test_a_law_with_an_expression_on_the_right_is_readable_by_instances(both):
    text = "concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))"
    if not both:
        text = (
            "concat[axis=a](transpose[perm=p](x), transpose[perm=p](y))"
            " => transpose[perm=p](concat[axis=p[a]](x, y))"
        )
    found = readable([law(text)], GRAMMAR)
    assert (found == []) == both
    assert all(r.sources[0].op == "transpose" for r in found)
