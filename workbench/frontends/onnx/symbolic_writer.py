"""Export of graphs with generic extents: symbolic dimensions are declared, dependent sizes computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from onnx import TypeProto

from workbench.frontends.onnx.shapes import ShapeWriter, SymbolTable
from workbench.frontends.onnx.writer import Writer
from workbench.graph import Node
from workbench.ops import spec_of
from workbench.ops.types import TensorType


def symbolic_writer(symbols: SymbolTable) -> Callable[..., Writer]:
    """Return a factory of writers for graphs in which ``symbols`` have generic extents."""
    return partial(_SymbolicWriter, symbols)


class _SymbolicWriter(Writer):
    """A writer for a graph of generic extents."""

    def __init__(self, symbols: SymbolTable, *given: Any) -> None:
        super().__init__(*given)
        self.symbols = symbols
        self.shapes = ShapeWriter(self, symbols.generic, symbols.sources)
        self.operands: dict[str, TensorType] = {}

    def _node(
        self, op_type: str, inputs: Sequence[str], outputs: list[str], attrs: Mapping[str, Any]
    ) -> list[str]:
        self.shapes.check(op_type, attrs)
        return super()._node(op_type, inputs, outputs, attrs)

    def constant(self, array: np.ndarray) -> str:
        """Return the name of a constant, computed if it depends on a symbolic dimension."""
        if self.shapes.depends(array):
            return self.shapes.vector(array.tolist())
        return self.plain(array)

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return ``name`` in another shape, which may depend on symbolic dimensions."""
        if name in self.arrays:
            return super().reshape(name, shape)
        return self.node("Reshape", [name, self.shapes.shape(self.operands.get(name), shape)])

    def _modelled(self, i: int, node: Node) -> None:
        reads = [self.graph.nodes[j].tensor for j in self.plan.reads[i]]
        self.operands |= zip(map(self._name, self.plan.reads[i]), reads, strict=True)
        attrs = spec_of(node.op).pack(self.shapes.slice_attrs(node.op, node.named_attrs(), reads))
        super()._modelled(i, replace(node, attrs=attrs))

    def _type(self, kind: TensorType, source: str = "") -> TypeProto:
        return self.symbols.input_type(source, kind) if source else self.symbols.type(kind)
