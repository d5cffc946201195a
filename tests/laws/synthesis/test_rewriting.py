"""Rewriting among enumerated terms: laws derive the equations of one size, smaller ones are known."""

import pytest

from workbench.laws.synthesis.enumeration import Enumeration, candidates
from workbench.laws.synthesis.grammar import Grammar
from workbench.laws.synthesis.rewriting import Rewriting
from workbench.rules import parse_rules
from workbench.rules.language import parse_term

RING = parse_rules(
    "commutes: add(x, y) => add(y, x)\n"
    "associates: add(x, add(y, z)) => add(y, add(x, z))\n"
    "product: matmul(matmul(x, y), z) => matmul(x, matmul(y, z))\n"
    "left: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))\n"
    "right: add(matmul(x, y), matmul(z, y)) => matmul(add(x, z), y)\n"
)


def grown(text, size, operands="matrix: 3"):
    enumeration = Enumeration(Grammar.of(text, operands))
    found = [e for _ in range(size) for e in enumeration.extend()[1]]
    return enumeration, Rewriting(enumeration), found


def pair(left, right):
    return parse_term(left), parse_term(right)


@pytest.fixture(scope="module")
def ring():
    return grown("add matmul", 3)


def test_the_laws_of_a_ring_derive_all_equations_of_a_ring():
    enumeration, rewriting, _ = grown("add matmul", 2)
    equations = enumeration.extend()[1]
    pairs = [(e.left, e.right) for e in candidates(enumeration, equations)]
    assert len(pairs) > 20
    assert all(rewriting.derived(pairs, RING))


def test_without_a_law_its_equations_stay_open(ring):
    _, rewriting, _ = ring
    over = pair("add(matmul(x, y), matmul(x, z))", "matmul(x, add(y, z))")
    other = pair("add(matmul(x, y), matmul(z, y))", "matmul(add(x, z), y)")
    without = [r for r in RING if r.name != "left"]
    assert rewriting.derived([over, other], without) == [False, True]


def test_equal_values_alone_do_not_derive_an_equation(ring):
    _, rewriting, _ = ring
    wrong = pair("matmul(x, add(y, z))", "matmul(add(y, z), x)")
    assert rewriting.derived([wrong], RING) == [False]
    assert rewriting.derived([wrong], []) == [False]


def test_one_law_stands_for_every_axis_and_is_read_backwards():
    _, rewriting, _ = grown("relu transpose[perm=(1, 0)] concat[axis=-1] concat[axis=-2]", 3)
    laws = parse_rules(
        "law: concat[axis=a](transpose[perm=p](x), transpose[perm=p](y))"
        " => transpose[perm=p](concat[axis=p[a]](x, y))\n"
        "twice: transpose[perm=(1, 0)](transpose[perm=(1, 0)](x)) => x"
    )
    asked = [
        pair(
            "concat[axis=-1](transpose[perm=(1, 0)](x), transpose[perm=(1, 0)](y))",
            "transpose[perm=(1, 0)](concat[axis=-2](x, y))",
        ),
        pair(
            "transpose[perm=(1, 0)](concat[axis=-1](transpose[perm=(1, 0)](x), y))",
            "concat[axis=-2](x, transpose[perm=(1, 0)](y))",
        ),
        pair("relu(concat[axis=-1](x, y))", "concat[axis=-1](relu(x), relu(y))"),
    ]
    assert rewriting.derived(asked, laws) == [True, True, False]


def test_a_condition_of_a_law_is_checked():
    _, rewriting, _ = grown("add", 1, {"x y": "n n", "v": "n"})
    asked = [pair("add(x, y)", "add(y, x)"), pair("add(x, v)", "add(v, x)")]
    (law,) = parse_rules("square: add(x, y) => add(y, x) where dim(x, -2) = dim(y, -2)")
    assert rewriting.derived(asked, [law]) == [True, False]


def test_a_chosen_equation_derives_those_after_it():
    enumeration, rewriting, _ = grown("add", 2)
    first = pair("add(x, add(y, z))", "add(y, add(x, z))")
    second = pair("add(z, add(x, y))", "add(x, add(z, y))")
    laws = parse_rules("commutes: add(x, y) => add(y, x)")
    assert list(rewriting.chosen([first, second], laws, [])) == [0]
    assert rewriting.derived([second], laws) == [False]
    assert rewriting.derived([second], laws, [first]) == [True]
    rewriting.halt = lambda: True
    assert list(rewriting.chosen([first, second], [], [])) == []
    assert enumeration.levels[-1].size == 2


def test_a_law_of_more_operands_than_a_form_has_is_left_out():
    _, rewriting, _ = grown("relu concat[axis=-1]", 2)
    asked = [pair("concat[axis=-1](concat[axis=-1](x, y), z)", "concat[axis=-1](x, concat[axis=-1](y, z))")]
    three = "concat[axis=a](concat[axis=a](x, y), z) => concat[axis=a](x, y, z)"
    two = "concat[axis=a](concat[axis=a](x, y), z) => concat[axis=a](x, concat[axis=a](y, z))"
    assert rewriting.derived(asked, parse_rules(f"three: {three}")) == [False]
    assert rewriting.derived(asked, parse_rules(f"three: {three}\ntwo: {two}")) == [True]
