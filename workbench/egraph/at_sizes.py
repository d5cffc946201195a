"""Mapping of graphs and e-graphs from generic extents to other sizes, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, Node, Opaque
from workbench.ops import AttrValue, TensorType, TupleType, ValueType, spec_of
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.symbolic.generic import Generic

#: A type, or None for a value without one.
K = TypeVar("K")

#: Attributes of these kinds are extents or measured in extents; the others never depend on a size.
COUNTED = frozenset({"int", "ints", "axes", "shape"})


def type_at(kind: K, generic: Generic, sizes: Mapping[str, int]) -> K:
    """Return a type with its generic extents mapped to other sizes."""
    if isinstance(kind, TupleType):
        return replace(kind, elements=tuple(type_at(k, generic, sizes) for k in kind.elements))
    if isinstance(kind, TensorType):
        return replace(kind, shape=tuple(max(0, generic.at(d, sizes)) for d in kind.shape))
    return kind


def attrs_at(
    op: str, attrs: tuple[AttrValue, ...], generic: Generic, sizes: Mapping[str, int]
) -> tuple[AttrValue, ...]:
    """Return an operator's attributes mapped to other sizes.

    Args:
        op: The operator.
        attrs: Its attributes at generic extents.
        generic: The generic extents.
        sizes: The other sizes, by symbol.
    """
    found: list[AttrValue] = []
    for attr, value in zip(spec_of(op).attrs, attrs, strict=True):
        if attr.kind in COUNTED and isinstance(value, tuple):
            found.append(tuple(generic.at(v, sizes) for v in value))
        elif attr.kind in COUNTED and isinstance(value, int):
            found.append(generic.at(value, sizes))
        else:
            found.append(value)
    return tuple(found)


def depends(kind: ValueType | None, generic: Generic) -> bool:
    """Return whether a type depends on a symbolic dimension."""
    if isinstance(kind, TupleType):
        return any(depends(k, generic) for k in kind.elements)
    return isinstance(kind, TensorType) and any(generic.depends(d) for d in kind.shape)


def attrs_depend(op: str, attrs: tuple[AttrValue, ...], generic: Generic) -> bool:
    """Return whether an operator's attributes depend on a symbolic dimension."""
    for attr, value in zip(spec_of(op).attrs, attrs, strict=True):
        if attr.kind in COUNTED:
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(n, int) and generic.depends(n) for n in numbers):
                return True
    return False


def opaques_at(graph: Graph, generic: Generic, sizes: Mapping[str, int]) -> dict[str, Opaque]:
    """Return the opaque operators of a graph with their result types mapped to other sizes."""
    return {
        key: replace(record, results=tuple(type_at(k, generic, sizes) for k in record.results))
        for key, record in graph.opaques.items()
    }


def graph_at(graph: Graph, generic: Generic, sizes: Mapping[str, int]) -> Graph:
    """Return a graph mapped from generic extents to other sizes: the same nodes with newly inferred types.

    Without sizes it is the graph itself.

    Raises:
        TypeMismatch: The operands of a node do not fit at these sizes.
        GraphError: The graph is not valid at these sizes.
    """
    if not sizes:
        return graph
    opaques = opaques_at(graph, generic, sizes)
    nodes: list[Node] = []
    for node in graph.nodes:
        kind: ValueType
        attrs = attrs_at(node.op, node.attrs, generic, sizes)
        operands = [nodes[j].type for j in node.inputs]
        if node.op == "input":
            kind = type_at(node.type, generic, sizes)
        elif node.op == "opaque":
            kind = opaques[str(node.attrs[0])].type
        elif node.op == "project":
            (source,) = operands
            assert isinstance(source, TupleType)
            kind = source.elements[node.attr("index")]
        elif node.op == "weight":
            kind = node.type
        else:
            kind = spec_of(node.op).result_type(operands, attrs)  # type: ignore[arg-type]
        nodes.append(Node(node.op, node.inputs, attrs, kind))
    return replace(graph, nodes=tuple(nodes), opaques=opaques)


def egraph_at(egraph: EGraph, generic: Generic, sizes: Mapping[str, int]) -> EGraph:
    """Return an e-graph mapped from generic extents to other sizes, e-node by e-node; itself without sizes.

    E-nodes whose operands do not fit at these sizes are kept: the result is for display, not for extraction.
    """
    if not sizes:
        return egraph
    known: dict[Any, Any] = {}

    def mapped(key: Any, make: Any) -> Any:
        if key not in known:
            known[key] = make()
        return known[key]

    types = tuple(mapped(k, lambda k=k: type_at(k, generic, sizes)) for k in egraph.types)
    attrs = tuple(
        mapped((op, a), lambda op=op, a=a: attrs_at(op, a, generic, sizes))
        for op, a in zip(egraph.ops, egraph.attrs, strict=True)
    )
    return replace(egraph, types=types, attrs=attrs)


def symbolic_weights(egraph: EGraph, generic: Generic) -> list[int]:
    """Return the e-nodes that would be weights of symbolic size, which cannot be computed once and stored."""
    if not generic.primes:
        return []
    constant, eclass = egraph.constant_classes().tolist(), egraph.eclass.tolist()
    symbolic = [depends(k, generic) for k in egraph.types]
    return [
        i
        for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True))
        if op not in RUNTIME
        and constant[eclass[i]]
        and all(constant[c] for c in egraph.operands(i).tolist())
        and (symbolic[eclass[i]] or attrs_depend(op, attrs, generic))
    ]
