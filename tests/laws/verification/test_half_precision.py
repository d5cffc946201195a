"""16-bit floats: which rules drive values out of range, whether a rewritten region stays in it."""

import numpy as np
import pytest

import workbench
from workbench.graph import GraphBuilder
from workbench.laws.verification.half_precision import (
    UNITS,
    judge_range,
    keeps_range,
    range_fault,
    range_record,
    rounded,
    rules_for,
    short_dtype,
)
from workbench.optimizer.summary import summary_rows
from workbench.rules import parse_rule, rule_set
from workbench.rules.verdicts import statuses

DEFAULT = {r.name: r for r in rule_set("default")}


def test_rounding_is_that_of_the_type():
    values = np.array([1 + 2.0**-11, 1 + 2.0**-8, 65519.0, 65520.0, 1e-8])
    assert rounded(values, "float16").tolist() == [1.0, 1 + 2.0**-8, 65504.0, np.inf, 0.0]
    assert rounded(values, "bfloat16")[:3].tolist() == [1.0, 1.0, 65536.0]


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


def _attention(scaled_first, dtype="float16", number=0.125):
    b = GraphBuilder("attention")
    q, k = b.input("q", (1, 4, 64), dtype), b.input("k", (1, 64, 4), dtype)
    s = b.weight(data=np.full((1, 1, 1), number).astype(np.float32 if dtype == "float32" else np.float16))
    if scaled_first:
        return b.graph({"y": b.op("matmul", b.op("mul", q, s), k)})
    return b.graph({"y": b.op("mul", b.op("matmul", q, k), s)})


def _boundary(deviation):
    rng = np.random.default_rng(0)
    return [
        {"q": rng.standard_normal((1, 4, 64)) * deviation, "k": rng.standard_normal((1, 64, 4)) * deviation}
    ]


def test_a_region_that_undoes_a_scale_is_refused_where_it_overflows_only():
    fault = range_fault(_attention(True), _attention(False), _boundary(150.0))
    assert fault is not None
    assert (fault.kind, fault.dtype) == ("overflows", "float16")
    assert "matmul" in fault.where
    assert range_fault(_attention(True), _attention(False), _boundary(1.0)) is None
    assert range_fault(_attention(False), _attention(True), _boundary(1.0)) is None
    # Where the original overflows itself nothing is asked of the other.
    assert range_fault(_attention(False), _attention(True), _boundary(150.0)) is None


def test_a_region_that_loses_digits_is_refused():
    def graph(numbers):
        b = GraphBuilder("products")
        y = b.input("x", (64,), "float16")
        for number in numbers:
            y = b.op("mul", y, b.weight(data=np.full((1,), number, np.float16)))
        return b.graph({"y": y})

    drawn = [{"x": np.random.default_rng(0).standard_normal(64)}]
    fault = range_fault(graph([1000.0, 1e-6]), graph([1e-6, 1000.0]), drawn)
    assert fault is not None
    assert fault.kind == "loses"
    assert fault.error > 8 * fault.own
    assert range_fault(graph([1e-6, 1000.0]), graph([1000.0, 1e-6]), drawn) is None


def test_other_types_are_not_asked():
    assert short_dtype(_attention(True, "float32")) is None
    assert short_dtype(_attention(True)) == "float16"
    assert range_fault(_attention(True, "float32"), _attention(False, "float32"), _boundary(150.0)) is None
    rules = rule_set("default")
    assert rules_for(_attention(True, "float32"), rules) == (rules, ())


def test_a_graph_of_short_floats_is_rewritten_by_the_rules_that_keep_them():
    kept, left_out = rules_for(_attention(True), rule_set("default"))
    assert "matmul-of-scaled" in left_out
    assert "merge-matmuls" not in left_out
    assert len(kept) + len(left_out) == len(rule_set("default"))
    assert all(keeps_range(rule, "float16") for rule in kept)


def test_rules_of_the_library_are_recorded_for_both_types():
    known = statuses()
    for rule in rule_set("default"):
        assert known[rule.name]["ranges"].keys() == UNITS.keys(), rule.name


def test_the_record_is_what_judging_gives():
    for name in ("relu-twice", "mul-by-neg", "scale-scale"):
        assert statuses()[name]["ranges"] == range_record(DEFAULT[name])


def test_half_precision_attention_stays_finite_and_the_summary_says_what_was_left_out():
    result = workbench.optimize(_attention(True), e_nodes=2000, seconds=20)
    assert "matmul-of-scaled" in result.settings["left_out"]
    assert range_fault(result.original, result.graph, _boundary(150.0)) is None
    (row,) = [r for r in summary_rows(result) if r.what == "range"]
    assert row.figures.startswith(f"{len(result.settings['left_out'])} rules left out")
    single = workbench.optimize(_attention(True, "float32"), e_nodes=2000, seconds=20)
    assert "left_out" not in single.settings
