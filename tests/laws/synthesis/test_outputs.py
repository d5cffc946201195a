"""Laws of several outputs: terms that are the parts of one term are found, and become rules."""

import pytest

from workbench.laws.synthesis import Grammar, Synthesis
from workbench.laws.synthesis.enumeration import Enumeration
from workbench.laws.synthesis.outputs import equal_to_extent, parts_of, variants_of_parts
from workbench.laws.verification.evidence import Effort
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_term

HALVES = "slice[axis=-1, start=0, stop=n] slice[axis=-1, start=n, stop=2*n]"


def found_in(text, size, operands="matrix: 3"):
    enumeration = Enumeration(Grammar.of(f"{text} {HALVES}", operands))
    for n in range(size):
        enumeration.extend(last=n == size - 1)
    return enumeration, parts_of(enumeration)


def text_of(parts):
    return [format_term(s) for s in parts.sources], [format_term(t) for t in parts.targets]


def test_two_products_with_a_common_operand_are_parts_of_one():
    _, (one,) = found_in("matmul concat[axis=-1]", 3)
    assert text_of(one) == (
        ["matmul(x, y)", "matmul(x, z)"],
        [
            "slice[axis=-1, start=0, stop=3](matmul(x, concat[axis=-1](y, z)))",
            "slice[axis=-1, start=3, stop=6](matmul(x, concat[axis=-1](y, z)))",
        ],
    )


def test_terms_that_the_whole_has_as_operands_are_not_a_law():
    assert found_in("concat[axis=-1] transpose[perm=(1, 0)]", 3)[1] == []


def test_an_instance_of_a_law_of_parts_is_left_out():
    _, few = found_in("relu concat[axis=-1]", 3)
    _, more = found_in("relu concat[axis=-1] transpose[perm=(1, 0)]", 4, "matrix: 2")
    assert [text_of(p)[0] for p in few] == [["relu(x)", "relu(y)"]]
    assert [text_of(p)[0] for p in more] == [["relu(x)", "relu(y)"]]


def test_positions_become_extents_of_the_variables_that_make_the_parts():
    enumeration, (one,) = found_in("matmul concat[axis=-1]", 3)
    grammar = enumeration.grammar
    first = variants_of_parts(one, grammar.types, grammar.sizes[0]).laws[0]
    assert [format_term(t).partition("](matmul")[0] for t in first.targets] == [
        "slice[axis=-1, start=0, stop=dim(y, -1)",
        "slice[axis=-1, start=dim(y, -1), stop=dim(y, -1) + dim(z, -1)",
    ]


@pytest.mark.slow
def test_a_synthesis_finds_and_verifies_laws_of_several_outputs():
    effort = Effort(chain=0, draws=60, seconds=60.0)
    grammar = Grammar.of(f"matmul concat[axis=-1] {HALVES}", "matrix: 3", operators=3, repeats=False)
    synthesis = Synthesis(grammar, effort=effort)
    synthesis.run()
    (law,) = synthesis.joint
    assert law.rule.name == "matmul-and-matmul-as-slice-of-matmul"
    assert len(law.rule.sources) == 2
    assert law.verdict.verdict == "tested"
    assert law.rule in tuple(synthesis.rules)
    assert law.rule not in synthesis.law_rules
    # As equations the laws of one output imply it.
    assert synthesis.covers([law.rule]).counts["derived"] == 1


@pytest.mark.parametrize(
    ("texts", "place", "axis", "found"),
    [
        (["matmul(x, y)"], 0, -2, {("x", -2)}),
        (["matmul(x, y)", "matmul(x, z)"], 1, -1, {("z", -1)}),
        (["relu(x)", "relu(y)"], 0, -1, {("x", -1)}),
        (["conv2d[pads=(1, 1, 1, 1)](x, w)"], 0, -3, {("w", -4)}),
        (["transpose[perm=(1, 0)](x)"], 0, -1, {("x", -2)}),
        (["concat[axis=-1](x, y)"], 0, -1, set()),
    ],
)
def test_an_extent_is_named_by_the_variables_that_have_it(texts, place, axis, found):
    terms = [parse_term(t) for t in texts]
    assert {(d.var, d.axis) for d in equal_to_extent(terms, place, axis)} == found


def test_terms_that_do_not_fit_have_no_extents():
    wrong = parse_term("transpose[perm=(1, 0)](conv2d(x, w))")
    assert equal_to_extent([wrong], 0, -1) == []
