"""Scalar expressions of index notation: the value of one element, from reads, functions and reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from workbench.kernels.composites.index import (
    ExtentName,
    IndexArith,
    IndexExpr,
    IndexName,
    Whole,
    arith,
    parts,
)
from workbench.kernels.composites.index import Read as Read


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}" if float(f"{self.value:g}") == self.value else repr(self.value)


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value of an attribute that is a floating-point number."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class IndexValue:
    """A whole-number expression as a value, in the element type of the equation."""

    value: IndexExpr

    def __str__(self) -> str:
        return str(self.value) if not isinstance(self.value, IndexArith) else f"({self.value})"


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of :data:`workbench.kernels.composites.primitives.FUNCTIONS`, applied to scalars."""

    function: str
    operands: tuple[Scalar, ...]

    def __str__(self) -> str:
        from workbench.kernels.composites.primitives import FUNCTIONS

        sign = FUNCTIONS[self.function].sign
        if sign and len(self.operands) == 2:
            return f"({self.operands[0]} {sign} {self.operands[1]})"
        if sign:
            return f"({sign}{self.operands[0]})"
        return f"{self.function}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class Bound:
    """An index with its extent: it runs over ``0 … extent - 1``."""

    name: str
    extent: IndexExpr

    def __str__(self) -> str:
        return f"{self.name} < {self.extent}"


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction of ``body`` over indices: ``function`` is ``sum``, ``prod``, ``max`` or ``min``."""

    function: str
    over: tuple[Bound, ...]
    body: Scalar

    def __str__(self) -> str:
        return f"({self.function}({', '.join(map(str, self.over))}) {self.body})"


Scalar = Number | Parameter | IndexValue | Read | Apply | Reduce


def children(e: Scalar) -> tuple[Scalar, ...]:
    """Return the scalar expressions directly in an expression, those in indices left out."""
    match e:
        case Apply(_, operands):
            return operands
        case Reduce(_, _, body):
            return (body,)
    return ()


def walk(e: Scalar) -> Iterator[Scalar]:
    """Yield an expression and every scalar expression in it, reads in indices included."""
    yield e
    for child in children(e):
        yield from walk(child)
    inner = e.indices if isinstance(e, Read) else (e.value,) if isinstance(e, IndexValue) else ()
    for index in inner:
        yield from (p for p in parts(index) if isinstance(p, Read))


def reads(e: Scalar) -> tuple[Read, ...]:
    """Return the reads in an expression, each once, in the order of the text."""
    return tuple(dict.fromkeys(p for p in walk(e) if isinstance(p, Read)))


def reductions(e: Scalar) -> tuple[Reduce, ...]:
    """Return the reductions in an expression, each once, outer ones first."""
    return tuple(dict.fromkeys(p for p in walk(e) if isinstance(p, Reduce)))


def free_indices(e: Scalar) -> frozenset[str]:
    """Return the names of the indices that an expression uses and does not bind."""
    match e:
        case Read(_, _, indices):
            return frozenset(p.name for i in indices for p in parts(i) if isinstance(p, IndexName))
        case IndexValue(value):
            return frozenset(p.name for p in parts(value) if isinstance(p, IndexName))
        case Apply(_, operands):
            return frozenset().union(*map(free_indices, operands))
        case Reduce(_, over, body):
            return free_indices(body) - {b.name for b in over}
    return frozenset()


def uses_leading(e: Scalar) -> bool:
    """Return whether the value depends on the leading indices."""
    return any(isinstance(p, Read) and p.leading for p in walk(e))


def rebuilt(e: Scalar, new: Callable[[Scalar], Scalar]) -> Scalar:
    """Return an expression with ``new`` of each scalar expression directly in it."""
    match e:
        case Apply(function, operands):
            return Apply(function, tuple(map(new, operands)))
        case Reduce():
            return replace(e, body=new(e.body))
    return e


def reindexed(e: IndexExpr, new: Callable[[IndexExpr], IndexExpr | None]) -> IndexExpr:
    """Return an index expression with every part replaced for which ``new`` gives another one."""
    other = new(e)
    if other is not None:
        return other
    match e:
        case IndexArith(op, left, right):
            return arith(op, reindexed(left, new), reindexed(right, new))
        case Read():
            return replace(e, indices=tuple(reindexed(i, new) for i in e.indices))
        case Whole() | IndexName() | ExtentName():
            return e
    raise TypeError(f"an index expression is needed, got {e!r}")


def scalar_reindexed(e: Scalar, new: Callable[[IndexExpr], IndexExpr | None]) -> Scalar:
    """Return a scalar expression whose index expressions are replaced by ``new``, extents included."""
    match e:
        case Read():
            return replace(e, indices=tuple(reindexed(i, new) for i in e.indices))
        case IndexValue(value):
            return IndexValue(reindexed(value, new))
        case Reduce(_, over, body):
            bounds = tuple(Bound(b.name, reindexed(b.extent, new)) for b in over)
            return replace(e, over=bounds, body=scalar_reindexed(body, new))
    return rebuilt(e, lambda child: scalar_reindexed(child, new))
