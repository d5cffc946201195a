from fractions import Fraction

from workbench.symbolic import Expression
from workbench.symbolic.expressions import parsed

B, S = Expression.symbol("batch"), Expression.symbol("sequence")


def test_sums_and_products_are_in_normal_form():
    assert Expression.number(1) + S * B == B * S + 1
    assert (B + 1) * (B + 1) == B * B + B * 2 + 1
    assert (B + B * -1).constant
    assert (B * S).symbols == {"batch", "sequence"}


def test_a_size_is_rounded_down():
    half = (S + 1) * Fraction(1, 2)
    assert [half.at({"sequence": n}) for n in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert half.divisor == 2


def test_text_reads_as_a_name_of_a_dimension():
    assert str(B) == "batch"
    assert str(B * S * 3) == "3*batch*sequence"
    assert str(S + -1) == "sequence - 1"
    assert str(S * Fraction(1, 4)) == "floor(sequence/4)"
    assert str((S + 3) * Fraction(1, 4)) == "floor((sequence + 3)/4)"
    assert str(Expression.number(7)) == "7"


def test_some_symbols_can_be_given():
    assert (B * S + B).given({"batch": 3}) == S * 3 + 3
    assert (B * B).given({"batch": 3}) == Expression.number(9)


def test_a_text_can_state_an_expression():
    names = {"past", "new"}
    assert str(parsed("past + new", names)) == "new + past"
    assert str(parsed("2*past - 1", names)) == "2*past - 1"
    for text in ("past", "past + other", "past // 2", "f(past)", "past +", "past + 1.5", "a b"):
        assert parsed(text, names) is None
