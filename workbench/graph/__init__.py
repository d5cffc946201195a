"""The tensor graph: types, nodes, builder, text form."""

from workbench.graph.builder import GraphBuilder
from workbench.graph.evaluate import evaluate, fold_constants, fold_moves
from workbench.graph.graph import Graph, GraphError, Node, Opaque, topological
from workbench.graph.metadata import Label, ModelInfo
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
