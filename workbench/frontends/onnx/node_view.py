"""One node of an ONNX model, as the importers of the operator families read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from workbench.frontends.onnx.shape_inference import Values, python_value
from workbench.graph import GraphBuilder
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.ops.types import TensorType


class NodeView:
    """A node of a model under import, implementing :class:`workbench.ops.onnx_form.OnnxNode`.

    ``value_of`` maps a name of the model to its graph value; ``wanted`` are the values that are read.

    Args:
        node: The node of the model.
        values: The types and small constants of the model.
        builder: The graph in progress.
        value_of: A function from a name of the model to its graph value.
        wanted: The names that are read.
    """

    def __init__(
        self,
        node: NodeProto,
        values: Values,
        builder: GraphBuilder,
        value_of: Callable[[str], int],
        wanted: Collection[str],
    ) -> None:
        self._node = node
        self._values = values
        self._builder = builder
        self._value_of = value_of
        self._wanted = wanted
        self._attrs = {a.name: a for a in node.attribute}

    @property
    def op_type(self) -> str:
        """Return the ONNX name of the operator."""
        return str(self._node.op_type)

    @property
    def domain(self) -> str:
        """Return the domain of the operator; the default one is empty."""
        return str(self._node.domain)

    @property
    def opset(self) -> int:
        """Return the version of the operator set that the node's domain has in the model."""
        return self._values.opsets[self._node.domain]

    @property
    def results(self) -> Sequence[TensorType | None]:
        """Return the types of the node's outputs, with ``None`` for an omitted or untyped one."""
        return [self._values.tensor(o) if o else None for o in self._node.output]

    def wanted(self, index: int) -> bool:
        """Return whether output ``index`` is read."""
        return index < len(self._node.output) and self._node.output[index] in self._wanted

    def attr(self, name: str, default: object = None) -> Any:
        """Return an attribute as a Python value, or ``default`` if the node does not have it."""
        return python_value(self._attrs[name]) if name in self._attrs else default

    def has(self, index: int) -> bool:
        """Return whether operand ``index`` is present."""
        return index < len(self._node.input) and bool(self._node.input[index])

    def operand(self, index: int) -> int:
        """Return operand ``index`` as a graph value."""
        return self._value_of(self._node.input[index])

    def operands(self) -> list[int]:
        """Return all operands that are present, as graph values."""
        return [self._value_of(name) for name in self._node.input if name]

    def type(self, index: int) -> TensorType:
        """Return the type of operand ``index``."""
        kind = self._values.tensor(self._node.input[index])
        assert kind is not None, self._node.input[index]
        return kind

    def known(self, index: int) -> np.ndarray | None:
        """Return operand ``index`` if it is a small constant of the model, otherwise ``None``."""
        return self._values.known.get(self._node.input[index])

    def is_constant(self, index: int) -> bool:
        """Return whether operand ``index`` depends on weights alone."""
        stack, seen = [self.operand(index)], set[int]()
        while stack:
            node = self._builder.nodes[value := stack.pop()]
            if node.op in RUNTIME:
                return False
            stack += [i for i in node.inputs if i not in seen]
            seen.add(value)
        return True

    def op(self, op: str, *values: int, **attrs: Any) -> int:
        """Apply a modelled operator."""
        return self._builder.op(op, *values, **attrs)

    def constant(self, array: np.ndarray) -> int:
        """Return a weight with the data ``array``, named after the node's result."""
        name = next(o for o in self._node.output if o)
        number = 0
        while name in self._builder.weights:
            number += 1
            name = f"{self._node.output[0]}_{number}"
        return self._builder.weight(data=array, name=name)

    def type_of(self, value: int) -> TensorType:
        """Return the type of a graph value."""
        return self._builder.type(value)

    def made(self, value: int) -> tuple[str, Sequence[int]]:
        """Return the operator that makes a graph value, and its operands."""
        node = self._builder.nodes[value]
        return node.op, node.inputs
