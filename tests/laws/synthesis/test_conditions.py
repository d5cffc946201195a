"""Extents in laws: numbers of an equation become expressions, and conditions are proposed."""

import pytest

from workbench.laws.synthesis.conditions import bound_extents, expression, extents_of, fixed_extents, ranks
from workbench.rules import parse_rule
from workbench.rules.pattern import AttrVar, DimOf, format_condition

SHAPES = {"x": ("m", "n"), "t": ("m", "1"), "s": ()}
SIZES = {"m": 3, "n": 4}


def shown(conditions):
    return [format_condition(c) for c in conditions]


def rule(text):
    return parse_rule(f"law: {text}")[0]


def test_extents_of_operands_become_numbers():
    assert list(extents_of(["x", "t"], SHAPES, SIZES)) == [
        (3, DimOf("x", -2)),
        (4, DimOf("x", -1)),
        (3, DimOf("t", -2)),
        (1, DimOf("t", -1)),
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(3, "c"), (12, "c * a"), (1, "1"), (2, "dim(x, -1) // c"), (7, None)]
)
def test_a_number_is_a_known_one_or_a_product_or_a_quotient(value, text):
    found = expression(value, [(3, AttrVar("c")), (4, AttrVar("a")), (6, DimOf("x", -1))])
    if text is None:
        assert found is None
    else:
        law = rule(f"reshape[shape=(c, a)](x) => reshape[shape=(c, a)](x) where 0 = {text}")
        assert found == law.conditions[0].right


def test_conditions_say_what_the_grammar_fixes():
    law = rule("mul(add(x, t), s) => add(mul(x, s), mul(t, s))")
    assert shown(fixed_extents(law, SHAPES)) == ["rank(s) = 0", "dim(t, -1) = 1"]
    assert shown(ranks(law, SHAPES)) == ["rank(x) = 2", "rank(t) = 2", "rank(s) = 0"]


def test_variables_in_shapes_may_be_extents_of_operands():
    law = rule("reshape[shape=(n, k)](x) => reshape[shape=(n, k)](reshape[shape=(k, n)](x))")
    assert shown(bound_extents({"n": 4, "k": 5}, law, SHAPES, SIZES)) == ["n = dim(x, -1)"]
