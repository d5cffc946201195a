"""The tensor graph: an immutable, typed, acyclic graph with several inputs and outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.graph.metadata import Label, ModelInfo
from workbench.graph.typed import result_type
from workbench.graph.weights import Weight
from workbench.ops import AttrValue, TensorType, TupleType, TypeMismatch, ValueType, spec_of
from workbench.ops.inputs_and_opaque import REFERENCES, RUNTIME
from workbench.run.display import Face

if TYPE_CHECKING:
    import graphviz


class GraphError(ValueError):
    """Raised when a graph is ill-formed or cannot be run."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application with one result.

    ``inputs`` are positions of earlier nodes, ``attrs`` are in the order of the operator's spec. An
    opaque operator with several results has a tuple type; ``project`` nodes pick from the tuple.
    """

    op: str
    inputs: tuple[int, ...]
    attrs: tuple[AttrValue, ...]
    type: ValueType

    def attr(self, name: str) -> Any:
        """Return the attribute called ``name``."""
        return self.attrs[spec_of(self.op).attr_names.index(name)]

    def named_attrs(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return spec_of(self.op).unpack(self.attrs)

    @property
    def tensor(self) -> TensorType:
        """Return the type of a tensor-valued node."""
        if not isinstance(self.type, TensorType):
            raise TypeMismatch(f"{self.op} must have a single result, got {self.type}")
        return self.type


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An operator of a model that is not modelled here, kept in its original serialised form.

    ``payload`` is a serialised ONNX model of its own. Its inputs are the operands in order, including outer
    values that subgraphs read; its outputs are the results. It contains the operator sets and local
    functions that it needs, can be run directly, and is written back unchanged. ``reason`` explains why
    the operator is not modelled. Records of deterministic operators with equal payloads share a key.
    """

    op_type: str
    domain: str
    results: tuple[TensorType, ...]
    payload: bytes = field(repr=False, default=b"")
    deterministic: bool = True
    reason: str = ""

    @property
    def type(self) -> ValueType:
        """Return the type of the node: a tensor, or a tuple of tensors."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Graph(Face):
    """A tensor program.

    ``nodes`` are in topological order. ``inputs`` and ``outputs`` keep the model's names and order; an
    input may be unused, and an output is a name and a node. ``weights`` and ``opaques`` contain the records
    to which the nodes ``weight[name]`` and ``opaque[key]`` refer. For a graph that was read from a file,
    ``info`` holds the rest of the file and ``labels`` the file's names of nodes. Build a graph with
    :class:`GraphBuilder`.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[str, int], ...]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    opaques: Mapping[str, Opaque] = field(default_factory=dict)
    name: str = "graph"
    info: ModelInfo | None = None
    labels: Mapping[int, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _frozen(self.weights))
        object.__setattr__(self, "opaques", _frozen(self.opaques))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))
        self._check()

    def _check(self) -> None:
        for i, node in enumerate(self.nodes):
            spec_of(node.op)
            if any(not 0 <= j < i for j in node.inputs):
                raise GraphError(f"node {i} ({node.op}) must read earlier nodes only, got {node.inputs}")
            expected: ValueType
            if node.op == "input":
                expected = node.type
            elif node.op == "weight":
                expected = self._lookup(self.weights, node.attrs[0], i).type
            elif node.op == "opaque":
                expected = self._lookup(self.opaques, node.attrs[0], i).type
            elif node.op == "project":
                source = self.nodes[node.inputs[0]].type
                if not isinstance(source, TupleType):
                    raise GraphError(f"node {i} (project) must read a tuple, got {source}")
                expected = source.elements[int(node.attrs[0])]  # type: ignore[arg-type]
            else:
                expected = result_type(node.op, [self.nodes[j].type for j in node.inputs], node.attrs)
            if expected != node.type:
                raise GraphError(f"node {i} ({node.op}) must have type {expected}, got {node.type}")
        for i in self.inputs:
            if self.nodes[i].op != "input":
                raise GraphError(f"graph input {i} must be an input node, got {self.nodes[i].op}")
        if not self.outputs:
            raise GraphError("a graph must have at least one output, got none")
        names = [name for name, _ in self.outputs]
        if len(set(names)) != len(names):
            raise GraphError(f"output names must be unique, got {names}")
        for name, i in self.outputs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"output {name} must be a node from 0 to {len(self.nodes) - 1}, got {i}")
            self.nodes[i].tensor  # noqa: B018  (raises when the output is a tuple)

    @staticmethod
    def _lookup(table: Mapping[str, Any], key: AttrValue, i: int) -> Any:
        if key not in table:
            raise GraphError(f"node {i} must refer to a record of the graph, got {key!r}")
        return table[str(key)]

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, f.name) for f in fields(self))
        return Graph, tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    def skeleton(self) -> Graph:
        """Return the graph without the data of its weights and opaque operators."""
        weights = {name: Weight(w.type) for name, w in self.weights.items()}
        opaques = {key: replace(o, payload=b"") for key, o in self.opaques.items()}
        info = None if self.info is None else self.info.bare()
        return replace(self, weights=weights, opaques=opaques, info=info)

    def to_dot(self) -> graphviz.Source:
        """Return the graph as ``graphviz.Source``; see :func:`~workbench.graph.dot.graph_dot`."""
        from workbench.graph.dot import graph_dot

        return graph_dot(self)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Return the nodes that are outputs, in order."""
        return tuple(i for _, i in self.outputs)

    @property
    def input_types(self) -> dict[str, TensorType]:
        """Return the inputs' types by name."""
        return {self.nodes[i].attr("name"): self.nodes[i].tensor for i in self.inputs}

    @property
    def output_types(self) -> dict[str, TensorType]:
        """Return the outputs' types by name."""
        return {name: self.nodes[i].tensor for name, i in self.outputs}

    def reachable(self) -> list[bool]:
        """Return for every node whether an output depends on it."""
        seen = [False] * len(self.nodes)
        for i in self.output_ids:
            seen[i] = True
        for i in range(len(self.nodes) - 1, -1, -1):
            if seen[i]:
                for j in self.nodes[i].inputs:
                    seen[j] = True
        return seen

    def constant(self) -> list[bool]:
        """Return for every node whether it depends on weights alone or on nothing, and can be folded."""
        flags: list[bool] = []
        for node in self.nodes:
            flags.append(node.op not in RUNTIME and all(flags[j] for j in node.inputs))
        return flags

    def users(self) -> list[list[int]]:
        """Return for every node the nodes that read it, one entry per operand."""
        result: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for j in node.inputs:
                result[j].append(i)
        return result

    def structural_hash(self) -> str:
        """Return a digest of the structure: equal for graphs that differ only in the order of nodes.

        Weights are compared by name and type, not by value.
        """
        digests: list[bytes] = []
        for node in self.nodes:
            h = hashlib.blake2b(repr((node.op, node.attrs, node.type)).encode(), digest_size=16)
            for j in node.inputs:
                h.update(digests[j])
            digests.append(h.digest())
        top = hashlib.blake2b(digest_size=16)
        for name, i in self.outputs:
            top.update(name.encode() + b"\0" + digests[i])
        return top.hexdigest()

    def operators(self) -> dict[str, int]:
        """Return the number of nodes per operator, without leaves."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            if node.op not in REFERENCES:
                counts[node.op] = counts.get(node.op, 0) + 1
        return counts

    def text(self) -> str:
        """Return the graph as text, one node per line."""
        from workbench.graph.text import format_graph

        return format_graph(self)

    def __repr__(self) -> str:
        counts = sorted(self.operators().items(), key=lambda kv: (-kv[1], kv[0]))
        ops = ", ".join(f"{n} {op}" for op, n in counts[:8]) + (", …" if len(counts) > 8 else "")
        lines = [f"Graph {self.name!r}: {len(self.nodes)} nodes ({ops})"]
        for label, types in (("in ", self.input_types), ("out", self.output_types)):
            shown = [f"{name}: {type_}" for name, type_ in list(types.items())[:4]]
            more = f" … {len(types)} in all" if len(types) > 4 else ""
            lines.append(f"  {label} {'; '.join(shown)}{more}")
        weights = sum(w.type.nbytes for w in self.weights.values())
        lines.append(f"  {len(self.weights)} weights, {weights / 2**20:.1f} MiB")
        return "\n".join(lines)


def topological(roots: Sequence[int], inputs: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the nodes reachable from ``roots``, operands first; raise GraphError on a cycle."""
    order: list[int] = []
    state: dict[int, int] = {}
    for root in roots:
        stack = [(root, iter(inputs[root]))] if root not in state else []
        if stack:
            state[root] = 1
        while stack:
            node, rest = stack[-1]
            for child in rest:
                mark = state.get(child, 0)
                if mark == 1:
                    raise GraphError(f"the graph must be acyclic, got a cycle through node {child}")
                if mark == 0:
                    state[child] = 1
                    stack.append((child, iter(inputs[child])))
                    break
            else:
                state[node] = 2
                order.append(node)
                stack.pop()
    return order
