import re
from dataclasses import replace

import pytest

from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, parse_rules, rule_set
from workbench.rules.pattern import App, AttrVar, Literal, Rule, Var
from workbench.saturation import Limits, Saturation
from workbench.saturation.compile import RuleCompileError, compile_rule, sinks
from workbench.saturation.encoding import Constructor, Encoding
from workbench.saturation.rule_prefilter import usable

from . import laws

ENCODING = Encoding(4)


def text_of(rule):
    compiled = compile_rule(rule, 1, ENCODING)
    assert compiled is not None
    return spelled_out(compiled.text)


def spelled_out(text):
    """Return a rule's text with every name of a shared expression replaced by the expression."""
    definition = re.compile(r"\((?:=|let) (k\d+_) (\((?:[^()]|\([^()]*\))*\))\) ?")
    while found := definition.search(text):
        text = text.replace(found[0], "", 1).replace(found[1], found[2])
    return text


def test_a_law_that_keeps_the_type_needs_no_guard():
    text = text_of(laws.RELU_FUSES)
    assert "vec-get" not in text
    assert "(set (ty_ n2_) s_ea_)" in text


def test_commutativity_is_recognised_as_type_preserving():
    assert "vec-of" not in text_of(laws.ADD_COMMUTES)


def test_a_symmetric_pair_is_matched_once_and_counted_by_a_twin():
    compiled = compile_rule(laws.MERGE_PAIR, 1, ENCODING)
    assert "(ordering-min ea_ eb_)" in compiled.text
    assert "(!= ea_ eb_)" in compiled.text
    assert compiled.counting
    assert compiled.growth == 4


def test_an_asymmetric_pair_is_matched_both_ways():
    sources = laws.MERGE_PAIR.sources
    other = replace(sources[1], attrs=(("act", Literal("relu")),), row=None)
    rule = replace(laws.MERGE_PAIR, sources=(sources[0], other))
    assert "ordering-min" not in text_of(rule)


def test_a_rule_that_can_never_apply_is_left_out():
    x = Var("x")
    rank_four = App("conv2d", (x, Var("w")), (), "r")
    rule = Rule("never", (rank_four,), (App("transpose", (rank_four,), (("perm", Literal((1, 0))),)),))
    assert compile_rule(rule, 1, ENCODING) is None


def test_types_that_need_numbers_are_refused_on_the_right():
    x = Var("x")
    rule = Rule(
        "vague",
        (App("reduce_sum", (x,), (("axes", AttrVar("a")), ("keepdims", AttrVar("k")))),),
        (App("reduce_max", (x,), (("axes", AttrVar("a")), ("keepdims", AttrVar("k")))),),
    )
    with pytest.raises(RuleCompileError, match=r"vague.*reduce_max"):
        compile_rule(rule, 1, ENCODING)


def test_a_constant_on_the_left_is_bound_by_its_attributes():
    text = text_of(laws.EYE_RIGHT)
    assert "(= t1_ (eye_n0_ a_n_ a_d_))" in text
    assert "(union ea_ x_)" in text


def test_a_constant_on_the_right_is_made_from_the_operands_type():
    compiled = compile_rule(laws.EYE_MADE, 1, ENCODING)
    text = spelled_out(compiled.text)
    assert "(let n1_ (eye_n0_ (vec-get s_x_ 5) (vec-get s_x_ 0)))" in text
    assert "(set (ty_ n1_) (vec-of (vec-get s_x_ 0) 2 1 1 (vec-get s_x_ 5) (vec-get s_x_ 5)))" in text
    assert compiled.growth == 2
    assert Constructor("eye", 0) in compiled.makes


def test_the_shape_of_a_constant_carries_its_own_element_type():
    assert "(ones_n0_ (vec-set a_s_ 0 a_d_) a_d_)" in text_of(laws.ONES_MADE)


def test_only_rules_that_can_match_are_used():
    compiled = [
        compile_rule(r, i + 1, ENCODING)
        for i, r in enumerate([laws.RELU_FUSES, laws.MERGE_PAIR, laws.ADD_COMMUTES])
    ]
    names = [c.rule.name for c in usable(compiled, {Constructor("matmul", 2)})]
    assert names == ["merge-pair"]
    assert usable(compiled, set()) == []


