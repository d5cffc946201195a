from workbench.laws.verification.instances.boundary_values import (
    MEMBERS,
    SPREAD,
    attribute_coordinates,
    beside_literals,
    decisions_of,
    of_more_axes,
    spread_axes,
    wild,
)
from workbench.laws.verification.proving import generic_cases
from workbench.rules import parse_rule


def rule_of(text):
    (rule,) = parse_rule(f"r: {text}")
    return rule


def values(corners, coordinate):
    return {value for corner in corners for known, value in corner.fixed if known == coordinate}


def test_attributes_of_rows_and_of_variables():
    rule = rule_of("conv2d[strides=(s, z), c](x, w) => conv2d[strides=(s, z), c](x, w)")
    found = attribute_coordinates(rule)
    assert found["attr", "s", ""].name == "strides"
    assert found["row", "c", "groups"].name == "groups"
    assert ("row", "c", "strides") not in found


def test_values_below_at_and_above_a_literal():
    rule = rule_of("conv2d[groups=g, c](x, w) => conv2d[groups=min(g, 7), c](x, w) where dim(x, -3) >= 20")
    found = beside_literals(rule)
    assert {6, 7, 8} <= values(found, ("attr", "g", ""))
    assert max(values(found, ("attr", "g", ""))) > 8
    assert {19, 20, 21} <= values(found, ("dim", "x", -3))


def test_values_next_to_a_fraction():
    found = beside_literals(
        rule_of("layernorm[axis=-1, eps=e](x, s) => layernorm[axis=-1, eps=max(e, 0.25)](x, s)")
    )
    low, at, high, large = sorted(values(found, ("attr", "e", "")))
    assert 0 < low < at == 0.25 < high < large


def test_values_next_to_a_negative_number():
    rule = rule_of("softmax[axis=a](relu(x)) => softmax[axis=a](x) where a < -2, dim(x, -1) > 3")
    found = beside_literals(rule)
    assert {-5, -3, -2, -1, 0, 1} <= values(found, ("attr", "a", ""))
    assert min(values(found, ("dim", "x", -1))) == 2


def test_an_equation_leaves_no_other_value():
    assert beside_literals(rule_of("relu(x) => relu(x) where rank(x) = 4, dim(x, -1) = 1")) == []


def test_unusual_values():
    found = wild(
        rule_of("slice[axis=-1, start=i, stop=j, step=s](x) => slice[axis=-1, start=i, stop=j, step=s](x)")
    )
    assert max(values(found, ("dim", "x", -1))) > 1000
    assert {5, 6} <= values(found, ("rank", "x", ""))
    assert {"int8", "bool"} <= values(found, ("dtype", "x", ""))
    assert min(values(found, ("attr", "s", ""))) > 2
    assert all(len(corner.fixed) == 1 for corner in found)
    each = rule_of("each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    assert max(values(wild(each), MEMBERS)) > 3


def test_axes_that_may_broadcast():
    found = spread_axes(rule_of("add(relu(x), y) => add(y, relu(x))"))
    assert {corner.fixed[0][0] for corner in found} == {("dim", "y", axis) for axis in (-1, -2, -3, -4)}
    assert all(corner.instances == SPREAD and corner.spread for corner in found)


def test_decisions_of_a_case():
    rule = rule_of("relu(matmul[act=a](x, w)) => matmul[act=relu](x, w)")
    acts = {
        dict(decisions_of(case))["attr", "a", ""] for case in generic_cases(rule, broadcast=False).instances
    }
    assert acts == {"none", "relu", "sigmoid", "tanh"}


def test_more_axes_come_with_the_axis_that_only_they_have():
    found = of_more_axes(rule_of("softmax[axis=a](add(x, t)) => softmax[axis=a](x) where dim(t, a) = 1"))
    assert {(corner.rank, dict(corner.fixed)["attr", "a", ""]) for corner in found} == {(5, -5), (6, -6)}
    assert {name for corner in found for kind, name, _ in dict(corner.fixed) if kind == "rank"} == {"x", "t"}
    plain = of_more_axes(rule_of("transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))"))
    assert [corner.fixed for corner in plain] == [((("rank", "x", ""), r),) for r in (5, 6)]


def test_a_proof_has_cases_of_more_axes():
    rule = rule_of("reduce_sum[axes=(a), keepdims=1](neg(x)) => neg(reduce_sum[axes=(a), keepdims=1](x))")
    cases = generic_cases(rule, broadcast=True).instances
    assert {(case.types["x"].rank, case.attrs["a"]) for case in cases} >= {(5, -5), (6, -6)}
    assert {case.types["x"].rank for case in cases} >= {1, 2, 3, 4, 5, 6}
