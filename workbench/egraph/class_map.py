"""The e-classes that hold the values of a graph."""

from __future__ import annotations

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph


def eclasses_of(graph: Graph, egraph: EGraph) -> tuple[int, ...]:
    """Return the e-class of every node of a graph, -1 for a node that the e-graph does not have.

    Inputs and weights are found by name, operators by their attributes and the e-classes of their operands.
    """
    known = {
        (egraph.ops[i], egraph.attrs[i], tuple(egraph.operands(i).tolist())): int(egraph.eclass[i])
        for i in range(len(egraph))
    }
    found: list[int] = []
    for node in graph.nodes:
        found.append(known.get((node.op, node.attrs, tuple(found[j] for j in node.inputs)), -1))
    return tuple(found)
