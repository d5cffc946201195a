"""Laws from equations: attributes become variables, variables are told apart, conditions are proposed."""

import pytest

from workbench.laws.synthesis.anti_unification import (
    bound_extents,
    equal_extents,
    expression,
    extents_of,
    fixed_extents,
    oriented,
    ranks,
    same_extents,
    variants_of,
)
from workbench.laws.synthesis.enumeration import Equation
from workbench.rules import parse_rule
from workbench.rules.language import parse_term
from workbench.rules.pattern import AttrVar, DimOf, format_condition, format_rule

SHAPES = dict.fromkeys("xyz", ("n", "n")) | {
    "w": ("c", "c", "k", "k"),
    "v": ("c", "c", "k", "k"),
    "i": ("b", "c", "h", "h"),
}
SIZES = {"n": 3, "c": 2, "k": 3, "b": 4, "h": 5}


def laws(left, right):
    equation = Equation(parse_term(left), parse_term(right), 0)
    return [format_rule(r).partition(": ")[2] for r in variants_of(equation, SHAPES, SIZES).laws]


def test_axes_become_one_variable_and_the_equation_itself_is_among_them():
    found = laws("relu(concat[axis=-1](x, y))", "concat[axis=-1](relu(x), relu(y))")
    assert found[0] == "concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))"
    assert "concat[axis=-1](relu(x), relu(y)) => relu(concat[axis=-1](x, y))" in found


def test_all_attributes_of_a_convolution_become_a_row():
    conv = "conv2d[pads=(1, 1, 1, 1)]"
    found = laws(f"relu({conv}(i, w))", f"relu(relu({conv}(i, w)))")
    assert found[0] == "relu(relu(conv2d[c](i, w))) => relu(conv2d[c](i, w))"
    assert any("act=none" in law for law in found)
    assert any("pads=(1, 1, 1, 1)" in law for law in found)


def test_the_extent_of_a_slice_becomes_that_of_an_operand():
    found = laws("slice[axis=-1, start=0, stop=3](concat[axis=-1](x, y))", "x")
    assert found[0] == "slice[axis=a, c](concat[axis=a](x, y)) => x"  # too general
    assert "slice[axis=a, start=0, stop=b](concat[axis=a](x, y)) => x where b = dim(x, a)" in found
    second = laws("slice[axis=-1, start=3, stop=6](concat[axis=-1](x, y))", "y")
    assert any(law.endswith("y where b = dim(x, a), d = dim(x, a) + dim(y, a)") for law in second)


def test_different_axes_get_a_condition_and_a_transposed_one_is_followed():
    exchange = laws(
        "concat[axis=-2](concat[axis=-1](x, y), concat[axis=-1](z, x))",
        "concat[axis=-1](concat[axis=-2](x, z), concat[axis=-2](y, x))",
    )
    assert any("where a != b" in law for law in exchange)
    moved = laws(
        "transpose[perm=(1, 0)](concat[axis=-1](x, y))",
        "concat[axis=-2](transpose[perm=(1, 0)](x), transpose[perm=(1, 0)](y))",
    )
    assert any("p[a]" in law for law in moved)


def test_occurrences_of_a_variable_are_distinguished():
    found = laws("add(add(x, x), x)", "add(x, add(x, x))")
    assert "add(add(x_0, x_1), x_2) => add(x_0, add(x_1, x_2))" in found


def test_the_left_side_binds_all_variables():
    (source, target) = oriented(Equation(parse_term("x"), parse_term("add(x, sub(y, y))"), 0))
    assert source == parse_term("add(x, sub(y, y))")
    assert target == parse_term("x")


def test_conditions_say_that_operands_of_one_shape_do_not_broadcast():
    (rule,) = parse_rule("sum: add(conv2d[c](i, w), conv2d[c](i, v)) => conv2d[c](i, add(w, v))")
    shown = [format_condition(c) for c in same_extents(rule, SHAPES)]
    assert "dim(v, -1) = dim(w, -1)" in shown
    assert not any("dim(i" in text for text in shown)
    every = [format_condition(c) for c in equal_extents(rule, SHAPES)]
    assert "dim(i, -3) = dim(w, -4)" in every
    assert "dim(i, -2) = dim(i, -1)" in every


@pytest.mark.parametrize("size", [{"n": 3}, {"n": 4}])
def test_the_number_of_laws_is_bounded(size):
    equation = Equation(
        parse_term("slice[axis=-1, start=0, stop=3](concat[axis=-1](x, concat[axis=-1](y, z)))"),
        parse_term("x"),
        0,
    )
    assert len(variants_of(equation, SHAPES, SIZES | size).laws) <= 24


