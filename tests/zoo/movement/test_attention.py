"""Attention at decode: both forms are equal, and the default rules find the one rewritten by hand."""

import numpy as np
import pytest

import workbench
from workbench.certification.inputs import random_inputs
from workbench.costs import node_costs
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import evaluate
from zoo.movement.attention import grouped_queries, latent

SMALL = {
    grouped_queries: {"heads": 8, "keys": 2, "depth": 16, "positions": 256},
    latent: {"heads": 4, "depth": 16, "values": 24, "rank": 32, "positions": 128},
}
VARIANTS = [
    (grouped_queries, {}),
    (grouped_queries, {"mask": True, "batch": 2}),
    (grouped_queries, {"keys": 1, "queries": 3}),
    (latent, {}),
    (latent, {"queries": 2}),
]


def differ(graph, other):
    inputs = random_inputs(graph, 7, 0)
    (expected,) = evaluate(graph, inputs, precise=True).values()
    (found,) = evaluate(other, inputs, precise=True).values()
    return float(np.abs(expected - found).max() / np.abs(expected).max())


@pytest.mark.parametrize(("family", "given"), [*VARIANTS, (latent, {"together": True})])
def test_the_form_by_hand_is_equal(family, given):
    graph, by_hand = (family(**SMALL[family] | given, by_hand=hand) for hand in (False, True))
    assert graph.input_types == by_hand.input_types
    assert differ(graph, by_hand) < 1e-5


@pytest.mark.parametrize(("family", "given"), VARIANTS)
def test_the_default_rules_find_what_people_write(family, given):
    graph, by_hand = (family(**SMALL[family] | given, by_hand=hand) for hand in (False, True))
    graph = import_onnx(to_onnx(graph)).graph
    result = workbench.optimize(graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert result.cost_after < 1.02 * node_costs(by_hand, AnalyticCost()).sum()
    assert result.cost_after < 0.8 * result.cost_before
    assert "repeat" not in result.graph.operators()


def test_heads_are_shared_by_whole_groups():
    with pytest.raises(ValueError, match="multiple"):
        grouped_queries(heads=6, keys=4)
