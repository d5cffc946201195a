"""Enumeration by classes: every true equation of a size is met, and only first terms are extended."""

import itertools

import pytest

from workbench.laws.synthesis.enumeration import (
    Enumeration,
    Equation,
    candidates,
    generality,
    is_instance,
    key_of,
)
from workbench.laws.synthesis.grammar import Grammar
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_term


def grown(text, operands, size):
    enumeration = Enumeration(Grammar.of(text, operands))
    equations = [e for _ in range(size) for e in enumeration.extend()[1]]
    return enumeration, equations


def test_the_numbers_of_terms_are_those_of_a_count_by_hand():
    enumeration, _ = grown("add relu", "matrix: 2", 2)
    first, second = enumeration.levels[1:]
    # add: 4, relu: 2; of these x + y and y + x are one class.
    assert (first.terms, first.classes, first.pairs) == (6, 5, 1)
    # relu of 5 classes, add of 5 classes and 2 variables in both orders.
    assert second.terms == 5 + 2 * 5 * 2


def test_equal_terms_are_one_class_and_different_ones_are_not():
    enumeration, _ = grown("add mul matmul", "matrix: 2", 2)

    def number(text):
        return enumeration.class_of(parse_term(text))

    assert number("add(x, add(x, y))") == number("add(add(x, x), y)")
    assert number("matmul(x, y)") != number("matmul(y, x)")
    assert number("mul(x, add(y, y))") == number("mul(add(x, x), y)")
    assert number("relu(x)") is None


def test_every_renaming_of_an_equation_is_represented_once():
    _, equations = grown("matmul", "matrix: 3", 2)
    texts = {(format_term(e.left), format_term(e.right)) for e in equations}
    assert ("matmul(matmul(x, y), z)", "matmul(x, matmul(y, z))") in texts
    assert not any("z" in a and "y" not in a for a, _ in texts)


def test_a_class_that_is_equal_by_chance_under_one_draw_is_distinguished():
    enumeration, _ = grown("relu matmul transpose[perm=(1, 0)]", "matrix: 2", 3)
    gram = enumeration.class_of(parse_term("matmul(transpose[perm=(1, 0)](x), x)"))
    assert gram is not None
    assert enumeration.class_of(parse_term("relu(matmul(transpose[perm=(1, 0)](x), x))")) != gram


def test_a_commutative_operator_is_applied_in_one_order_only():
    enumeration, _ = grown("add", "matrix: 3", 1)
    both = Enumeration(enumeration.grammar)
    both.extend()
    enumeration.commute(parse_term("add(x, y)"))
    few, many = enumeration.extend()[0], both.extend()[0]
    assert few.terms < many.terms
    assert few.classes == many.classes
    assert enumeration.class_of(parse_term("add(y, x)")) == enumeration.class_of(parse_term("add(x, y)"))


def test_limits_cut_an_enumeration_and_are_reported():
    enumeration = Enumeration(Grammar.of("add mul", "matrix: 3"))
    enumeration.most_terms = 10
    level, _ = enumeration.extend()
    assert not level.complete
    late = Enumeration(Grammar.of("add mul", "matrix: 3"))
    level, equations = late.extend(deadline=0.0)
    assert (level.terms, level.complete, equations) == (0, False, [])


def test_the_same_seed_gives_the_same_classes():
    a, b = (grown("add matmul relu", "matrix: 2", 2)[0] for _ in range(2))
    assert [a.first(i) for i in range(len(a))] == [b.first(i) for i in range(len(b))]
    assert all(a.class_of(a.term(i)) in (None, i) for i in itertools.islice(range(len(a)), 50))


def equation(left, right):
    return Equation(parse_term(left), parse_term(right), 0)


@pytest.fixture(scope="module")
def enumeration():
    made = Enumeration(Grammar.of("add mul relu", "matrix: 3"))
    made.extend()
    made.extend()
    return made


def test_renamings_and_exchanged_sides_are_one_candidate(enumeration):
    equations = [
        equation("add(y, x)", "add(x, y)"),
        equation("add(x, y)", "add(y, x)"),
        equation("add(z, y)", "add(y, z)"),
    ]
    assert len({key_of(e) for e in equations}) == 1
    assert len(candidates(enumeration, equations)) == 1


def test_an_instance_of_a_smaller_equation_is_none(enumeration):
    assert is_instance(enumeration, equation("add(relu(x), y)", "add(y, relu(x))"))
    assert is_instance(enumeration, equation("relu(relu(add(x, y)))", "relu(add(x, y))"))
    assert not is_instance(enumeration, equation("mul(x, add(y, z))", "add(mul(x, y), mul(x, z))"))


def test_general_candidates_come_first():
    general, special = (
        equation("add(add(x, y), z)", "add(x, add(y, z))"),
        equation("add(add(x, x), z)", "add(x, add(x, z))"),
    )
    assert sorted([special, general], key=generality)[0] is general


def test_the_candidates_of_a_size_are_few_and_true(enumeration):
    made = Enumeration(enumeration.grammar)
    equations = [e for _ in range(2) for e in made.extend()[1]]
    found = candidates(made, equations)
    assert 2 < len(found) < len(equations)
    assert all(made.class_of(e.left) == made.class_of(e.right) for e in found)
    texts = {f"{format_term(e.left)} = {format_term(e.right)}" for e in found}
    assert "add(y, add(x, z)) = add(x, add(y, z))" in texts
