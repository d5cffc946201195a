"""A search that ends without a proof gives numbers under which the rule may fail."""

import pytest

from workbench.laws.theorems.countermodels import models
from workbench.laws.theorems.entailment import solver
from workbench.rules import parse_rules

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")


def numbers(law):
    (rule,) = parse_rules(f"law: {law}")
    return list(models(rule, 20.0))


def test_a_theorem_has_no_model():
    assert numbers("add(x, y) => add(y, x)") == []


def test_a_rule_that_the_kernel_does_not_cover_has_none():
    assert numbers("gather[axis=0](x, i) => relu(gather[axis=0](x, i))") == []


def test_the_extent_at_which_a_rule_fails_is_found():
    found = numbers(
        "slice[axis=-1, start=i, stop=j](x) => \\\n"
        "  slice[axis=-1, start=i + dim(x, -1) // 31 // 37, stop=j + dim(x, -1) // 31 // 37](x)"
    )
    assert any(m.numbers["+x -1"] >= 31 * 37 for m in found)
    assert all(m.numbers["+x -1"] >= m.numbers["j"] > m.numbers["i"] >= 0 for m in found)


def test_a_symbol_that_an_equation_gave_has_its_number():
    (found, *_) = numbers("relu(x) => tanh(x) where dim(x, -1) % 31 = 0, dim(x, -1) % 37 = 0")
    assert found.numbers["+x -1"] % 1147 == 0


def test_numbers_are_small_if_they_can_be():
    (found, *_) = numbers("relu(x) => tanh(x)")
    assert all(abs(v) <= 1 for v in found.numbers.values())


def test_a_bound_axis_has_its_place():
    (found, *_) = numbers("softmax[axis=a](x) => relu(x)")
    assert found.axes["a"] < 0
