"""Candidates: renamings and instances of smaller equations are left out, general ones come first."""

import pytest

from workbench.laws.synthesis.candidates import candidates, generality, is_instance, key_of
from workbench.laws.synthesis.enumeration import Enumeration, Equation
from workbench.laws.synthesis.grammar import Grammar
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_term


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
