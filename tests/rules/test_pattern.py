import pytest

from workbench.ops import TensorType
from workbench.rules import parse_rule, parse_rules, rule_set
from workbench.rules.pattern import (
    Arith,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    canonical,
    format_condition,
    format_expr,
    format_term,
    joined_axes,
    measured,
    names_in,
    off_axis,
    parts,
    starred,
    subterms,
    symmetric,
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


def kind(*shape):
    return TensorType("float32", shape)


@pytest.mark.parametrize(
    ("name", "axes"),
    [("merge-matmuls", {"w": -1}), ("merge-convs", {"w": -4}), ("merge-affine", {"w": -1, "b": -1})],
)
def test_every_starred_operand_is_joined_along_its_axis(name, axes):
    rule = rule_set("merge")[name]
    assert joined_axes(rule) == axes
    assert set(starred(rule)) == set(axes)


def test_starred_variables_appear_once_and_in_order():
    (rule,) = parse_rule(
        "m: each add(mul(x, b*), add(a*, b*)) => "
        "slice[axis=-1](add(mul(x, concat[axis=-1](b*)), add(concat[axis=-2](a*), concat[axis=-1](b*))))"
    )
    assert starred(rule) == ("b", "a")
    assert joined_axes(rule) == {"b": -1, "a": -2}


def test_members_agree_off_the_axis():
    assert off_axis(kind(2, 3, 4), -2) == off_axis(kind(2, 7, 4), -2)
    assert off_axis(kind(2, 3, 4), -2) != off_axis(kind(2, 3, 5), -2)
    assert off_axis(kind(3), -1) != off_axis(TensorType("float64", (3,)), -1)
    # An axis before the first has extent 1 in every tensor of this rank.
    assert off_axis(kind(3), -2) == ("float32", (3,))
    assert off_axis(kind(3), -2) != off_axis(kind(1, 3), -2)


def test_parts_follow_each_other_along_the_axis():
    found = parts([kind(2, 4), kind(2, 6), kind(2, 1)], -1)
    assert [(p["start"], p["stop"]) for p in found] == [(0, 4), (4, 10), (10, 11)]
    assert {p["axis"] for p in found} == {-1}
    with pytest.raises(IndexError):
        parts([kind(2)], -2)


def rule(text):
    (found,) = parse_rule(f"r: {text}")
    return found


def test_renamings_have_one_canonical_form():
    one = rule("matmul[c, act=a](x, w) => matmul[c, act=a](x, w) where dim(x, -1) = dim(w, -2)")
    two = rule("matmul[d, act=b](y, v) => matmul[d, act=b](y, v) where dim(y, -1) = dim(v, -2)")
    assert canonical(one.sources, one.conditions) == canonical(two.sources, two.conditions)
    other = rule("matmul[d, act=b](y, y) => matmul[d, act=b](y, y) where dim(y, -1) = dim(y, -2)")
    assert canonical(one.sources, one.conditions) != canonical(other.sources, other.conditions)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("matmul(x, w) ; matmul(x, v) => matmul(x, w) ; matmul(x, v)", True),
        ("matmul(x, w) ; matmul(w, v) => matmul(x, w) ; matmul(w, v)", False),
        ("relu(x) ; relu(y) => relu(x) ; relu(y) where dim(x, -1) <= dim(y, -1)", False),
        ("relu(x) ; relu(y) => relu(x) ; relu(y) where rank(x) = 2, rank(y) = 2", True),
        ("relu(relu(x)) => relu(x)", False),
    ],
)
def test_exchanging_two_sources(law, expected):
    assert symmetric(rule(law)) is expected


def test_a_second_source_is_needed():
    assert not any(symmetric(r) for r in parse_rules("a: add(x, y) <=> add(y, x)"))