def test_shapes_become_variables_and_extents_of_operands():
    shapes = {"x": ("b", "s", "k"), "w": ("k", "hd")}
    sizes = {"b": 2, "s": 3, "k": 5, "hd": 28}
    turned = "transpose[perm=(0, 2, 1, 3)]"
    equation = Equation(
        parse_term(f"{turned}(reshape[shape=(2, 3, 4, 7)](matmul(x, w)))"),
        parse_term(f"matmul(reshape[shape=(2, 1, 3, 5)](x), {turned}(reshape[shape=(1, 5, 4, 7)](w)))"),
        7,
    )
    found = variants_of(equation, shapes, sizes)
    wanted = (
        f"{turned}(reshape[shape=(n, m, h, v)](matmul(x, w))) => "
        f"matmul(reshape[shape=(n, 1, m, dim(x, -1))](x), {turned}(reshape[shape=(1, dim(x, -1), h, v)](w)))"
    )
    (law,) = [law for law in found.laws if format_rule(law).partition(": ")[2] == wanted]
    assert [format_condition(c) for c in found.guards[law]] == [
        "n = dim(x, -3)",
        "m = dim(x, -2)",
        "rank(x) = 3",
        "rank(w) = 2",
    ]


def test_attributes_of_a_row_can_keep_their_values():
    resize = "resize[size=(6, 4), mode=nearest]"
    equation = Equation(parse_term(f"relu({resize}(i))"), parse_term(f"{resize}(relu(i))"), 4)
    found = variants_of(equation, SHAPES, SIZES)
    assert found.pins == ("size", "mode", "coords", "rounding", "cubic")
    law = found.pinned(frozenset(("mode",)))
    assert format_rule(law).partition(": ")[2] == (
        "relu(resize[mode=nearest, c](i)) => resize[mode=nearest, c](relu(i))"
    )
    assert "c](" not in format_rule(found.pinned(frozenset(found.pins)))


def test_positions_along_an_axis_become_one_row_and_axes_may_be_ordered():
    found = laws(
        "slice[axis=-2, start=1, stop=3](layernorm[axis=-1, eps=0.5](x, y))",
        "layernorm[axis=-1, eps=0.5](slice[axis=-2, start=1, stop=3](x), y)",
    )
    assert (
        "layernorm[axis=b, eps=s](slice[axis=a, c](x), y) => slice[axis=a, c](layernorm[axis=b, eps=s](x, y))"
        " where a < b"
    ) in [law.replace("  ", " ") for law in found]


def test_an_equation_of_which_no_side_binds_all_variables_gives_no_law():
    equation = Equation(parse_term("sub(x, x)"), parse_term("sub(y, y)"), 2)
    assert variants_of(equation, SHAPES, SIZES).laws == ()


def test_the_side_that_binds_more_attributes_is_the_left_one():
    shapes, sizes = {"x": ("b", "m", "k"), "y": ("b", "k", "n")}, {"b": 2, "m": 3, "k": 5, "n": 7}
    repeated = parse_term("relu(repeat[axis=-2, times=4](x))")
    equation = Equation(repeated, parse_term("relu(relu(repeat[axis=-2, times=4](x)))"), 5)
    assert format_rule(variants_of(equation, shapes, sizes).laws[0]).startswith("candidate: relu(relu(")
    equation = Equation(
        parse_term("matmul(x, repeat[axis=-1, times=4](y))"), parse_term("relu(relu(matmul(x, y)))"), 5
    )
    assert format_rule(variants_of(equation, shapes, sizes).laws[0]).startswith("candidate: matmul(")


KINDS = {"x": ("m", "n"), "t": ("m", "1"), "s": ()}
EXTENTS = {"m": 3, "n": 4}


def shown(conditions):
    return [format_condition(c) for c in conditions]


def rule(text):
    return parse_rule(f"law: {text}")[0]


def test_extents_of_operands_become_numbers():
    assert list(extents_of(["x", "t"], KINDS, EXTENTS)) == [
        (3, DimOf("x", -2)),
        (4, DimOf("x", -1)),
        (3, DimOf("t", -2)),
        (1, DimOf("t", -1)),
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(3, "c"), (12, "c * a"), (1, "1"), (2, "dim(x, -1) // c"), (7, None)]
)
def test_a_number_is_a_known_one_or_a_product_or_a_quotient(value, text):
    found = expression(value, [(3, AttrVar("c")), (4, AttrVar("a")), (6, DimOf("x", -1))])
    if text is None:
        assert found is None
    else:
        law = rule(f"reshape[shape=(c, a)](x) => reshape[shape=(c, a)](x) where 0 = {text}")
        assert found == law.conditions[0].right


def test_conditions_say_what_the_grammar_fixes():
    law = rule("mul(add(x, t), s) => add(mul(x, s), mul(t, s))")
    assert shown(fixed_extents(law, KINDS)) == ["rank(s) = 0", "dim(t, -1) = 1"]
    assert shown(ranks(law, KINDS)) == ["rank(x) = 2", "rank(t) = 2", "rank(s) = 0"]


def test_variables_in_shapes_may_be_extents_of_operands():
    extents = list(extents_of(["x"], KINDS, EXTENTS))
    assert shown(bound_extents({"n": 4, "k": 5}, extents)) == ["n = dim(x, -1)"]
