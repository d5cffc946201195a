"""Graphs and e-graphs of generic extents: their form at given sizes, and what fits at every size.

A graph of generic extents is well-typed at these. The same type rules also run on integers over symbols. A
requirement must then be proved from the facts about the model, so a graph that passes has a type at every binding
that the model accepts, and the extents of its values are proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from workbench.egraph.egraph import EGraph
from workbench.graph import Builder, Graph, Node
from workbench.ops import AttrValue, TensorType, TupleType, TypeMismatch, ValueType, spec_of
from workbench.ops.inputs_and_opaque import NAMED, RUNTIME
from workbench.ops.typing import ConcreteTyping
from workbench.symbolic.facts import Facts
from workbench.symbolic.generic import Generic
from workbench.symbolic.integers import Cond, Int, num

#: A type, or None for a value without one.
K = TypeVar("K")

#: The things that stand for numbers.
N = TypeVar("N")

#: Attributes of these kinds are extents or measured in extents; the others never depend on a size.
COUNTED: Final = frozenset({"int", "ints", "axes", "shape"})

#: An extent: a number, or an integer that depends on symbols.
Extent = int | Int

#: Operators whose results may have any extents: they are inputs, stored, or kept as they are.
GIVEN: Final = NAMED | {"opaque", "project"}


def type_at(kind: K, value: Callable[[int], int]) -> K:
    """Return a type with the value of every extent (:meth:`Generic.at`)."""
    if isinstance(kind, TupleType):
        return replace(kind, elements=tuple(type_at(k, value) for k in kind.elements))
    if isinstance(kind, TensorType):
        return replace(kind, shape=tuple(max(0, value(d)) for d in kind.shape))
    return kind


def attrs_at(
    op: str, attrs: Sequence[AttrValue], value: Callable[[int], N]
) -> tuple[AttrValue | N | tuple[N, ...], ...]:
    """Return an operator's attributes with the value of every number that may depend on a size."""
    found: list[AttrValue | N | tuple[N, ...]] = []
    for attr, given in zip(spec_of(op).attrs, attrs, strict=True):
        if attr.kind in COUNTED and isinstance(given, tuple):
            found.append(tuple(value(v) for v in given))
        elif attr.kind in COUNTED and isinstance(given, int):
            found.append(value(given))
        else:
            found.append(given)
    return tuple(found)


def depends(kind: ValueType | None, generic: Generic) -> bool:
    """Return whether a type depends on a symbolic dimension."""
    if isinstance(kind, TupleType):
        return any(depends(k, generic) for k in kind.elements)
    return isinstance(kind, TensorType) and any(generic.depends(d) for d in kind.shape)


def attrs_depend(op: str, attrs: Sequence[AttrValue], generic: Generic) -> bool:
    """Return whether an operator's attributes depend on a symbolic dimension."""
    return _open(attrs_at(op, attrs, lambda n: plain(generic.expression(n))))


def _open(attrs: Sequence[object]) -> bool:
    return any(isinstance(x, Int) for a in attrs for x in (a if isinstance(a, tuple) else (a,)))


def graph_at(graph: Graph, value: Callable[[int], int]) -> Graph:
    """Return a graph with the value of every extent (:meth:`Generic.at`): the same nodes, types inferred anew.

    Raise TypeMismatch if the operands of a node do not fit at these sizes, GraphError if the graph is not valid.
    """
    opaques = {
        key: replace(record, results=tuple(type_at(k, value) for k in record.results))
        for key, record in graph.opaques.items()
    }
    nodes: list[Node] = []
    for node in graph.nodes:
        kind: ValueType
        attrs = attrs_at(node.op, node.attrs, value)
        operands = [nodes[j].type for j in node.inputs]
        if node.op == "input":
            kind = type_at(node.type, value)
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


def egraph_at(egraph: EGraph, value: Callable[[int], int]) -> EGraph:
    """Return an e-graph with the value of every extent, for display: e-nodes that do not fit there are kept."""
    types = {kind: type_at(kind, value) for kind in set(egraph.types)}
    pairs = list(zip(egraph.ops, egraph.attrs, strict=True))
    attrs: dict[Any, Any] = {pair: attrs_at(*pair, value) for pair in set(pairs)}
    return replace(egraph, types=tuple(types[k] for k in egraph.types), attrs=tuple(attrs[p] for p in pairs))


