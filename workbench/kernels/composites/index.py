"""Whole-number expressions of index notation: over the indices of a loop nest and over symbolic extents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class IndexName:
    """An index: a variable that runs from 0 to its extent."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ExtentName:
    """A symbolic extent, or an attribute that is a whole number: fixed during one call."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class IndexArith:
    """A sum, difference, product, floored quotient or floored remainder: ``op`` is ``+ - * // %``."""

    op: str
    left: IndexExpr
    right: IndexExpr

    def __str__(self) -> str:
        return f"{_inside(self.left, self.op, False)} {self.op} {_inside(self.right, self.op, True)}"


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor.

    With ``leading``, the tensor's leading axes are read at the equation's leading indices. They align from
    the last one and broadcast, as in numpy. ``indices`` are the places along the other axes.
    """

    tensor: str
    leading: bool
    indices: tuple[IndexExpr, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{' '.join(['~'] * self.leading + [_bracketed(i) for i in self.indices])}]"


def _bracketed(i: IndexExpr) -> str:
    return f"({i})" if isinstance(i, IndexArith) else str(i)


#: An integer expression; a read is one of a tensor of whole numbers.
IndexExpr = Whole | IndexName | ExtentName | IndexArith | Read

#: The meaning of the operators of :class:`IndexArith`, on Python's integers and on numpy's.
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_STRENGTH: Final = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def _inside(e: IndexExpr, op: str, right: bool) -> str:
    weak = isinstance(e, IndexArith) and _STRENGTH[e.op] < _STRENGTH[op] + (right and op != "+")
    return f"({e})" if weak else str(e)


def arith(op: str, left: IndexExpr, right: IndexExpr) -> IndexExpr:
    """Return an expression, folded if both sides are numbers or one is neutral.

    >>> str(arith("+", IndexName("i"), Whole(0))), str(arith("*", Whole(2), Whole(3)))
    ('i', '6')
    """
    if isinstance(left, Whole) and isinstance(right, Whole) and (op not in ("//", "%") or right.value):
        return Whole(ARITHMETIC[op](left.value, right.value))
    if op in ("+", "-") and right == Whole(0):
        return left
    if op in ("*", "//") and right == Whole(1):
        return left
    if (op, left) in (("+", Whole(0)), ("*", Whole(1))):
        return right
    return IndexArith(op, left, right)


def product(factors: Iterable[IndexExpr]) -> IndexExpr:
    """Return the product of expressions, 1 for none."""
    start: IndexExpr = Whole(1)
    return reduce(lambda one, two: arith("*", one, two), factors, start)


def parts(e: IndexExpr) -> Iterator[IndexExpr]:
    """Yield an expression and every expression in it, those in the indices of a read included."""
    yield e
    for part in (e.left, e.right) if isinstance(e, IndexArith) else e.indices if isinstance(e, Read) else ():
        yield from parts(part)


def index_names(e: IndexExpr) -> frozenset[str]:
    """Return the names of the indices in an expression."""
    return frozenset(p.name for p in parts(e) if isinstance(p, IndexName))


def extent_names(e: IndexExpr) -> frozenset[str]:
    """Return the names of the extents and attributes in an expression."""
    return frozenset(p.name for p in parts(e) if isinstance(p, ExtentName))


def computed(
    e: IndexExpr,
    extents: Mapping[str, Any],
    places: Mapping[str, Any] = MappingProxyType({}),
    number: Callable[[int], Any] = int,
) -> Any:
    """Return the value of an expression: a number, or what stands for one, such as an integer over symbols.

    Args:
        e: The expression.
        extents: The values of extents and attributes.
        places: The values of indices.
        number: Returns the value of a number.

    Raises:
        KeyError: If an extent or an index is not known, or a tensor is read.
        ZeroDivisionError: If a divisor is zero.
    """
    match e:
        case Whole(value):
            return number(value)
        case ExtentName(name):
            return extents[name]
        case IndexName(name):
            return places[name]
        case IndexArith(op, left, right):
            a, b = (computed(side, extents, places, number) for side in (left, right))
            # What stands for a number comes first.
            return ARITHMETIC[op](b, a) if isinstance(a, int) and op in "+*" else ARITHMETIC[op](a, b)
    raise KeyError(str(e))


def interval(e: IndexExpr, extents: Mapping[str, int], sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """Return bounds of an expression's values, or None if it reads a tensor; ``sizes`` are the extents of indices."""
    match e:
        case Whole(value):
            return value, value
        case ExtentName(name):
            return extents[name], extents[name]
        case IndexName(name):
            return 0, sizes[name] - 1
        case IndexArith(op, left, right):
            a, b = interval(left, extents, sizes), interval(right, extents, sizes)
            if a is None or b is None or (op in ("//", "%") and b[0] <= 0 <= b[1]):
                return None
            if op == "%":
                if b[0] <= 0:
                    return None
                within = a[0] >= 0 and a[1] < b[0]
                return a if within else (0, b[1] - 1)
            ends = [ARITHMETIC[op](x, y) for x in a for y in b]
            return min(ends), max(ends)
    return None
