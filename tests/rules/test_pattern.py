import pytest

from workbench.rules import parse_rule
from workbench.rules.pattern import (
    Arith,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    format_condition,
    format_expr,
    format_term,
    measured,
    names_in,
    subterms,
    tensor_variables,
)

LAW = "pair: matmul[c, act=a](x, w) ; relu(x) => relu(matmul[c](x, w)) ; relu(x) where dim(w, -1) = 2  @ own"


def test_a_rule_prints_as_its_law():
    (rule,) = parse_rule(LAW)
    assert str(rule) == LAW.replace("[c, act=a]", "[act=a, c]")
    assert parse_rule(str(rule)) == [rule]
    assert format_term(rule.targets[0]) == "relu(matmul[c](x, w))"


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Arith("-", AttrVar("a"), Arith("-", AttrVar("b"), AttrVar("c"))), "a - (b - c)"),
        (Arith("-", Arith("-", AttrVar("a"), AttrVar("b")), AttrVar("c")), "a - b - c"),
        (Arith("*", Arith("+", AttrVar("a"), Literal(1)), DimOf("x", -2)), "(a + 1) * dim(x, -2)"),
        (Arith("max", Literal((1, 2)), AttrVar("p")), "max((1, 2), p)"),
    ],
)
def test_expressions_have_no_more_parentheses_than_they_need(expr, text):
    assert format_expr(expr) == text
    assert format_condition(Compare("!=", expr, Literal(0))) == f"{text} != 0"


def test_what_a_term_names():
    (rule,) = parse_rule(LAW)
    assert tensor_variables(rule.sources[0]) == ["x", "w"]
    assert [getattr(t, "op", "") for t in subterms(rule.targets[0])] == ["", "", "matmul", "relu"]
    (condition,) = rule.conditions
    assert measured(condition) == ["w"]
    assert list(names_in(Arith("+", AttrVar("n"), DimOf("x", -1)))) == [("attr", "n"), ("tensor", "x")]
    assert rule.multi
    assert rule.contextual
