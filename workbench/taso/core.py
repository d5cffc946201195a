"""TASO's graph class on the workbench: built step by step, never aborting, never freed."""

from __future__ import annotations

import numpy as np

from workbench.graph import Graph, GraphBuilder
from workbench.graph import evaluate as evaluate_graph
from workbench.taso.errors import TasoError
from workbench.taso.introspection import TYPE_NAMES, Introspection
from workbench.taso.modes import get_activation_mode, get_data_type, get_padding_mode, op_table
from workbench.taso.operators import Operators
from workbench.taso.tensor import PyTensor

#: What TASO's module of this name has.
__all__ = [
    "PyGraph",
    "PyTensor",
    "get_activation_mode",
    "get_data_type",
    "get_padding_mode",
    "op_table",
]


class PyGraph(Operators, Introspection):
    """Build a graph through TASO's interface (``taso._cython.core.PyGraph``).

    Shapes and semantics are the workbench's: "SAME" is TASO's symmetric padding, groups of a
    convolution follow from the weight's shape, everything is float32 unless cast. An operand that does
    not fit raises :class:`TasoError` where TASO ends the process. Outputs are the values nothing reads.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._builder = GraphBuilder("taso", share=False)
        self._outputs: list[tuple[str, int]] | None = None
        if graph is not None:
            self._adopt(graph)

    def _adopt(self, graph: Graph) -> None:
        self._builder.name = graph.name
        self._builder.nodes = list(graph.nodes)
        self._builder.inputs = list(graph.inputs)
        self._builder.weights = dict(graph.weights)
        self._builder.opaques = dict(graph.opaques)
        self._outputs = list(graph.outputs)

    def graph(self) -> Graph:
        """Return the graph built so far; its outputs are the values nothing reads."""
        if self._outputs is None:
            read = {j for node in self._builder.nodes for j in node.inputs}
            last = [
                i
                for i, node in enumerate(self._builder.nodes)
                if i not in read and node.op not in ("input", "weight")
            ]
            if not last:
                raise TasoError("the graph computes nothing yet")
            self._outputs = [(f"output_{k}" if k else "output", i) for k, i in enumerate(last)]
        return self._builder.graph(self._outputs)

    def cost(self) -> float:
        """Return the sum of the operators' costs in milliseconds, by the analytic model."""
        from workbench.costs import graph_cost
        from workbench.costs.analytic import AnalyticCost

        return graph_cost(self.graph(), AnalyticCost()) / 1000

    def run_time(self) -> float:
        """Return the milliseconds of one run in ONNX Runtime on this machine's CPU, a median."""
        from workbench.timing import compare

        return compare(self.graph(), self.graph(), seconds=2.0).before / 1000

    def print_measurements(self) -> None:
        """Print the cost of every operator."""
        from workbench.costs import node_costs
        from workbench.costs.analytic import AnalyticCost

        graph = self.graph()
        for node, cost in zip(graph.nodes, node_costs(graph, AnalyticCost()), strict=True):
            if cost:
                print(f"{TYPE_NAMES.get(node.op, node.op)} {node.type}: {cost / 1000:.4f} ms")

    def optimize(self, alpha: float, budget: int, print_subst: bool = False) -> PyGraph:
        """Return the optimised graph; see :func:`workbench.taso.optimize`."""
        from workbench.taso import optimize

        return optimize(self, alpha, budget, print_subst)

    def evaluate(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run the graph on inputs in order of their declaration (not in TASO: for checking)."""
        graph = self.graph()
        names = list(graph.input_types)
        return list(evaluate_graph(graph, dict(zip(names, arrays, strict=True))).values())

    def __repr__(self) -> str:
        return f"PyGraph({self.graph()!r})" if self.get_operator_list() else "PyGraph(empty)"
