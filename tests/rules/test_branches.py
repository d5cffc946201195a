"""The rules of branches: their statements, and the tempting wrong versions of them."""

from collections import Counter

import numpy as np
import pytest

from workbench import optimize
from workbench.graph import GraphBuilder
from workbench.laws.verification.refuting.refute import search
from workbench.rules import load_rules, parse_rule, parse_rules, rule_set
from workbench.rules.language import RuleSyntaxError
from workbench.rules.pattern import format_rule
from workbench.rules.ruleset import LEFT_OUT
from workbench.rules.verdicts import library, statuses

RULES = load_rules(library() / "branches.rules")


@pytest.mark.slow
def test_without_its_condition_on_sizes_a_sum_of_convolutions_is_wrong():
    # One of the two has a single output, which broadcasts over those of the other.
    law = format_rule(RULES["conv-sums-crossed"]).partition("  @")[0].partition(": ")[2]
    head, _, _ = law.partition(", (dim(x, -2)")
    (rule,) = parse_rule(f"sizes-forgotten: {head}")
    found = search(rule, draws=400)
    assert found.counterexample is not None, len(found.passed)


def test_each_is_known_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert not set(LEFT_OUT["default"]) & {r.name for r in rule_set("default")}
    assert not rule_set("default").weights
    assert rule_set("tensat-like").weights


def test_every_rule_says_where_it_is_from():
    assert all(rule.provenance for rule in RULES)


# -- where a rule is of use -----------------------------------------------------------------------------
def test_use_is_read_and_written():
    text = "some: add(add(x, a), y) => add(add(x, y), a) "
    text += "where rank(a) = 1, constant(a), running(y), distinct(x, y)"
    (rule,) = parse_rule(text)
    assert (rule.constants, rule.running, rule.distinct) == (("a",), ("y",), (("x", "y"),))
    assert format_rule(rule) == text
    assert parse_rules(format_rule(rule)) == parse_rules(text)


@pytest.mark.parametrize(
    "where", ["constant(q)", "running(3)", "distinct(x)", "distinct(x, q)", "constant x"]
)
def test_a_use_that_makes_no_sense_is_reported(where):
    with pytest.raises(RuleSyntaxError, match="rule"):
        parse_rule(f"some: add(x, y) => add(y, x) where {where}")


# -- what a law gains -------------------------------------------------------------------------------------
def test_a_scaler_goes_into_the_first_layer():
    """Pipelines of tabular data subtract a mean and divide by a deviation before the first product."""
    b, rng = GraphBuilder(), np.random.default_rng(5)
    mean, deviation = (rng.uniform(0.5, 2, 64).astype(np.float32) for _ in range(2))
    x = b.input("x", (512, 64))
    scaled = b.op("div", b.op("sub", x, b.weight(data=mean)), b.weight(data=deviation))
    y = b.op("add", b.op("matmul", scaled, b.weight((64, 32))), b.weight((32,)))
    result = optimize(b.graph({"y": b.op("relu", y)}), cost="analytic", time=False)
    assert result.certificate.passed
    assert result.cost_after < 0.6 * result.cost_before
    running = [n.op for n, c in zip(result.graph.nodes, result.graph.constant(), strict=True) if not c]
    assert Counter(running) == {"input": 1, "matmul": 1, "add": 1, "relu": 1}


def test_channels_that_nobody_reads_are_not_computed():
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (1, 32, 28, 28)), b.weight((64, 32, 3, 3)), pads=(1, 1, 1, 1))
    graph = b.graph({"y": b.op("slice", y, axis=-3, start=0, stop=16)})
    result = optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    (conv,) = (n for n in result.graph.nodes if n.op == "conv2d")
    assert conv.tensor.shape == (1, 16, 28, 28)
    assert result.cost_after < 0.7 * result.cost_before
