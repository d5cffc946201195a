"""Encoders read at one row: both forms are equal, and the default rules find the one rewritten by hand."""

import numpy as np
import pytest

import workbench
from workbench.certification.inputs import random_inputs
from workbench.costs import node_costs
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import import_onnx, to_onnx
from workbench.graph import evaluate
from zoo.movement.encoders import first_token, pre_normed

SMALL = {"width": 32, "heads": 2, "positions": 24, "words": 50}


def differ(graph, other):
    inputs = random_inputs(graph, 7, 0)
    (expected,) = evaluate(graph, inputs, precise=True).values()
    (found,) = evaluate(other, inputs, precise=True).values()
    return float(np.abs(expected - found).max() / np.abs(expected).max())


@pytest.mark.parametrize("given", [{}, {"layers": 1, "labels": 3}, {"batch": 2}, {"mask": False, "heads": 4}])
def test_the_form_by_hand_is_equal(given):
    graph, by_hand = (first_token(**SMALL | given, by_hand=hand) for hand in (False, True))
    assert graph.input_types == by_hand.input_types
    assert differ(graph, by_hand) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"layers": 1, "labels": 3}, {"layers": 1, "batch": 2}, {"mask": False}])
def test_the_default_rules_find_what_people_write(given):
    graph, by_hand = (first_token(**SMALL | given, by_hand=hand) for hand in (False, True))
    result = workbench.optimize(import_onnx(to_onnx(graph)).graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert result.stop_reason.value == "saturated"
    assert result.cost_after < 1.02 * node_costs(by_hand, AnalyticCost()).sum()
    # The wide layer of the last block sees one row of every sequence.
    wide = [n.tensor.shape for n in result.graph.nodes if n.op == "gelu"]
    assert wide[-1][-2] == 1 or wide[-1] == (1, 128)


SHORT = {"layers": 2, "width": 32, "heads": 2, "positions": 20, "labels": 7}


@pytest.mark.parametrize("given", [{}, {"batch": 2}, {"read": "last"}, {"read": "last", "layers": 1}])
def test_both_forms_of_a_transformer_that_normalises_first_are_equal(given):
    graph, by_hand = (pre_normed(**SHORT | given, by_hand=hand) for hand in (False, True))
    assert differ(graph, by_hand) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("read", ["first", "last"])
def test_one_row_of_a_transformer_is_computed_alone(read):
    graph, by_hand = (
        pre_normed(**SHORT | {"read": read, "layers": 1}, by_hand=hand) for hand in (False, True)
    )
    result = workbench.optimize(import_onnx(to_onnx(graph)).graph, cost="analytic", time=False)
    assert result.certificate.passed
    assert result.stop_reason.value == "saturated"
    assert result.cost_after < 1.03 * node_costs(by_hand, AnalyticCost()).sum()


def test_a_row_is_the_first_or_the_last():
    with pytest.raises(ValueError, match="first or last"):
        pre_normed(read="middle")
