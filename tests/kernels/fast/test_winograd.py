"""Winograd's convolution: it computes convolutions, its laws are theorems, and no wrong variant is one."""

import random

import numpy as np
import pytest

from tests.sampled import in_turn
from workbench.kernels.composites.define import register
from workbench.kernels.fast.toom_cook import Algorithm
from workbench.kernels.fast.winograd import ALGORITHMS, AXES, operators
from workbench.laws.theorems.check import check
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.steps import Rejected
from workbench.laws.verification.refuting.refute import search
from workbench.ops import spec_of
from workbench.rules.language import parse_rule
from workbench.rules.pattern import format_rule
from workbench.rules.ruleset import rule_set
from workbench.rules.verdicts import is_theorem, proof_record

RULES = {rule.name: rule for rule in rule_set("fast")}


def run(op, *operands, **attrs):
    spec = spec_of(op)
    return spec.evaluate(list(operands), spec.unpack(spec.pack(attrs)))


def conv(x, w, **attrs):
    return run("conv2d", x, w, **attrs)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("height", "width", "pads"), [(9, 7, (1, 1, 1, 1)), (6, 10, (0, 2, 3, 1)), (5, 5, (0, 0, 0, 0))]
)
def test_both_axes_one_after_the_other_are_the_convolution(name, height, width, pads):
    by, some = ALGORITHMS[name], np.random.default_rng(0)
    x, w = some.standard_normal((2, 4, height, width)), some.standard_normal((6, 2, by.taps, by.taps))
    wanted = conv(x, w, pads=pads, groups=2)
    n = by.products
    inner = run(f"winograd_input_rows_{name}", x, first=pads[0], last=pads[2])
    inner = run(f"winograd_input_columns_{name}", inner, first=pads[1], last=pads[3])
    weight = run(f"winograd_weight_columns_{name}", run(f"winograd_weight_rows_{name}", w))
    products = conv(inner, weight, groups=2 * n * n)
    rows, columns = wanted.shape[-2:]
    y = run(f"winograd_output_columns_{name}", products, count=columns)
    y = run(f"winograd_output_rows_{name}", y, count=rows)
    np.testing.assert_allclose(y, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_every_law_is_a_theorem_and_typed(rule):
    assert is_theorem(RULES[rule])
    assert proof_record(RULES[rule])["typed"]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_law_for_each_axis(axis, name):
    assert f"winograd-{axis}-{name.replace('_', '-')}" in RULES


def wrong_matrices(by, choose):
    """Return an algorithm with one wrong number in one of its matrices."""
    which, plus = choose.choice(("input", "weight", "output")), choose.choice((-1, 1, 3))
    rows = getattr(by, which)
    place = choose.randrange(len(rows)), choose.randrange(len(rows[0]))
    changed = tuple(
        tuple(x + plus * ((i, k) == place) for k, x in enumerate(row)) for i, row in enumerate(rows)
    )

    class Wrong(Algorithm):
        """An algorithm of which one number is another."""

    setattr(Wrong, which, property(lambda self: changed))
    return Wrong(by.outputs, by.taps, by.points)


#: Wrong tilings of a law along rows and of one along columns: a piece of its right side, and another.
TILINGS = {
    "rows": (
        ("count=dim(x, -2)", "count=1 + dim(x, -2)"), ("first=t", "first=b"), ("last=b", "last=t"),
        ("first=t, last=b", "first=t + 1, last=b - 1"), ("pads=(0, l, 0, r)", "pads=(0, r, 0, l)"),
        ("dilations=(1, d)", "dilations=(1, 1)"), ("strides=(1, s)", "strides=(1, 1)"), (" * g", " * 1"),
        ("weight_rows_4_3(", "weight_rows_4_3_whole("), ("input_rows_4_3[", "input_rows_4_3_whole["),
        ("output_rows_4_3[", "output_rows_4_3_whole["), ("input_rows_4_3[", "input_rows_2_5["),
        ("(x), winograd", "(relu(x)), winograd"), ("dim(w, -2) = 3", "dim(w, -2) = 2"),
    ),
    "columns": (
        ("count=dim(x, -1)", "count=dim(x, -1) - 1"), ("first=l", "first=r"), ("last=r", "last=l"),
        ("first=l, last=r", "first=l - 1, last=r + 1"), ("pads=(t, 0, b, 0)", "pads=(b, 0, t, 0)"),
        ("dilations=(d, 1)", "dilations=(1, 1)"), ("strides=(s, 1)", "strides=(1, 1)"), (" * g", " * 1"),
        ("weight_columns_4_3(", "weight_columns_4_3_whole("), ("dim(w, -1) = 3", "dim(w, -1) = 4"),
    ),
}  # fmt: skip


def is_not_proved(variant, rule):
    """Assert that a rule's proof is not one of a variant of the rule."""
    with pytest.raises(Rejected):
        check(variant, proof_record(rule))


@pytest.mark.slow
@pytest.mark.skipif(solver() is None, reason="no z3")
@pytest.mark.parametrize("times", [1, pytest.param(13, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("axis", AXES)
def test_wrong_numbers_in_the_matrices_are_refuted(axis, times):
    choose = random.Random(f"{axis} {times}")
    for name in ["2_3", "2_3", "4_3"] * times:
        rule = RULES[f"winograd-{axis}-{name.replace('_', '-')}"]
        for made in operators(axis, f"{name}_wrong", wrong_matrices(ALGORITHMS[name], choose)):
            register(made)
        (variant,) = parse_rule(format_rule(rule).replace(f"_{name}", f"_{name}_wrong"))
        is_not_proved(variant, rule)
        assert search(variant, 12).counterexample is not None


@pytest.mark.skipif(solver() is None, reason="no z3")
@pytest.mark.parametrize(
    ("axis", "change"), in_turn([(a, c) for a, changes in TILINGS.items() for c in changes], 1, quick=4)
)
def test_a_wrong_tiling_is_not_accepted(axis, change):
    rule = RULES[f"winograd-{axis}-4-3"]
    law = format_rule(rule)
    assert law.count(change[0])
    left, _, right = law.partition(" => ")
    (variant,) = parse_rule(f"{left} => {right.replace(*change, 1)}")
    is_not_proved(variant, rule)


def test_a_family_of_operators_is_known_by_name_and_in_no_list():
    assert spec_of("winograd_input_rows_4_3").name == "winograd_input_rows_4_3"
    with pytest.raises(LookupError):
        spec_of("winograd_input_rows_9_9")
