from hypothesis import given
from hypothesis import strategies as st

from workbench.saturation.expressions import Fact, Sym, arith, compare, floored

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
