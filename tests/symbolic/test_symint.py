"""Python's operators on symbolic integers agree with those on numbers, and comparisons are conditions."""

from itertools import product

import pytest

from workbench.rules.interpret import ARITHMETIC as ON_NUMBERS
from workbench.rules.interpret import RELATIONS as ON_PAIRS
from workbench.symbolic.integers import FALSE, TRUE, sym
from workbench.symbolic.symint import ARITHMETIC, RELATIONS, SymInt

N, M = SymInt(sym("+n")), SymInt(sym("m"))
VALUES = [{"+n": n, "m": m} for n, m in product(range(1, 6), range(-5, 6))]


@pytest.mark.parametrize("sign", sorted(ARITHMETIC))
def test_an_operation_has_the_value_of_numbers(sign):
    for left, right in ((M, N), (M * M - 3, N + 2), (M, 3), (7, N)):
        found = N.arith(sign, left, right)
        for values in VALUES:
            a, b = (x.x.at(values) if isinstance(x, SymInt) else x for x in (left, right))
            assert found.x.at(values) == ON_NUMBERS[sign](a, b)


@pytest.mark.parametrize("sign", ["+", "-", "*", "//", "%"])
def test_a_number_may_stand_on_either_side(sign):
    operator = ON_NUMBERS[sign]
    for values in VALUES:
        assert operator(M, 4).x.at(values) == operator(values["m"], 4)
        assert operator(7, N).x.at(values) == operator(7, values["+n"])


@pytest.mark.parametrize("relation", sorted(RELATIONS))
def test_a_comparison_is_a_condition(relation):
    for left, right in ((M, N), (2 * M, 3), (N, M - 1)):
        found = ON_PAIRS[relation](left, right)
        for values in VALUES:
            a, b = (x.x.at(values) if isinstance(x, SymInt) else x for x in (left, right))
            assert found.at(values) == ON_PAIRS[relation](a, b)


def test_a_comparison_that_is_decided_is_a_truth():
    assert (N > 0, N < 1, -M + M == 0, N != N) == (TRUE, FALSE, TRUE, FALSE)
