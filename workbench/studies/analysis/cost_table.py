"""The cost of a model by operator and by node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.costs.pricing import node_costs
from workbench.costs.registry import Given, cost_model
from workbench.graph import Graph
from workbench.graph.text import format_attr
from workbench.ops import spec_of
from workbench.ops.inputs_and_opaque import REFERENCES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """The costs of a graph in µs by operator and by node, the highest first, without work on weights alone."""

    operators: pd.DataFrame
    nodes: pd.DataFrame
    total: float
    source: str

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "total": self.total,
            "cost_source": self.source,
            "operators": self.operators.to_dict("records"),
            "nodes": self.nodes.to_dict("records"),
        }


def cost_table(graph: Graph, cost: str | os.PathLike[str] | Given = "analytic") -> CostTable:
    """Price a graph with a cost model, given as an object or by name as in :func:`workbench.optimize`."""
    import pandas as pd

    model = cost_model(cost)
    model.bind(graph)
    costs = node_costs(graph, model).tolist()
    total = sum(costs)
    constant, live = graph.constant(), graph.reachable()
    rows = [
        (i, node.op, costs[i], costs[i] / total if total else 0.0, _text(graph, i))
        for i, node in enumerate(graph.nodes)
        if not constant[i] and live[i] and node.op not in REFERENCES
    ]
    nodes = pd.DataFrame(rows, columns=["node", "operator", "cost", "share", "operation"])
    found = nodes.groupby("operator", as_index=False).agg(
        nodes=("node", "count"), cost=("cost", "sum"), share=("share", "sum")
    )
    down = [False, True]
    return CostTable(
        found.sort_values(["cost", "operator"], ascending=down),
        nodes.sort_values(["cost", "node"], ascending=down),
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
