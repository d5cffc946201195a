"""The tensor graph: types, nodes, builder, text form."""

from workbench.graph.evaluate import evaluate, fold_constants, fold_moves
from workbench.graph.graph import Builder, Graph, GraphError, Label, ModelInfo, Node, Opaque
from workbench.graph.value import GraphBuilder, Value
from workbench.graph.weights import Weight

__all__ = [
    "Builder",
    "Graph",
    "GraphBuilder",
    "GraphError",
    "Label",
    "ModelInfo",
    "Node",
    "Opaque",
    "Value",
    "Weight",
    "evaluate",
    "fold_constants",
    "fold_moves",
]
