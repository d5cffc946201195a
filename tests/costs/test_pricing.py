import numpy as np
import pytest

from tests.costs.networks import network
from workbench.costs import (
    CostModel,
    egraph_instances,
    graph_cost,
    instances_of,
    node_costs,
    price_egraph,
)
from workbench.costs.analytic import AnalyticCost
from workbench.egraph.egraph import EGraph
from workbench.graph import GraphBuilder


class Counting(CostModel):
    """A cost model with one price for all instances, which records the instances it was asked for."""

    source = "counting"

    def __init__(self):
        self.asked = []

    def price(self, instances):
        self.asked += instances
        return np.full(len(instances), 3.0)


def egraph_of(graph):
    """Return a graph as an e-graph of one e-node per e-class."""
    n = len(graph)
    sizes = [len(node.inputs) for node in graph.nodes]
    return EGraph(
        ops=tuple(node.op for node in graph.nodes),
        attrs=tuple(node.attrs for node in graph.nodes),
        child_start=np.cumsum([0, *sizes]),
        children=np.array([i for node in graph.nodes for i in node.inputs], dtype=np.int64),
        eclass=np.arange(n),
        n_classes=n,
        roots=tuple(i for _, i in graph.outputs),
        types=tuple(node.type for node in graph.nodes),
        birth_rule=np.full(n, -1),
        birth_step=np.zeros(n),
    )


def weighty():
    """Return two equal products with a weight that is itself computed."""
    b = GraphBuilder()
    w = b.op("mul", b.weight((16, 16)), b.weight((16, 16)))
    y = b.op("matmul", b.op("matmul", b.input("x", (8, 16)), w), b.weight((16, 16)))
    return b.graph({"y": y})


def test_weight_only_work_is_free_and_equal_instances_cost_alike():
    graph = weighty()
    costs = node_costs(graph, AnalyticCost())
    of = [(n.op, c) for n, c in zip(graph.nodes, costs, strict=True)]
    assert all(c == 0 for op, c in of if op in ("mul", "weight", "input"))
    products = [c for op, c in of if op == "matmul"]
    assert products[0] == products[1] > 0
    assert graph_cost(graph, AnalyticCost()) == pytest.approx(sum(products))


@pytest.mark.parametrize("make", [weighty, network, lambda: constants()])
def test_a_graph_and_its_egraph_are_priced_alike(make):
    graph = make()
    np.testing.assert_array_equal(
        price_egraph(egraph_of(graph), AnalyticCost()), node_costs(graph, AnalyticCost())
    )


def test_each_instance_is_priced_once():
    for price in (lambda m: price_egraph(egraph_of(weighty()), m), lambda m: node_costs(weighty(), m)):
        model = Counting()
        assert isinstance(model, CostModel)
        assert price(model).sum() == 6.0
        assert len(model.asked) == 1


def constants():
    """Return products with generated constants, and one with a constant computed from them."""
    b = GraphBuilder()
    x, eye = b.input("x", (4, 4)), b.op("eye", size=4)
    y = b.op("matmul", b.op("matmul", x, eye), b.op("mul", eye, b.op("ones", shape=(4,))))
    return b.graph({"y": y})


def test_constants_cost_nothing_and_are_constant_operands():
    graph = constants()
    model = Counting()
    assert price_egraph(egraph_of(graph), model).sum() == node_costs(graph, model).sum() == 6.0
    assert {(i.op, i.constant) for i in model.asked} == {("matmul", (False, True))}


def test_what_a_selection_runs():
    graph = network()
    egraph = egraph_of(graph)
    assert set(egraph_instances(egraph, np.arange(len(graph)))) == set(instances_of(graph))
    nothing = np.full(len(graph), -1)
    assert egraph_instances(egraph, nothing) == []
