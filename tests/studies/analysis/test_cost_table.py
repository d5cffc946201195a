"""The cost of a model by operator and by node."""

import pytest

from tests.costs.networks import network
from workbench.costs import graph_cost
from workbench.costs.analytic import AnalyticCost
from workbench.studies.analysis.cost_table import cost_table


def test_operators_and_nodes_add_up_and_the_most_expensive_come_first():
    table = cost_table(network(), "analytic:cpu")
    assert table.total == pytest.approx(graph_cost(network(), AnalyticCost("cpu")))
    assert table.source == "analytic roofline, cpu"
    for rows in (table.operators, table.nodes):
        assert rows["cost"].sum() == pytest.approx(table.total)
        assert rows["share"].sum() == pytest.approx(1.0)
        assert rows["cost"].is_monotonic_decreasing
    counts = dict(zip(table.operators["operator"], table.operators["nodes"], strict=True))
    assert counts == {"conv2d": 2, "add": 1, "softmax": 1, "reshape": 1}
    first = table.nodes["operation"].iloc[0]
    assert "conv2d" in first
    assert "float32[8, 4, 3, 3]" in first


def test_plain_data():
    record = cost_table(network(), AnalyticCost("cpu")).summary()
    assert record["cost_source"] == "analytic roofline, cpu"
    assert len(record["nodes"]) == 5
    assert record["operators"][0]["operator"] == "conv2d"
