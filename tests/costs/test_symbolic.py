"""Prices at the sizes of symbolic dimensions: generic instances, sizes computed, weights of symbolic size."""

import numpy as np

from workbench.costs.analytic import AnalyticCost
from workbench.costs.model import OpInstance
from workbench.costs.pricing import price_egraph
from workbench.costs.symbolic import PricedAt
from workbench.graph import GraphBuilder
from workbench.ops import TensorType
from workbench.saturation import Limits, Saturation
from workbench.symbolic import Generic


def instance(rows):
    kind = TensorType("float32", (rows, 4))
    return OpInstance("relu", (), (kind,), kind, (False,))


def test_an_instance_of_generic_extents_has_the_price_of_the_chosen_size():
    model = PricedAt(AnalyticCost(), Generic({"n": 14_489}), {"n": 2})
    assert model.source.endswith(", at n=2")
    np.testing.assert_array_equal(
        model.price([instance(14_489), instance(7), instance(14_489)]),
        AnalyticCost().price([instance(2), instance(7), instance(2)]),
    )


def test_terms_that_would_be_weights_of_symbolic_size_cost_more_than_any_graph():
    b = GraphBuilder("ones")
    x = b.input("x", (14_489, 4))
    w = b.weight((1, 4))
    wide = b.op("expand", w, shape=(14_489, 4))
    graph = b.graph({"y": b.op("add", x, wide), "z": b.op("mul", x, b.op("relu", w))})
    with Saturation(graph, [], Limits(iterations=1)) as saturation:
        saturation.start_engine()
        egraph = saturation.egraph()
    model = PricedAt(AnalyticCost(), Generic({"n": 14_489}), {"n": 2})
    before = price_egraph(egraph, model)
    after = model.settle(egraph, before)
    for op, old, new in zip(egraph.ops, before, after, strict=True):
        assert (new > 1e9) if op == "expand" else (new == old)
