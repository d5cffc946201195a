import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.saturation.encoding import Encoding
from workbench.saturation.symbolic import (
    Fact,
    NeverApplies,
    Sym,
    SymbolicTyping,
    SymType,
    arith,
    compare,
    floored,
)

NAMES = "abc"


def evaluate(text, values):
    """Evaluate an egglog integer expression."""
    tokens = str(text).replace("(", " ( ").replace(")", " ) ").split()

    def parse():
        token = tokens.pop(0)
        if token != "(":
            return values[token] if token in values else int(token)
        operator, left, right = tokens.pop(0), parse(), parse()
        tokens.pop(0)
        return {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "/": left // right if right else 0,
            "%": left % right if right else 0,
            "max": max(left, right),
            "min": min(left, right),
        }[operator]

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
        return Sym(tree, positive=True)
    return arith(tree[0], build(tree[1]), build(tree[2]))


def value_of(tree, values):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    a, b = value_of(tree[1], values), value_of(tree[2], values)
    return {"+": a + b, "-": a - b, "*": a * b, "max": max(a, b), "min": min(a, b)}[tree[0]]


@given(expressions, st.tuples(*[st.integers(1, 9)] * 3))
def test_simplification_keeps_the_value(tree, numbers):
    values = dict(zip(NAMES, numbers, strict=True))
    built = build(tree)
    expected = value_of(tree, values)
    assert (built if isinstance(built, int) else evaluate(built, values)) == expected
    if isinstance(built, Sym) and built.positive:
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
    a, b = value_of(left, values), value_of(right, values)
    truth = {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[relation]
    if isinstance(decided, bool):
        assert decided == truth
    else:
        sides = [s if isinstance(s, int) else evaluate(s, values) for s in (decided.left, decided.right)]
        again = {"=": sides[0] == sides[1], "!=": sides[0] != sides[1]}
        again |= {"<": sides[0] < sides[1], "<=": sides[0] <= sides[1]}
        assert again[decided.relation] == truth


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
    t.constant("float32", Sym("n"))
    assert t.guards == ["(<= 1 n)"]
    with pytest.raises(NeverApplies, match="positive"):
        t.constant("float32", 0)
    with pytest.raises(NeverApplies, match="rank beyond"):
        t.constant("float32", 1, 1, 1, 1, 1)


def test_a_constant_of_a_shape_has_the_type_that_holds_the_shape():
    t = SymbolicTyping(Encoding(4))
    # On the left-hand side the vector is the constant's own type; elsewhere it may be another tensor's.
    assert t.text(t.constant_of_shape(Sym("a_d_"), Sym("a_s_"))) == "a_s_"
    t.assuming = False
    assert t.text(t.constant_of_shape(Sym("a_d_"), Sym("a_s_"))) == "a_s_"
    assert t.text(t.constant_of_shape("float32", Sym("a_s_"))) == "(vec-set a_s_ 0 1)"
    assert t.text(t.constant_of_shape("float32", (2, 3))) == "(vec-of 1 2 1 1 2 3)"
    assert t.guards == []


def test_element_types_without_zero_and_one_are_guarded_against():
    t = SymbolicTyping(Encoding(4), assuming=False)
    t.require_number(t.constant(Sym("d"), 2))
    assert t.guards == ["(!= 8 d)", "(!= 24 d)"]
    t.require_number(t.constant("int64", 2))
    with pytest.raises(NeverApplies):
        t.require_number(t.constant("float8e8m0", 2))
    t = SymbolicTyping(Encoding(4))
    t.require_float(SymType("s_x_"))
    t.assuming = False
    t.require_number(SymType("s_x_"))
    assert t.guards == []


def test_facts_have_one_spelling():
    a, b = Sym("a"), Sym("b")
    assert compare("=", a, b) == compare("=", b, a)
    assert isinstance(compare("=", a, b), Fact)


def towards_zero(text, values):
    """Evaluate an egglog expression as the engine does: quotients are rounded towards zero."""
    tokens = str(text).replace("(", " ( ").replace(")", " ) ").split()

    def parse():
        token = tokens.pop(0)
        if token != "(":
            return values[token] if token in values else int(token)
        operator, left, right = tokens.pop(0), parse(), parse()
        tokens.pop(0)
        if operator in "+-*":
            return {"+": left + right, "-": left - right, "*": left * right}[operator]
        quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
        return quotient if operator == "/" else left - right * quotient

    return parse()


@given(st.integers(-30, 30), st.integers(-7, 7).filter(bool), st.sampled_from(["//", "%"]))
def test_quotients_are_rounded_down(left, right, sign):
    expected = left // right if sign == "//" else left % right
    assert towards_zero(floored(sign, Sym("a"), Sym("b")), {"a": left, "b": right}) == expected
    assert towards_zero(floored(sign, Sym("a"), right), {"a": left}) == expected
    assert towards_zero(floored(sign, left, Sym("b")), {"b": right}) == expected
    if left > 0 < right:
        extents = Sym("a", positive=True), Sym("b", positive=True)
        assert floored(sign, *extents).text == arith(sign, *extents).text
