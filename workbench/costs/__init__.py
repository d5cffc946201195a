"""Cost models: what an operator instance costs, and where the figure comes from."""

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
