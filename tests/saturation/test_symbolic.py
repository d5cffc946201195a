"""Type rules on symbolic extents become guards, and the expressions in them keep their values."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.rules import rule_set
from workbench.rules.interpret import ARITHMETIC, RELATIONS
from workbench.saturation.egglog_session import Base
from workbench.saturation.encoding import Encoding
from workbench.saturation.saturation import compile_rules
from workbench.saturation.symbolic import (
    NeverApplies,
    Sym,
    SymbolicTyping,
    SymType,
    arith,
    compare,
    equal_types,
    floored,
    opaque,
    sides,
)
from workbench.symbolic.integers import is_positive


def test_what_the_left_side_assumes_is_not_demanded_again():
    t = SymbolicTyping(Encoding(4))
    x, y = SymType("s_x_"), SymType("s_y_")
    t.require(t.rank(x) == 4, "")
    t.require(t.dim(x, -1) == t.dim(y, -1), "")
    t.assuming = False
    t.require(t.rank(x) == 4, "")
    t.require(t.dim(y, -1) == t.dim(x, -1), "")
    assert t.guards == []
    t.require(t.dim(y, -2) == 7, "")
    assert t.guards == ["(= (vec-get s_y_ 4) 7)"]
    with pytest.raises(NeverApplies):
        t.require(t.rank(x) == 3, "")


def test_broadcasting_with_itself_is_free():
    t = SymbolicTyping(Encoding(4), assuming=False)
    x = SymType("s_x_")
    assert t.text(t.broadcast(x, x)) == "s_x_"
    assert t.guards == []
    t.broadcast(x, SymType("s_y_"))
    assert len(t.guards) == 4


def test_constants_have_all_extents_and_the_element_type_given():
    t = SymbolicTyping(Encoding(4), assuming=False)
    x = SymType("s_x_")
    assert t.text(t.constant("float64", 2, 3)) == "(vec-of 11 2 1 1 2 3)"
    made = t.constant(t.get(x, 0), t.dim(x, -1))
    assert t.text(made) == "(vec-of (vec-get s_x_ 0) 1 1 1 1 (vec-get s_x_ 5))"
    assert t.guards == []
    t.constant("float32", opaque("n"))
    assert t.guards == ["(<= 1 n)"]
    with pytest.raises(NeverApplies, match="positive"):
        t.constant("float32", 0)
    with pytest.raises(NeverApplies, match="rank beyond"):
        t.constant("float32", 1, 1, 1, 1, 1)


def test_a_constant_of_a_shape_has_the_type_that_holds_the_shape():
    t = SymbolicTyping(Encoding(4))
    # On the left-hand side the vector is the constant's own type; elsewhere it may be another tensor's.
    assert t.text(t.constant_of_shape(opaque("a_d_"), opaque("a_s_"))) == "a_s_"
    t.assuming = False
    assert t.text(t.constant_of_shape(opaque("a_d_"), opaque("a_s_"))) == "a_s_"
    assert t.text(t.constant_of_shape("float32", opaque("a_s_"))) == "(vec-set a_s_ 0 1)"
    assert t.text(t.constant_of_shape("float32", (2, 3))) == "(vec-of 1 2 1 1 2 3)"
    assert t.guards == []


def test_element_types_without_zero_and_one_are_guarded_against():
    t = SymbolicTyping(Encoding(4), assuming=False)
    t.require_number(t.constant(opaque("d"), 2))
    assert t.guards == ["(!= 8 d)", "(!= 24 d)"]
    t.require_number(t.constant("int64", 2))
    with pytest.raises(NeverApplies):
        t.require_number(t.constant("float8e8m0", 2))
    t = SymbolicTyping(Encoding(4))
    t.require_float(SymType("s_x_"))
    t.assuming = False
    t.require_number(SymType("s_x_"))
    assert t.guards == []


def test_variables_are_compared_by_a_test_and_expressions_as_they_are():
    assert equal_types("s_x_", "s_y_") == "(= s_x_ (vec-append s_y_))"
    assert equal_types("s_x_", "(vec-of 0 1 3)") == "(= s_x_ (vec-of 0 1 3))"
    assert equal_types("(vec-of 0 1 3)", "s_x_") == "(= (vec-of 0 1 3) s_x_)"


@pytest.mark.parametrize(("second", "found"), [("(vec-of 1 2)", 1), ("(vec-of 1 3)", 0), ("(vec-of 1)", 0)])
def test_a_test_holds_for_equal_types_alone(second, found):
    base = Base("(sort T) (sort VI (Vec i64)) (function ty_ (T) VI :no-merge) (constructor f (i64) T)")
    base.begin({})
    facts = f"(= x_ (f 1)) (= y_ (f 2)) (= s_x_ (ty_ x_)) (= s_y_ (ty_ y_)) {equal_types('s_x_', 's_y_')}"
    base.include(
        f"(set (ty_ (f 1)) (vec-of 1 2)) (set (ty_ (f 2)) {second}) (relation same (T T))"
        f'(ruleset r_) (rule ({facts}) ((same x_ y_)) :ruleset r_ :name "r")'
    )
    base.run("(run r_ 1)")
    (output,) = base.run("(print-size same)")
    assert output.size == found


def test_no_rule_of_the_library_joins_by_types():
    rules = compile_rules(rule_set("default"), Encoding(4), True)
    joined = [c.rule.name for c in rules if re.search(r"\(= s_\w+ s_\w+\)", c.text)]
    assert joined == []
    assert sum("vec-append" in c.text for c in rules) > 20


# -- expressions ------------------------------------------------------------------------------------------
NAMES = "abc"


def evaluate(text, values):
    """Evaluate an integer expression as egglog does: quotients are rounded towards zero."""
    tokens = str(text).replace("(", " ( ").replace(")", " ) ").split()

    def parse():
        token = tokens.pop(0)
        if token != "(":
            return values[token] if token in values else int(token)
        operator, left, right = tokens.pop(0), parse(), parse()
        tokens.pop(0)
        if operator in ("/", "%"):
            quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
            return quotient if operator == "/" else left - right * quotient
        return ARITHMETIC[operator](left, right)

    return parse()


expressions = st.recursive(
    st.one_of(st.integers(-3, 5), st.sampled_from(NAMES)),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "max", "min"]), inner, inner),
    max_leaves=8,
)


def build(tree):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return opaque(tree, positive=True)
    return arith(tree[0], build(tree[1]), build(tree[2]))


def value_of(tree, values):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    return ARITHMETIC[tree[0]](value_of(tree[1], values), value_of(tree[2], values))


@given(expressions, st.tuples(*[st.integers(1, 9)] * 3))
def test_simplification_keeps_the_value(tree, numbers):
    values = dict(zip(NAMES, numbers, strict=True))
    built = build(tree)
    expected = value_of(tree, values)
    assert (built if isinstance(built, int) else evaluate(built, values)) == expected
    if isinstance(built, Sym) and is_positive(built.x):
        assert expected >= 1


@given(
    expressions,
    expressions,
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.tuples(*[st.integers(1, 9)] * 3),
)
def test_a_decided_comparison_is_right(left, right, relation, numbers):
    values = dict(zip(NAMES, numbers, strict=True))
    decided = compare(relation, build(left), build(right))
    truth = RELATIONS[relation](value_of(left, values), value_of(right, values))
    if isinstance(decided, bool):
        assert decided == truth
    else:
        again, *both = sides(decided)
        assert RELATIONS[again](*(evaluate(side, values) for side in both)) == truth


def test_facts_have_one_spelling():
    a, b = opaque("a"), opaque("b")
    assert sides(a == b) == sides(b == a) == sides(2 * a + 1 == a + b + 1) == ("=", a, b)
    assert sides(a > b) == sides(b < a) == ("<", b, a)
    assert sides(a >= b) == sides(b - a <= 0) == ("<=", b, a)


@given(st.integers(-30, 30), st.integers(-7, 7).filter(bool), st.sampled_from(["//", "%"]))
def test_quotients_are_rounded_down(left, right, sign):
    expected = left // right if sign == "//" else left % right
    assert evaluate(floored(sign, opaque("a"), opaque("b")), {"a": left, "b": right}) == expected
    assert evaluate(floored(sign, opaque("a"), right), {"a": left}) == expected
    assert evaluate(floored(sign, left, opaque("b")), {"b": right}) == expected
    if left > 0 < right:
        extents = opaque("a", positive=True), opaque("b", positive=True)
        assert floored(sign, *extents).text == arith(sign, *extents).text