def test_a_variable_that_is_called_like_a_shared_expression_keeps_apart():
    k = Var("k0")
    rule = Rule("k-commutes", (App("add", (k, Var("y"))),), (App("add", (Var("y"), k)),))
    assert "(add_n2_ v_k0_ y_)" in text_of(rule)


def test_the_extents_of_a_shape_on_the_left_are_read_from_its_column():
    (rule,) = parse_rule("cut: reshape[shape=(n, 4, d)](x) => reshape[shape=(n, 4, d)](relu(x))")
    text = text_of(rule)
    assert "(= 3 (vec-get l0_ 1))" in text
    assert "(= a_n_ (vec-get l0_ 3))" in text
    assert "(= 4 (vec-get l0_ 4))" in text
    assert compile_rule(rule, 1, Encoding(2)) is None


def test_an_axis_of_a_permutation_is_read_from_its_vector():
    (rule,) = parse_rule(
        "part: slice[axis=a, start=i, stop=j](transpose[perm=p](x)) => "
        "transpose[perm=p](slice[axis=p[a], start=i, stop=j](x))"
    )
    assert "(- (vec-get a_p_ (+ 6 a_a_)) 6)" in text_of(rule).replace("(+ a_a_ 6)", "(+ 6 a_a_)")


LAWS = """phase movement
product: slice[axis=-2, r](matmul[c](x, w)) => matmul[c](slice[axis=-2, r](x), w)
bent: slice[axis=-2, r](relu(x)) => relu(slice[axis=-2, r](x))
turned: slice[axis=-2, start=i, stop=j](transpose[perm=(1, 0, 2)](x)) => \\
    transpose[perm=(1, 0, 2)](slice[axis=-3, start=i, stop=j](x))
"""


def test_a_law_sinks_if_it_computes_with_the_part():
    assert [sinks(rule) for rule in parse_rules(LAWS)] == [True, True, False]
    assert not any(sinks(rule) for rule in parse_rule("bent: slice[r](relu(x)) => relu(slice[r](x))"))
    assert {"rows-of-product", "part-of-gelu"} <= {r.name for r in rule_set("default") if sinks(r)}


def layers(outputs):
    """Return three layers of which a row is read and, if ``outputs`` is 2, the second whole."""
    b = GraphBuilder()
    x = b.input("x", (6, 4))
    between = []
    for _ in range(3):
        x = b.op("relu", b.op("matmul", x, b.weight((4, 4))))
        between.append(x)
    row = b.op("slice", x, axis=-2, start=0, stop=1)
    return b.graph({"y": row, "z": between[1]} if outputs == 2 else {"y": row})


def rows_of(saturation, op):
    egraph = saturation.egraph()
    return sum(
        egraph.ops[i] == op and egraph.types[egraph.eclass[i]].shape[0] == 1 for i in range(len(egraph))
    )


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(("outputs", "sunk"), [(1, 3), (2, 1)])
def test_a_row_sinks_as_far_as_nothing_is_needed_whole(outputs, sunk, weights):
    saturation = Saturation(layers(outputs), parse_rules(LAWS), Limits(weights=weights))
    saturation.run()
    assert rows_of(saturation, "relu") == rows_of(saturation, "matmul") == sunk


def test_a_value_in_another_order_is_needed_whole_too():
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (6, 2, 4)))
    y = b.op("transpose", x, perm=(1, 0, 2))
    z = b.op("relu", y)
    graph = b.graph({"x": x, "row": b.op("slice", z, axis=-2, start=0, stop=1)})
    laws = parse_rules(LAWS + "down: transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))")
    saturation = Saturation(graph, laws)
    saturation.run()
    egraph = saturation.egraph()
    assert {egraph.rules[int(r)] for r in egraph.birth_rule if r >= 0} == {"bent", "turned", "down"}
    rows = [
        i for i in range(len(egraph)) if egraph.ops[i] == "relu" and 1 in egraph.types[egraph.eclass[i]].shape
    ]
    assert len(rows) == 1  # the row of z; below it, the row is a view of x
