"""Type rules read with extents that are integers over symbols: what fits at every size.

A graph of generic extents is well-typed at these. Here the same rules run on integers over symbols. A requirement
must be proved from the facts about the model, so a graph that passes has a type at every binding that the
model accepts, and the extents of its values are proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.egraph.at_sizes import COUNTED
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.ops.inputs_and_opaque import NAMED
from workbench.ops.typing import ConcreteTyping
from workbench.symbolic import Generic
from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import Cond, Int, num

#: An extent: a number, or an integer that depends on symbols.
Extent = int | Int

#: Operators whose results may have any extents: they are inputs, stored, or kept as they are.
GIVEN: Final = NAMED | {"opaque", "project"}


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


class _EverySize(ConcreteTyping):
    """The reading on integers over symbols: a condition that is not proved raises :class:`TypeMismatch`."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def with_dim(self, x: Any, axis: int, extent: Any) -> Any:
        self.require_axis(x, axis)
        shape = list(x.shape)
        shape[axis] = plain(extent)
        return SizedType(x.dtype, tuple(shape))

    def with_dtype(self, x: Any, dtype: str) -> Any:
        return SizedType(dtype, x.shape)

    def tensor(self, like: Any, *dims: Any) -> Any:
        return SizedType(like.dtype, tuple(map(plain, dims)))

    def constant(self, dtype: str, *dims: Any) -> Any:
        for extent in dims:
            self.require(extent >= 1, "the extents of a constant must be positive")
        return SizedType(dtype, tuple(map(plain, dims)))

    def with_shape(self, x: Any, shape: Any) -> Any:
        return SizedType(x.dtype, tuple(map(plain, shape)))

    def permute(self, x: Any, perm: Any) -> Any:
        self.require(len(perm) == len(x.shape), f"permutation {perm} does not fit {x}")
        return SizedType(x.dtype, tuple(x.shape[p] for p in perm))

    def elements(self, x: Any) -> Any:
        total: Extent = 1
        for extent in x.shape:
            total = total * extent
        return plain(total)

    def broadcast(self, x: Any, y: Any, keep: int = 0) -> Any:
        rank = max(len(x.shape), len(y.shape))
        dims: list[Extent] = []
        for axis in range(-rank, -keep):
            a, b = self.dim(x, axis), self.dim(y, axis)
            self.require(same(a, b) or same(a, 1) or same(b, 1), f"{x} does not broadcast with {y}")
            dims.append(b if same(a, 1) else a)
        return SizedType(x.dtype, (*dims, *x.shape[len(x.shape) - keep :]))

    def picked(self, x: Any, axis: int, places: Any) -> Any:
        self.require_axis(x, axis)
        at = len(x.shape) + axis
        return SizedType(x.dtype, (*x.shape[:at], *places.shape, *x.shape[at + 1 :]))

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
    """Prove that an operator fits its operands at every size, and that its result has these extents.

    Args:
        op: The operator.
        attrs: Its attributes at generic extents.
        operands: The types of its operands at generic extents.
        result: The type of its result at generic extents.
        generic: The meaning of the extents.

    Raises:
        TypeMismatch: It is not proved.
    """
    spec = spec_of(op)
    if spec.infer is None:
        return
    xs = [sized(k, generic) for k in operands]
    read: list[Any] = []
    open_ = any(isinstance(d, Int) for x in xs for d in x.shape)
    for attr, value in zip(spec.attrs, attrs, strict=True):
        if attr.kind in COUNTED and isinstance(value, tuple):
            read.append(tuple(plain(generic.expression(v)) for v in value))
            open_ |= any(isinstance(v, Int) for v in read[-1])
        elif attr.kind in COUNTED and isinstance(value, int):
            read.append(plain(generic.expression(value)))
            open_ |= isinstance(read[-1], Int)
        else:
            read.append(value)
    if not open_:
        return
    try:
        found = spec.infer(_EverySize(generic.facts), xs, spec.unpack(tuple(read)))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise TypeMismatch(f"{op}: {error}") from None
    for number, extent in zip(result.shape, found.shape, strict=True):
        if isinstance(extent, Int):
            generic.learn(number, extent)
        if not same(plain(generic.expression(number)), extent):
            raise TypeMismatch(f"{op}: an extent is {generic.named(_int(extent))}, not {number}")


def unproved(graph: Graph, generic: Generic) -> str:
    """Return the reason why a graph of generic extents may not fit at every size; empty if it is proved."""
    for node in graph.nodes:
        if node.op in GIVEN:
            continue
        try:
            typed(node.op, node.attrs, [graph.nodes[j].tensor for j in node.inputs], node.tensor, generic)
        except TypeMismatch as error:
            return str(error)
    return ""


def unproved_nodes(egraph: EGraph, generic: Generic) -> list[int]:
    """Return the e-nodes that may not fit at every size, although they do at the generic extents."""
    if not generic.primes:
        return []
    known: dict[Any, bool] = {}
    found: list[int] = []
    for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True)):
        if op in GIVEN:
            continue
        operands: list[Any] = [egraph.types[c] for c in egraph.operands(i).tolist()]
        result: Any = egraph.types[int(egraph.eclass[i])]
        key = (op, attrs, *operands, result)
        if key not in known:
            try:
                typed(op, attrs, operands, result, generic)
                known[key] = True
            except TypeMismatch:
                known[key] = False
        if not known[key]:
            found.append(i)
    return found
