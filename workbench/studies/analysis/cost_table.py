"""The cost of a model by operator and by node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from workbench.costs.model import CostModel
from workbench.costs.pricing import node_costs
from workbench.costs.registry import cost_model
from workbench.graph import Graph
from workbench.graph.text import format_attr
from workbench.ops import spec_of
from workbench.ops.inputs_and_opaque import REFERENCES


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """The cost of all nodes of one operator together, in microseconds."""

    op: str
    count: int
    cost: float
    share: float


@dataclass(frozen=True, slots=True)
class NodeCost:
    """The cost of one node in microseconds, with its operation as text."""

    node: int
    op: str
    cost: float
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class CostTable:
    """The costs of a graph, the highest first; work on weights alone is free and not listed."""

    operators: tuple[OperatorCost, ...]
    nodes: tuple[NodeCost, ...]
    total: float
    source: str

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "total": self.total,
            "cost_source": self.source,
            "operators": [
                {"operator": o.op, "nodes": o.count, "cost": o.cost, "share": o.share} for o in self.operators
            ],
            "nodes": [
                {"node": n.node, "operator": n.op, "cost": n.cost, "share": n.share, "operation": n.text}
                for n in self.nodes
            ],
        }


def cost_table(graph: Graph, cost: str | os.PathLike[str] | CostModel = "analytic") -> CostTable:
    """Price a graph with a cost model, given as an object or by name as in :func:`workbench.optimize`."""
    model = cost_model(cost)
    model.bind(graph)
    costs = node_costs(graph, model).tolist()
    total = sum(costs)
    constant, live = graph.constant(), graph.reachable()
    nodes = []
    by_operator: dict[str, list[float]] = {}
    for i, node in enumerate(graph.nodes):
        if constant[i] or not live[i] or node.op in REFERENCES:
            continue
        by_operator.setdefault(node.op, []).append(costs[i])
        nodes.append(NodeCost(i, node.op, costs[i], costs[i] / total if total else 0.0, _text(graph, i)))
    operators = [
        OperatorCost(op, len(found), sum(found), sum(found) / total if total else 0.0)
        for op, found in by_operator.items()
    ]
    return CostTable(
        tuple(sorted(operators, key=lambda o: (-o.cost, o.op))),
        tuple(sorted(nodes, key=lambda n: (-n.cost, n.node))),
        total,
        model.source,
    )


def _text(graph: Graph, i: int) -> str:
    node = graph.nodes[i]
    shown = [
        f"{a.name}={format_attr(v)}"
        for a, v in zip(spec_of(node.op).attrs, node.attrs, strict=True)
        if v != a.default and a.kind != "shape"
    ]
    operands = ", ".join(str(graph.nodes[j].type) for j in node.inputs)
    attrs = f"[{', '.join(shown)}]" if shown else ""
    return f"{node.op}{attrs}({operands}) → {node.type}"
