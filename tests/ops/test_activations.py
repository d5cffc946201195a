"""Activations that products compute: each is the operator of its table, and no other."""

import random

import numpy as np
import pytest

from tests.sampled import sampled
from workbench.graph import GraphBuilder, evaluate
from workbench.laws.verification.refuting.refute import search
from workbench.ops import ACTIVATIONS, TASO_ACTIVATIONS, spec_of
from workbench.ops.activations import activate, operator_of
from workbench.ops.exact import Arithmetic
from workbench.rules import load_rules, parse_rule, rule_set
from workbench.rules.verdicts import library
from workbench.saturation import Limits, Saturation

FUSED = [a for a in ACTIVATIONS if a != "none"]


@pytest.mark.parametrize("act", FUSED)
def test_a_product_with_an_activation_is_the_product_and_then_the_operator(act):
    spec, attrs = operator_of(act)
    b = GraphBuilder()
    x, w = b.input("x", (1, 2, 5, 5)), b.input("w", (3, 2, 3, 3))
    y = b.op(spec.name, b.op("conv2d", x, w), **attrs)
    graph = b.graph({"apart": y, "fused": b.op("conv2d", x, w, act=act)})
    rng = np.random.default_rng(0)
    feeds = {"x": 3 * rng.standard_normal((1, 2, 5, 5)), "w": rng.standard_normal((3, 2, 3, 3))}
    found = evaluate(graph, {k: v.astype(np.float32) for k, v in feeds.items()})
    apart, fused = found.values()
    np.testing.assert_array_equal(apart, fused)
    assert not np.array_equal(fused, np.maximum(fused, 0)) or act in ("relu", "relu6", "sigmoid")


def test_tasos_activations_have_its_numbers():
    assert ACTIVATIONS[: len(TASO_ACTIVATIONS)] == TASO_ACTIVATIONS == ("none", "sigmoid", "relu", "tanh")


def test_values():
    x = np.array([-4.0, 0.0, 1.5, 7.0])
    np.testing.assert_allclose(activate(x, "relu6"), [0, 0, 1.5, 6])
    np.testing.assert_allclose(activate(x, "hardswish"), [0, 0, 1.125, 7])
    np.testing.assert_allclose(activate(x, "silu"), x / (1 + np.exp(-x)))
    assert activate(x, "none") is x


@pytest.mark.parametrize(
    ("act", "needs"), [("none", "POLYNOMIAL"), ("relu", "ORDERED"), ("relu6", "RATIONAL"), ("gelu", "DIGITS")]
)
def test_the_arithmetic_is_that_of_the_operator(act, needs):
    assert spec_of("matmul").exact.arithmetic({"act": act}) is Arithmetic[needs]


@pytest.mark.parametrize("act", FUSED)
def test_the_library_fuses_each(act):
    spec, attrs = operator_of(act)
    b = GraphBuilder()
    x, w = b.input("x", (4, 3)), b.weight((3, 2))
    graph = b.graph({"y": b.op(spec.name, b.op("matmul", x, w), **attrs)})
    saturation = Saturation(graph, rule_set("fusion"), Limits(iterations=3))
    saturation.run()
    egraph = saturation.egraph()
    assert ("matmul", (act,)) in zip(egraph.ops, egraph.attrs, strict=True)


@pytest.mark.parametrize(
    "law",
    [
        "clip[low=0.0, high=5.0](matmul(x, w)) => matmul[act=relu6](x, w)",
        "clip[low=0.0](matmul(x, w)) => matmul[act=relu6](x, w)",
        "gelu[tanh=1](matmul(x, w)) => matmul[act=gelu](x, w)",
        "swish[alpha=1.702](matmul(x, w)) => matmul[act=silu](x, w)",
        "swish(matmul(x, w)) => matmul[act=hardswish](x, w)",
        "hardswish(matmul[act=a](x, w)) => matmul[act=hardswish](x, w)",
    ],
)
def test_the_activation_of_a_similar_operator_is_refuted(law):
    (rule,) = parse_rule(f"wrong: {law}")
    assert search(rule, draws=300).counterexample is not None


@pytest.mark.parametrize(
    "rule",
    sampled([r for r in load_rules(library() / "fusion.rules") if "-takes-" in r.name], 1, quick=3),
)
def test_a_law_of_fusion_has_no_counterexample(rule):
    found = search(rule, draws=20, seed=random.Random(rule.name).randrange(1000))
    assert found.counterexample is None
    assert len(found.passed) >= 10
