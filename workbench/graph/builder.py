"""Build graphs in Python: each call checks types and returns the position of a node."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.graph.graph import Graph, GraphError, Node, Opaque
from workbench.graph.metadata import Label, ModelInfo
from workbench.graph.typed import result_type
from workbench.graph.weights import Weight
from workbench.ops import TensorType, TupleType, TypeMismatch, ValueType, spec_of


def _extents(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of a shape as whole numbers; raise TypeMismatch if one is none."""
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeMismatch(f"a shape must consist of whole numbers, got {shape!r}") from None


class GraphBuilder:
    """A collection of nodes from which a :class:`Graph` is made.

    Values are node positions (integers). Equal applications share a node unless ``share=False``.

    >>> b = GraphBuilder()
    >>> x = b.input("x", (1, 8))
    >>> y = b.op("relu", b.op("matmul", x, b.weight((8, 4))))
    >>> b.graph({"y": y}).operators()
    {'matmul': 1, 'relu': 1}
    """

    def __init__(self, name: str = "graph", *, share: bool = True, seed: int = 0) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.weights: dict[str, Weight] = {}
        self.opaques: dict[str, Opaque] = {}
        self.info: ModelInfo | None = None
        self.labels: dict[int, Label] = {}
        self._share = share
        self._seed = seed
        self._seen: dict[tuple[Any, ...], int] = {}

    def type(self, value: int) -> TensorType:
        """Return the type of a tensor."""
        return self.nodes[value].tensor

    def _add(self, node: Node) -> int:
        key = (node.op, node.inputs, node.attrs)
        if self._share and key in self._seen:
            return self._seen[key]
        self.nodes.append(node)
        self._seen[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> int:
        """Declare a graph input."""
        if any(self.nodes[i].attrs[0] == name for i in self.inputs):
            raise GraphError(f"input names must be unique, got {name!r}, which already exists")
        value = self._add(Node("input", (), (name,), TensorType(dtype, _extents(shape))))
        self.inputs.append(value)
        return value

    def weight(
        self,
        shape: Sequence[int] | None = None,
        data: np.ndarray | None = None,
        name: str | None = None,
        dtype: str = "float32",
    ) -> int:
        """Declare a weight with ``data``, or with random elements of the given shape.

        Args:
            shape: The extents; needed only without ``data``.
            data: The elements.
            name: The name; by default a new one.
            dtype: The element type of random elements; the builder's seed determines them.

        Raises:
            GraphError: If the name exists already, or neither shape nor data is given.
        """
        if name is None:
            name = f"w{len(self.weights)}"
            while name in self.weights:
                name += "_"
        if name in self.weights:
            raise GraphError(f"weight names must be unique, got {name!r}, which already exists")
        if isinstance(data, str):
            raise TypeMismatch(f"the data of a weight must be an array, got {data!r} (try dtype={data!r})")
        if data is not None:
            weight = Weight.of(data)
        elif shape is not None:
            kind = TensorType(dtype, _extents(shape))
            weight = Weight(kind, seed=self._seed + len(self.weights) + 1)
        else:
            raise GraphError("a weight must have a shape or data, got neither")
        self.weights[name] = weight
        return self._add(Node("weight", (), (name,), weight.type))

    def op(self, op: str, *inputs: int, **attrs: Any) -> int:
        """Apply a modelled operator; raise :class:`TypeMismatch` when the operands do not fit."""
        spec = spec_of(op)
        types = []
        for i in inputs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"{op}: operands must be from 0 to {len(self.nodes) - 1}, got {i}")
            types.append(self.nodes[i].type)
        packed = spec.pack(attrs)
        return self._add(Node(op, tuple(inputs), packed, result_type(op, types, packed)))

    def apply(self, op: str, inputs: Sequence[int], attrs: tuple[Any, ...]) -> int:
        """Apply an operator to attributes given in the order of its spec."""
        spec_of(op)
        types = [self.nodes[i].type for i in inputs]
        result: ValueType
        if op == "project":
            source = types[0]
            if not isinstance(source, TupleType):
                raise TypeMismatch(f"project: the operand must be a tuple, got {source}")
            result = source.elements[attrs[0]]
        elif op == "opaque":
            result = self.opaques[attrs[0]].type
        elif op == "weight":
            result = self.weights[attrs[0]].type
        else:
            result = result_type(op, types, attrs)
        return self._add(Node(op, tuple(inputs), tuple(attrs), result))

    def opaque(self, record: Opaque, inputs: Sequence[int], key: str | None = None) -> list[int]:
        """Add an operator that is not modelled, kept in its original form; return its results.

        A key may be reused for the same deterministic operator, whose record is then shared.
        """
        key = key or f"{record.op_type}_{len(self.opaques)}"
        known = self.opaques.setdefault(key, record)
        if known is not record and not (record.deterministic and known.payload == record.payload):
            raise GraphError(f"keys of opaque operators must be unique, got {key!r}, which already exists")
        value = self._add(Node("opaque", tuple(inputs), (key,), record.type))
        if len(record.results) == 1:
            return [value]
        return [self._add(Node("project", (value,), (i,), kind)) for i, kind in enumerate(record.results)]

    def split(self, x: int, axis: int, sizes: Sequence[int]) -> list[int]:
        """Cut an axis into parts of the given sizes."""
        if sum(sizes) != self.type(x).shape[axis] or any(s <= 0 for s in sizes):
            whole = f"axis {axis} of {self.type(x)}"
            raise TypeMismatch(f"sizes must be positive and add up to {whole}, got {list(sizes)}")
        axis = axis if axis < 0 else axis - self.type(x).rank
        parts, start = [], 0
        for size in sizes:
            parts.append(self.op("slice", x, axis=axis, start=start, stop=start + size))
            start += size
        return parts

    def graph(self, outputs: Mapping[str, int] | Sequence[tuple[str, int]]) -> Graph:
        """Return the graph with these outputs, without nodes that no output depends on; inputs are kept."""
        pairs = tuple(outputs.items() if isinstance(outputs, Mapping) else outputs)
        live = [False] * len(self.nodes)
        for _, i in pairs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"outputs must be from 0 to {len(self.nodes) - 1}, got {i}")
            live[i] = True
        for i in range(len(self.nodes) - 1, -1, -1):
            if live[i]:
                for j in self.nodes[i].inputs:
                    live[j] = True
        for i in self.inputs:
            live[i] = True
        position: dict[int, int] = {}
        kept: list[Node] = []
        for i, node in enumerate(self.nodes):
            if live[i]:
                position[i] = len(kept)
                inputs = tuple(position[j] for j in node.inputs)
                kept.append(Node(node.op, inputs, node.attrs, node.type))
        used = {node.attrs[0] for node in kept if node.op in ("weight", "opaque")}
        return Graph(
            tuple(kept),
            tuple(position[i] for i in self.inputs),
            tuple((name, position[i]) for name, i in pairs),
            {k: v for k, v in self.weights.items() if k in used},
            {k: v for k, v in self.opaques.items() if k in used},
            self.name,
            self.info,
            {position[i]: label for i, label in self.labels.items() if live[i]},
        )