@dataclass(frozen=True, slots=True)
class SizedType:
    """The type of a tensor whose extents may be integers over symbols."""

    dtype: str
    shape: tuple[Extent, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def plain(x: Extent) -> Extent:
    """Return an integer that is a number as that number."""
    return x if isinstance(x, int) or x.value is None else x.value


class EverySize(ConcreteTyping):
    """The reading on integers over symbols: a condition that is not proved raises :class:`TypeMismatch`."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def made(self, dtype: str, shape: Iterable[Extent]) -> Any:
        return SizedType(dtype, tuple(map(plain, shape)))

    def same(self, a: Extent, b: Extent) -> bool:
        return same(a, b)

    def elements(self, x: Any) -> Any:
        return plain(super().elements(x))

    def maximum(self, a: Any, b: Any) -> Any:
        return plain(self.facts.greatest(_int(a), _int(b)))

    def require(self, condition: object, message: str) -> None:
        if isinstance(condition, Cond):
            condition = self.facts.decided(condition).head == "true"
        super().require(condition, message)

    def require_same(self, x: Any, y: Any, message: str) -> None:
        fits = x.dtype == y.dtype and len(x.shape) == len(y.shape)
        self.require(fits and all(map(same, x.shape, y.shape)), f"{message}: {x} and {y}")

    def concrete(self, what: str, *xs: Any) -> Any:
        raise TypeMismatch(f"{what} has no form for every size")


def same(a: Extent, b: Extent) -> bool:
    """Return whether two extents are equal at every size."""
    return _int(a) == _int(b)


def _int(x: Extent) -> Int:
    return num(x) if isinstance(x, int) else x


def sized(kind: TensorType, generic: Generic) -> SizedType:
    """Return a type of generic extents with integers over symbols for them."""
    return SizedType(kind.dtype, tuple(plain(generic.expression(d)) for d in kind.shape))


def typed(
    op: str, attrs: Sequence[AttrValue], operands: Sequence[TensorType], result: TensorType, generic: Generic
) -> None:
    """Prove that an operator fits its operands and its result at every size; raise TypeMismatch if it may not.

    Args:
        op: The operator.
        attrs: Its attributes at generic extents.
        operands: The types of its operands at generic extents.
        result: The type of its result at generic extents.
        generic: The meaning of the extents.
    """
    spec = spec_of(op)
    if spec.infer is None:
        return
    xs = [sized(k, generic) for k in operands]
    read: Any = attrs_at(op, attrs, lambda n: plain(generic.expression(n)))
    if not (_open(read) or any(isinstance(d, Int) for x in xs for d in x.shape)):
        return
    reading: Any = EverySize(generic.facts)
    try:
        found = spec.infer(reading, xs, spec.unpack(read))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise TypeMismatch(f"{op}: {error}") from None
    for number, extent in zip(result.shape, found.shape, strict=True):
        if isinstance(extent, Int):
            generic.learn(number, extent)
        if not same(plain(generic.expression(number)), extent):
            raise TypeMismatch(f"{op}: an extent is {generic.named(_int(extent))}, not {number}")


def unproved(graph: Graph | Builder, generic: Generic, chosen: Iterable[int] | None = None) -> str:
    """Return why a graph of generic extents, or chosen nodes of it, may not fit at every size; empty if proved."""
    nodes = graph.nodes
    for i in range(len(nodes)) if chosen is None else chosen:
        node = nodes[i]
        if node.op in GIVEN:
            continue
        try:
            typed(node.op, node.attrs, [nodes[j].tensor for j in node.inputs], node.tensor, generic)
        except TypeMismatch as error:
            return str(error)
    return ""


def unusable_nodes(egraph: EGraph, generic: Generic) -> list[int]:
    """Return the e-nodes that no result may have: weights of symbolic size, and those not proved at every size."""
    if not generic.primes:
        return []
    constant, eclass = egraph.constant_classes().tolist(), egraph.eclass.tolist()
    symbolic = [depends(k, generic) for k in egraph.types]
    pairs = list(enumerate(zip(egraph.ops, egraph.attrs, strict=True)))
    found = [
        i
        for i, (op, attrs) in pairs
        if op not in RUNTIME
        and constant[eclass[i]]
        and all(constant[c] for c in egraph.operands(i).tolist())
        and (symbolic[eclass[i]] or attrs_depend(op, attrs, generic))
    ]
    known: dict[Any, bool] = {}
    for i, (op, attrs) in pairs:
        operands: list[Any] = [egraph.types[c] for c in egraph.operands(i).tolist()]
        result: Any = egraph.types[eclass[i]]
        key = (op, attrs, *operands, result)
        if op not in GIVEN and key not in known:
            try:
                typed(op, attrs, operands, result, generic)
                known[key] = True
            except TypeMismatch:
                known[key] = False
        if not known.get(key, True):
            found.append(i)
    return found
