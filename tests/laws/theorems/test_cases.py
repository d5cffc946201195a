"""Rules on any number of members are theorems if they hold on a slice of the whole."""

from dataclasses import replace

import pytest

import workbench
from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.cases import bounds, of_one_member
from workbench.laws.theorems.check import Rejected, check
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.prove import attempt
from workbench.rules.ruleset import rule_set

needs_solver = pytest.mark.skipif(solver() is None, reason="no z3")

TRUE = """
rows-of-softmax: each softmax[axis=-1](w*) => slice[axis=-2](softmax[axis=-1](concat[axis=-2](w*)))
of-two: each max(w*, v*) => slice[axis=-1](max(concat[axis=-1](v*), concat[axis=-1](w*)))
of-one: each add(w*, v) => slice[axis=-1](add(concat[axis=-1](w*), v))
"""

FALSE = """
along-softmax: each softmax[axis=-1](w*) => slice[axis=-1](softmax[axis=-1](concat[axis=-1](w*)))
other-axis: each matmul[c](x, w*) => slice[axis=-2](matmul[c](x, concat[axis=-1](w*)))
inner-axis: each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-2](w*)))
both-axes: each matmul(x*, w*) => slice[axis=-1](matmul(concat[axis=-1](x*), concat[axis=-2](w*)))
groups: each conv2d[c](x, w*) => slice[axis=-3](conv2d[c](x, concat[axis=-4](w*)))
summed: each reduce_sum[axes=(-1)](w*) => slice[axis=-1](reduce_sum[axes=(-1)](concat[axis=-1](w*)))
"""


def proved(rule):
    found = attempt(rule, seconds=20)
    if found.proof is None:
        return False
    try:
        check(rule, found.proof)
    except Rejected:
        return False
    return True


@needs_solver
@pytest.mark.parametrize("rule", workbench.parse_rules(TRUE), ids=lambda r: r.name)
def test_true_rules_on_members_are_theorems(rule):
    assert proved(rule)


@needs_solver
@pytest.mark.parametrize("rule", workbench.parse_rules(FALSE), ids=lambda r: r.name)
def test_false_rules_on_members_are_none(rule):
    assert not proved(rule)


@needs_solver
def test_bounds_that_differ_are_rejected_although_the_steps_are_right():
    # With both sides of one type the slice is all of the whole, so the steps prove one member only.
    (rule,) = (r for r in workbench.parse_rules(FALSE) if r.name == "other-axis")
    found = attempt(rule, seconds=20)
    assert found.proof is not None
    with pytest.raises(Rejected, match="members: the extent of the result"):
        check(rule, found.proof)


def test_a_member_is_a_slice_of_any_tensor():
    (rule,) = (r for r in rule_set("default") if r.name == "merge-convs-bias")
    one = of_one_member(rule)
    cut = "start=member start, stop=member stop"
    assert str(one.sources[0].args[1].args[0].name) == "w"
    assert str(one).startswith(
        f"merge-convs-bias: conv2d[groups=1, c](x, slice[axis=-4, {cut}](w), slice[axis=-3, {cut}](b)) "
        f"=> slice[axis=-3, {cut}](conv2d[groups=1, c](x, w, b))"
    )
    assert [(axis, relation, extent.var, extent.axis) for _, axis, relation, extent in bounds(rule)] == [
        (-3, ">=", "w", -4),
        (-3, "=", "w", -4),
        (-3, ">=", "b", -3),
        (-3, "=", "b", -3),
    ]


def test_members_that_no_concatenation_joins_are_not_covered():
    (rule,) = workbench.parse_rules(TRUE.splitlines()[1])
    apart = replace(rule, targets=(replace(rule.targets[0], args=rule.sources),))
    with pytest.raises(NotCovered, match="not joined"):
        of_one_member(apart)
