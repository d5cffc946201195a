"""TASO's graph class on the workbench: it never ends the process, and its tensors stay valid."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from workbench.costs import graph_cost, node_costs
from workbench.costs.analytic import AnalyticCost
from workbench.graph import Builder, Graph
from workbench.graph import evaluate as evaluate_graph
from workbench.ops import AttrValue
from workbench.studies.taso.modes import (
    TasoError,
    get_activation_mode,
    get_data_type,
    get_padding_mode,
    op_table,
)
from workbench.studies.taso.operators import Operators, PyTensor

#: The names in TASO's module ``core``.
__all__ = [
    "PyGraph",
    "PyTensor",
    "get_activation_mode",
    "get_data_type",
    "get_padding_mode",
    "op_table",
]

#: TASO's names of operators.
_TYPE_NAMES: Final[dict[str, str]] = {
    "conv2d": "Conv", "maxpool": "MaxPool", "avgpool": "AveragePool", "relu": "Relu",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "batchnorm": "BatchNormalization", "concat": "Concat",
    "slice": "Slice", "reshape": "Reshape", "transpose": "Transpose", "add": "Add", "mul": "Mul",
    "sub": "Sub", "div": "Div", "max": "Max", "min": "Min", "matmul": "MatMul", "identity": "Dropout",
    "enlarge": "Enlarge", "merge_gconv": "MergeGConv", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "cast": "Cast", "reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax",
    "leakyrelu": "LeakyRelu", "pad": "Pad", "softmax": "Softmax",
}  # fmt: skip


class PyGraph(Operators):
    """A graph that is built through TASO's interface (``taso._cython.core.PyGraph``).

    Shapes and semantics are the workbench's: "SAME" is TASO's symmetric padding, the groups of a
    convolution follow from the weight's shape, and everything is float32 unless cast. An operand that does
    not fit raises :class:`TasoError`; TASO would end the process. Outputs are the values that no operator
    reads.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._builder = Builder("taso", share=False)
        self._outputs: list[tuple[str, int]] | None = None
        if graph is None:
            return
        self._builder.name = graph.name
        self._builder.nodes = list(graph.nodes)
        self._builder.inputs = list(graph.inputs)
        self._builder.weights = dict(graph.weights)
        self._builder.opaques = dict(graph.opaques)
        self._outputs = list(graph.outputs)

    def graph(self) -> Graph:
        """Return the graph built so far; its outputs are the values that no operator reads.

        Raise :class:`TasoError` if the graph has no operator yet.
        """
        if self._outputs is None:
            read = {j for node in self._builder.nodes for j in node.inputs}
            last = [
                i
                for i, node in enumerate(self._builder.nodes)
                if i not in read and node.op not in ("input", "weight")
            ]
            if not last:
                raise TasoError("the graph must have at least one operator, got none")
            self._outputs = [(f"output_{k}" if k else "output", i) for k, i in enumerate(last)]
        return self._builder.graph(self._outputs)

    def cost(self) -> float:
        """Return the sum of the operators' costs in milliseconds, under the analytic model."""
        return graph_cost(self.graph(), AnalyticCost()) / 1000

    def run_time(self) -> float:
        """Return the median milliseconds of a run in ONNX Runtime on this machine's CPU."""
        from workbench.devices.ranking import compare

        return compare(self.graph(), self.graph(), seconds=2.0).before / 1000

    def print_measurements(self) -> None:
        """Print the cost of every operator in milliseconds, under the analytic model."""
        graph = self.graph()
        for node, cost in zip(graph.nodes, node_costs(graph, AnalyticCost()), strict=True):
            if cost:
                print(f"{_TYPE_NAMES.get(node.op, node.op)} {node.type}: {cost / 1000:.4f} ms")

    def optimize(self, alpha: float, budget: int, print_subst: bool = False) -> PyGraph:
        """Return the optimised graph; see :func:`workbench.studies.taso.optimize`."""
        return optimize(self, alpha, budget, print_subst)

    def evaluate(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for inputs in the order of declaration (not part of TASO's interface)."""
        graph = self.graph()
        names = list(graph.input_types)
        return list(evaluate_graph(graph, dict(zip(names, arrays, strict=True))).values())

    # -- inspection -------------------------------------------------------------------------------
    def get_operator_list(self) -> list[dict[str, int]]:
        """Return the operators in topological order, without inputs and weights."""
        return [
            {"guid": i, "ptr": i}
            for i, node in enumerate(self._builder.nodes)
            if node.op not in ("input", "weight", "project")
        ]

    def get_input_edges(self, op: dict[str, int]) -> list[dict[str, Any]]:
        """Return the edges into an operator."""
        node = self._builder.nodes[op["guid"]]
        return [
            {"srcOp": {"guid": j, "ptr": j}, "dstOp": op, "srcIdx": 0, "dstIdx": k}
            for k, j in enumerate(node.inputs)
        ]

    def get_input_dims(self, op: dict[str, int], idx: int) -> list[int]:
        """Return the shape of an operand."""
        return list(self._builder.type(self._builder.nodes[op["guid"]].inputs[idx]).shape)

    def get_output_dims(self, op: dict[str, int], idx: int) -> list[int]:
        """Return the shape of a result."""
        return list(self._builder.type(op["guid"]).shape)

    def get_num_outputs(self, op: dict[str, int]) -> int:
        """Return the number of results, which is always 1."""
        return 1

    def get_weight_value(self, op: dict[str, int]) -> np.ndarray:
        """Return the data of a weight."""
        node = self._builder.nodes[op["guid"]]
        if node.op != "weight":
            raise TasoError(f"operator {op['guid']} must be a weight, got {node.op}")
        return self._builder.weights[str(node.attrs[0])].value()

    def get_split_lens(self, op: dict[str, int]) -> list[int]:
        """Return the sizes of the parts of a split, each of which is an operator here; any of them will do."""
        node = self._builder.nodes[op["guid"]]
        if node.op != "slice":
            raise TasoError(f"operator {op['guid']} must be a part of a split, got {node.op}")
        parts = {
            (other.attr("start"), other.attr("stop"))
            for other in self._builder.nodes
            if other.op == "slice" and (other.inputs, other.attr("axis")) == (node.inputs, node.attr("axis"))
        }
        return [stop - start for start, stop in sorted(parts)]

    def get_operator_type(self, op: dict[str, int]) -> str:
        """Return TASO's name of an operator's type."""
        node = self._builder.nodes[op["guid"]]
        if node.op == "opaque":
            return self._builder.opaques[str(node.attrs[0])].op_type
        return _TYPE_NAMES.get(node.op, {"input": "Input", "weight": "Weight"}.get(node.op, node.op))

    def get_operator_attr(self, op: dict[str, int], attrname: str) -> AttrValue | list[int]:
        """Return an attribute by its ONNX name."""
        node = self._builder.nodes[op["guid"]]
        ours = {"kernel_shape": "kernel", "group": "groups", "epsilon": "eps"}.get(attrname, attrname)
        if attrname == "split":
            return self.get_split_lens(op)
        if attrname == "kernel_shape" and node.op == "conv2d":
            return list(self.get_input_dims(op, 1)[2:])
        named = node.named_attrs()
        if ours not in named:
            raise TasoError(
                f"{node.op} has no attribute {attrname!r}. There are: {', '.join(named) or 'none'}"
            )
        value = named[ours]
        if ours == "axis":
            return value + len(self.get_output_dims(op, 0))
        return list(value) if isinstance(value, tuple) else value

    def __repr__(self) -> str:
        return f"PyGraph({self.graph()!r})" if self.get_operator_list() else "PyGraph(empty)"


def optimize(
    graph: PyGraph,
    alpha: float = 1.0,
    budget: int = 1000,
    print_subst: bool = False,
    *,
    method: str = "search",
    **options: Any,
) -> PyGraph:
    """Return an equivalent graph that costs less; the given graph stays unchanged.

    Args:
        graph: The graph to optimise.
        alpha: The search drops graphs that cost more than ``alpha`` times the best; at least 1.
        budget: The number of graphs that the search expands; at least 0.
        print_subst: Whether to print the rules that made the result.
        method: ``"search"`` is TASO's backtracking search (:class:`~workbench.studies.search.BacktrackingSearch`).
            By default it runs sound rules, including TASO's merge of two convolutions of one input.
            ``"saturation"`` also finds graphs that the search cannot reach, and ignores ``alpha`` and
            ``budget``.
        options: Further arguments of :func:`~workbench.studies.search.optimize.search_optimize`, whose modes can run
            TASO's own rules, or of :func:`workbench.optimize`.

    Raises:
        TasoError: ``graph`` is none of TASO's, or ``alpha``, ``budget`` or ``method`` is out of its range.
    """
    if not isinstance(graph, PyGraph):
        raise TasoError(f"the graph must be one of new_graph or load_onnx, got {type(graph).__name__}")
    right = isinstance(alpha, int | float) and alpha >= 1.0
    if not (right and isinstance(budget, int | float) and budget >= 0):
        raise TasoError(f"alpha must be at least 1 and budget at least 0, got {alpha} and {budget}")
    if method == "search":
        from workbench.rules import rule_set
        from workbench.studies.search.modes import guarded_merges
        from workbench.studies.search.optimize import search_optimize

        if options.get("mode", "sound") == "sound":
            options.setdefault("rules", rule_set("default") + guarded_merges())
        searched = search_optimize(graph.graph(), alpha=alpha, budget=budget, **options)
        found, names = searched.graph, searched.history
    elif method == "saturation":
        from workbench.optimizer.pipeline import optimize as optimise

        result = optimise(graph.graph(), **options)
        found, names = result.graph, result.rules
    else:
        raise TasoError(f'method must be "search" or "saturation", got {method!r}')
    if print_subst:
        for name in names:
            print(name)
    return PyGraph(found)
