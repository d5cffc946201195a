"""Cost models: the cost of an operator instance, and the source of the figure."""

from workbench.costs.model import CostModel, OpInstance
from workbench.costs.pricing import (
    chosen_instances,
    egraph_instances,
    graph_cost,
    instances_of,
    node_costs,
    price_egraph,
)

__all__ = [
    "CostModel",
    "OpInstance",
    "chosen_instances",
    "egraph_instances",
    "graph_cost",
    "instances_of",
    "node_costs",
    "price_egraph",
]
