"""The tensor graph: types, nodes, builder, text form."""

from workbench.graph.evaluate import evaluate, fold_constants, fold_moves
from workbench.graph.graph import Graph, GraphBuilder, GraphError, Label, ModelInfo, Node, Opaque, topological
from workbench.graph.weights import Weight

__all__ = [
    "Graph",
    "GraphBuilder",
    "GraphError",
    "Label",
    "ModelInfo",
    "Node",
    "Opaque",
    "Weight",
    "evaluate",
    "fold_constants",
    "fold_moves",
    "topological",
]
