"""TASO's methods that inspect a graph: operators, edges, shapes, attributes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from workbench.graph import GraphBuilder
from workbench.ops import AttrValue
from workbench.studies.taso.errors import TasoError

TYPE_NAMES: Final[dict[str, str]] = {
    "conv2d": "Conv", "maxpool": "MaxPool", "avgpool": "AveragePool", "relu": "Relu",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "batchnorm": "BatchNormalization", "concat": "Concat",
    "slice": "Slice", "reshape": "Reshape", "transpose": "Transpose", "add": "Add", "mul": "Mul",
    "sub": "Sub", "div": "Div", "max": "Max", "min": "Min", "matmul": "MatMul", "identity": "Dropout",
    "enlarge": "Enlarge", "merge_gconv": "MergeGConv", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "cast": "Cast", "reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax",
    "leakyrelu": "LeakyRelu", "pad": "Pad", "softmax": "Softmax",
}  # fmt: skip


class Introspection:
    """A mixin with TASO's methods that inspect a graph under construction."""

    _builder: GraphBuilder

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

    def get_operator_type(self, op: dict[str, int]) -> str:
        """Return TASO's name of an operator's type."""
        node = self._builder.nodes[op["guid"]]
        if node.op == "opaque":
            return self._builder.opaques[str(node.attrs[0])].op_type
        return TYPE_NAMES.get(node.op, {"input": "Input", "weight": "Weight"}.get(node.op, node.op))

    def get_operator_attr(self, op: dict[str, int], attrname: str) -> AttrValue | list[int]:
        """Return an attribute by its ONNX name."""
        node = self._builder.nodes[op["guid"]]
        ours = {"kernel_shape": "kernel", "group": "groups", "epsilon": "eps"}.get(attrname, attrname)
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
