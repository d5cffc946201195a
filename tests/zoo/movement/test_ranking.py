"""Recommenders: both forms are equal, and the default rules find the one rewritten by hand."""

import numpy as np
import pytest

import workbench
from workbench.certification.inputs import random_inputs
from workbench.costs import node_costs
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import evaluate
from zoo.movement.ranking import recommender

SMALL = {"rows": 40, "width": 16, "hidden": 32}


def differ(graph, other):
    inputs = random_inputs(graph, 7, 0)
    (expected,) = evaluate(graph, inputs, precise=True).values()
    (found,) = evaluate(other, inputs, precise=True).values()
    return float(np.abs(expected - found).max() / np.abs(expected).max())


@pytest.mark.parametrize("given", [{}, {"tables": 1}, {"batch": 3, "dense": 5}])
def test_the_form_by_hand_is_equal(given):
    graph, by_hand = (recommender(**SMALL | given, by_hand=hand) for hand in (False, True))
    assert graph.input_types == by_hand.input_types
    assert differ(graph, by_hand) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"tables": 1}, {"tables": 5, "batch": 64}])
def test_tables_are_multiplied_before_the_model_runs(given):
    # Rows are many and wide enough for a first layer to cost more than the sums that take its place. By hand
    # the bias is in a table too; the rules leave it, as a table may have other readers.
    sizes = {"rows": 60, "width": 256, "hidden": 1024, "batch": 512}
    graph, by_hand = (recommender(**sizes | given, by_hand=hand) for hand in (False, True))
    result = workbench.optimize(import_onnx(to_onnx(graph)).graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert result.cost_after <= 1.1 * node_costs(by_hand, AnalyticCost()).sum() < 1.1 * result.cost_before
    assert not {"concat"} & set(result.graph.operators())


def test_a_table_does_not_grow_more_than_fourfold():
    graph = recommender(rows=30, width=16, hidden=1024, batch=512)
    result = workbench.optimize(import_onnx(to_onnx(graph)).graph, cost="analytic", time=False)
    assert "concat" in result.graph.operators()
