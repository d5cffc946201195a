"""Normal forms of integers agree with integers."""

import itertools

import pytest

from workbench.laws.theorems.integers import (
    NotPositive,
    add,
    broadcast,
    div,
    largest,
    mul,
    num,
    replaced,
    sub,
    sym,
)

G, H, Q, X = sym("+g"), sym("+h"), sym("+q"), sym("i")


def test_a_sum_divides_its_multiples_only():
    both = add(G, H)
    assert div(mul(both, Q), both) == Q
    assert div(mul(both, both), both) == both
    assert div(num(0), both) == num(0)
    open_ = div(add(mul(G, Q), H), both)
    for g, h, q in itertools.product((1, 2, 5), repeat=3):
        by = {"+g": num(g), "+h": num(h), "+q": num(q)}
        assert replaced(open_, by).value == (g * q + h) // (g + h)


def test_only_positive_numbers_divide():
    with pytest.raises(NotPositive, match="positive"):
        div(G, sub(G, H))


@pytest.mark.parametrize("outer", [largest(G, H), mul(num(2), largest(G, H)), sub(num(5), largest(G, H))])
def test_broadcasting_twice_is_broadcasting_once_only_for_what_is_below(outer):
    twice = broadcast(G, broadcast(outer, X))
    for g, h, x in itertools.product((1, 2, 4), (1, 2, 4), (0, 1, 3)):
        whole = replaced(outer, {"+g": num(g), "+h": num(h)}).value
        wanted = 0 if g == 1 or whole == 1 else x
        assert replaced(twice, {"+g": num(g), "+h": num(h), "i": num(x)}).value == wanted
