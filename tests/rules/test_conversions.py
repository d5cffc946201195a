"""The laws of conversions between element types, for which conditions compare element types."""

from pathlib import Path

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder, evaluate
from workbench.laws.verification import Verification
from workbench.ops.types import contains
from workbench.rules import load_rules, parse_rule
from workbench.rules.language import RuleSyntaxError
from workbench.saturation import Saturation

WRONG = load_rules(Path(__file__).parent / "wrong_conversions.rules")


def test_rules_of_conversions_are_not_proved_over_the_real_numbers():
    verification = Verification([*WRONG][-1:])
    verification.run()
    (verdict,) = verification.verdicts
    assert verdict.verdict == "refuted"
    assert not verdict.contradiction


@pytest.mark.parametrize("narrow", ["float16", "int8", "uint8", "int16", "uint16", "bool"])
@pytest.mark.parametrize("wide", ["float16", "float32", "float64", "int8", "uint8", "int16", "int32"])
def test_what_a_type_contains(narrow, wide):
    numbers = np.arange(-(1 << 16), 1 << 16) if narrow != "float16" else np.linspace(-200, 200, 999)
    numbers = np.unique(numbers.astype(narrow))
    with np.errstate(all="ignore"):
        same = (numbers.astype(wide).astype(np.float64) == numbers.astype(np.float64)).all()
    assert contains(wide, narrow) == bool(same)


def converted(first, between, last):
    b = GraphBuilder()
    x = b.op("cast", b.op("neg", b.input("x", (2, 3), first)), to=between)
    return b.graph({"y": b.op("cast", x, to=last)})


@pytest.mark.parametrize(
    ("first", "between", "last", "left"),
    [
        ("float16", "float32", "float16", 0),
        ("float16", "float32", "float64", 1),
        ("bfloat16", "float32", "bfloat16", 0),
        ("float32", "float16", "float32", 2),
        ("float16", "bfloat16", "float32", 2),
        ("float32", "float64", "float16", 1),
    ],
)
def test_the_engine_compares_element_types(first, between, last, left):
    result = optimize(converted(first, between, last), cost="analytic", time=False)
    assert result.certificate.passed
    assert sum(n.op == "cast" for n in result.graph.nodes) == left


def test_the_engine_compares_with_a_name():
    (rule,) = [
        parse_rule("half: cast[to=d](cast[to=e](x)) => cast[to=d](x) where dtype(x) = float16, e >= dtype(x)")
    ]
    for first, found in (("float16", True), ("bfloat16", False)):
        with Saturation(converted(first, "float32", first), rule) as run:
            run.run()
            assert (run.e_nodes == 5) == found


@pytest.mark.parametrize(
    "condition",
    ["dtype(x) < e", "dtype(x) = 1", "e < dtype(x)", "rank(x) = float16"],
)
def test_what_an_element_type_does_not_compare_with(condition):
    with pytest.raises(RuleSyntaxError, match="element type"):
        parse_rule(f"law: cast[to=d](cast[to=e](x)) => cast[to=d](x) where {condition}")


def test_a_conversion_written_back_after_moves_costs_nothing():
    """Exporters for mixed precision convert around operators that have no kernel in half precision."""
    b = GraphBuilder()
    parts = []
    for k in range(2):
        x = b.op("cast", b.input(f"x{k}", (8, 64, 64), "float16"), to="float32")
        x = b.op("reshape", b.op("transpose", b.op("relu", x), perm=(0, 2, 1)), shape=(8, 4096))
        parts.append(x)
    whole = b.op("cast", b.op("concat", *parts, axis=-1), to="float16")
    graph = b.graph({"y": whole})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert not any(n.op == "cast" for n in result.graph.nodes)
    assert result.cost_after < 0.75 * result.cost_before
    feeds = {
        f"x{k}": np.random.default_rng(k).standard_normal((8, 64, 64)).astype(np.float16) for k in range(2)
    }
    (before,), (after,) = (evaluate(g, feeds).values() for g in (graph, result.graph))
    np.testing.assert_array_equal(before, after)
