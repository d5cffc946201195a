"""Normal forms of integers agree with integers."""

import itertools
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.symbolic.integers import (
    FALSE,
    TRUE,
    NotPositive,
    at_least,
    both,
    broadcast,
    choose,
    div,
    either,
    equal,
    is_positive,
    largest,
    lower,
    negated,
    num,
    parsed,
    quotient,
    replaced,
    replaced_in,
    smallest,
    sub,
    sym,
    symbols,
    written,
)

G, H, Q, X = sym("+g"), sym("+h"), sym("+q"), sym("i")
B, S = sym("batch"), sym("sequence")
VALUES = st.fixed_dictionaries({"+g": st.integers(1, 9), "+h": st.integers(1, 9), "i": st.integers(-9, 9)})
OPERATORS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
RELATIONS = {at_least: operator.ge, equal: operator.eq}


def made(parts):
    """Return an integer or a condition, and what it is at given values, from operators drawn at random."""
    kind, *args = parts
    if kind == "leaf":
        return args[0], args[0].at
    xs, at = zip(*map(made, args[1:]), strict=True)
    op = args[0]
    if kind == "relation":
        return op(*xs), lambda v: RELATIONS[op](*(f(v) for f in at))
    if kind == "choice":
        return choose(*xs), lambda v: at[1](v) if at[0](v) else at[2](v)
    if kind == "extreme":
        return (largest if op is max else smallest)(*xs), lambda v: op(f(v) for f in at)
    if op in (operator.floordiv, operator.mod) and not is_positive(xs[1]):
        return xs[0], at[0]
    return op(*xs), lambda v: op(at[0](v), at[1](v))


LEAVES = st.tuples(st.just("leaf"), st.sampled_from([G, H, X, *map(num, range(-3, 5)), G * 2, G * H, H + 3]))
INTEGERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("binary"), st.sampled_from(OPERATORS), inner, inner),
        st.tuples(st.just("extreme"), st.sampled_from((max, min)), inner, inner),
        st.tuples(
            st.just("choice"),
            st.none(),
            st.tuples(st.just("relation"), st.sampled_from(list(RELATIONS)), inner, inner),
            inner,
            inner,
        ),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(INTEGERS, VALUES)
def test_every_operation_is_that_on_numbers(parts, values):
    x, at = made(parts)
    assert x.at(values) == at(values)
    assert replaced(x, {n: num(v) for n, v in values.items()}) == num(at(values))
    low = lower(x)
    assert low is None or low <= at(values)
    assert symbols(x) <= values.keys()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(INTEGERS, INTEGERS, VALUES)
def test_conditions_are_those_on_numbers(left, right, values):
    (x, a), (y, b) = made(left), made(right)
    more, same = at_least(x, y), equal(x, y)
    facts = {more: a(values) >= b(values), same: a(values) == b(values)}
    facts |= {negated(more): a(values) < b(values), negated(same): a(values) != b(values)}
    facts |= {both(more, same): a(values) == b(values), either(negated(more), same): a(values) <= b(values)}
    for condition, holds in facts.items():
        assert condition.at(values) == holds
        assert replaced_in(condition, {n: num(v) for n, v in values.items()}) == (TRUE if holds else FALSE)


def test_a_sum_divides_its_multiples_only():
    both_ = G + H
    assert both_ * Q // both_ == Q
    assert both_ * both_ // both_ == both_
    assert num(0) // both_ == num(0)
    open_ = (G * Q + H) // both_
    for g, h, q in itertools.product((1, 2, 5), repeat=3):
        assert open_.at({"+g": g, "+h": h, "+q": q}) == (g * q + h) // (g + h)


def test_only_positive_numbers_divide():
    with pytest.raises(NotPositive, match="positive"):
        div(G, sub(G, H))


@pytest.mark.parametrize("outer", [largest(G, H), largest(G, H) * 2, 5 - largest(G, H)])
def test_broadcasting_twice_is_broadcasting_once_only_for_what_is_below(outer):
    twice = broadcast(G, broadcast(outer, X))
    for g, h, x in itertools.product((1, 2, 4), (1, 2, 4), (0, 1, 3)):
        wanted = 0 if g == 1 or outer.at({"+g": g, "+h": h}) == 1 else x
        assert replaced(twice, {"+g": num(g), "+h": num(h), "i": num(x)}).value == wanted
        assert twice.at({"+g": g, "+h": h, "i": x}) == wanted


def test_broadcasting_twice_is_left_if_an_extent_may_be_none():
    outer = largest(G, H - 3)
    twice = broadcast(H - 3, broadcast(outer, X))
    for g, h, x in itertools.product((1, 2), (2, 4, 6), (0, 2)):
        within = 0 if outer.at({"+g": g, "+h": h}) == 1 else x
        assert twice.at({"+g": g, "+h": h, "i": x}) == (0 if h - 3 == 1 else within)


def test_windows_and_multiples_are_decided_for_every_size():
    # A window of 5 at stride 3 in an axis of at least 5 with pads of 2 has at least 2 places.
    places = (G + 4 + 2 + 2 - 5) // 3 + 1
    assert at_least(places, num(2)) == TRUE
    assert equal((G * 6) % 3, num(0)) == TRUE
    assert (G * 64) // 4 * ((H * 64) // 2) == G * H * 512
    assert equal(G * 2, num(-1)) == FALSE


def test_sums_and_products_are_in_normal_form():
    assert 1 + S * B == B * S + 1
    assert (B + 1) * (B + 1) == B * B + B * 2 + 1
    assert (B - B).value == 0
    assert symbols(B * S) == {"batch", "sequence"}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (B, "batch"),
        (B * S * 3, "3*batch*sequence"),
        (S - 1, "sequence - 1"),
        (1 - S, "- sequence + 1"),
        (S // 4, "floor(sequence/4)"),
        ((S + 3) // 4, "floor((sequence + 3)/4)"),
        ((S * 3 + 3) // 2, "floor((3*sequence + 3)/2)"),
        (S // 2 + B, "floor((2*batch + sequence)/2)"),
        (quotient(S * 4 + 2, 8), "floor((2*sequence + 1)/4)"),
        (S // 2 * B, "batch*floor((sequence)/(2))"),
        (largest(S, B), "max(batch, sequence)"),
        (num(7), "7"),
        (num(0), "0"),
    ],
)
def test_text_reads_as_a_name_of_a_dimension(size, text):
    assert written(size) == text


def test_some_symbols_can_be_given():
    assert replaced(B * S + B, {"batch": num(3)}) == S * 3 + 3
    assert replaced(B * B, {"batch": num(3)}) == num(9)
    with pytest.raises(KeyError):
        (B * S).at({"batch": 3})


def test_a_text_can_state_an_expression():
    names = {"past", "new"}
    assert written(parsed("past + new", names)) == "new + past"
    assert written(parsed("2*past - 1", names)) == "2*past - 1"
    for text in ("past", "past + other", "past // 2", "f(past)", "past +", "past + 1.5", "a b"):
        assert parsed(text, names) is None


def test_an_open_condition_has_no_truth():
    assert TRUE
    assert not FALSE
    for condition in (G >= 2, at_least(B, S), equal(G, H)):
        with pytest.raises(TypeError, match="must hold at every size or at none"):
            bool(condition)
