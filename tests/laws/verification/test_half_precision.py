"""16-bit floats: which rules drive values out of range."""

import pytest

from workbench.certification.half_precision import UNITS
from workbench.laws.verification.half_precision import judge_range, range_record
from workbench.rules import parse_rule, rule_set
from workbench.rules.verdicts import statuses

DEFAULT = {r.name: r for r in rule_set("default")}


@pytest.mark.parametrize("name", ["matmul-of-scaled", "scale-scale", "matmul-associates"])
def test_rules_that_move_a_scale_overflow_in_float16_and_not_in_bfloat16(name):
    fault = judge_range(DEFAULT[name], "float16")
    assert fault is not None
    assert fault.kind == "overflows"
    assert "about" in str(fault)
    other = judge_range(DEFAULT[name], "bfloat16")
    assert other is None or other.kind == "loses"


@pytest.mark.parametrize(
    "name",
    [
        "merge-matmuls",
        "relu-twice",
        "transpose-of-matmul",
        "concat-of-relus",
        "conv-takes-relu",
        "slice-twice",
    ],
)
def test_rules_that_move_no_magnitudes_keep_range_and_accuracy(name):
    assert range_record(DEFAULT[name]) == {"float16": "kept", "bfloat16": "kept"}


def test_a_rule_that_loses_digits_is_distinguished_from_one_that_overflows():
    # Equal over the reals; the right side takes a detour over numbers of another size.
    (losing,) = parse_rule("detour: mul(x, mul(y, reciprocal(y))) => mul(mul(x, y), reciprocal(y))")
    fault = judge_range(losing, "float16")
    assert fault is not None
    assert fault.kind in ("overflows", "loses")


def test_rules_of_the_library_are_recorded_for_both_types():
    known = statuses()
    for rule in rule_set("default"):
        assert known[rule.name]["ranges"].keys() == UNITS.keys(), rule.name


@pytest.mark.slow
def test_the_record_is_what_judging_gives():
    for name in ("relu-twice", "mul-by-neg", "scale-scale"):
        assert statuses()[name]["ranges"] == range_record(DEFAULT[name])
