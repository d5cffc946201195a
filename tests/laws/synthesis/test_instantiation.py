"""Instances of laws in a grammar: attributes get the values of its forms; instances are well-typed."""

import pytest

from workbench.laws.synthesis.grammar import Grammar
from workbench.laws.synthesis.instantiation import grounded, instances, readable
from workbench.rules import parse_rules
from workbench.rules.pattern import format_term

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
