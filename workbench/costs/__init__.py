"""Cost models: the cost of an operator instance, and the source of the figure."""

from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import egraph_instances, graph_cost, instances_of, node_costs, price_egraph

__all__ = [
    "CostModel",
    "OpInstance",
    "egraph_instances",
    "graph_cost",
    "instances_of",
    "node_costs",
    "price_egraph",
]
