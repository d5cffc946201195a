"""Expressions of index notation: whole numbers of indices and extents, and values of elements made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from workbench.ops.elementwise import erf
from workbench.ops.exact import Arithmetic

V = TypeVar("V")


# -- whole numbers -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str

    def __str__(self) -> str:
        return self.name


class IndexName(_Named):
    """An index: a variable that runs from 0 to its extent."""


class ExtentName(_Named):
    """A symbolic extent, or an attribute that is a whole number: fixed during one call."""


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
        places = [f"({i})" if isinstance(i, IndexArith) else str(i) for i in self.indices]
        return f"{self.tensor}[{' '.join(['~'] * self.leading + places)}]"


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
    extents: Mapping[str, V],
    places: Mapping[str, Any] = MappingProxyType({}),
    number: Callable[[int], Any] = int,
) -> V:
    """Return the value of an expression: a number, or what stands for one, such as an integer over symbols.

    Raise KeyError if an extent or an index is not known or a tensor is read, and ZeroDivisionError for a zero divisor.

    Args:
        e: The expression.
        extents: The values of extents and attributes.
        places: The values of indices.
        number: Returns the value of a number.
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
            # Names that stand for numbers come first.
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


# -- values of elements --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}" if float(f"{self.value:g}") == self.value else repr(self.value)


class Parameter(_Named):
    """The value of an attribute that is a floating-point number."""


@dataclass(frozen=True, slots=True)
class IndexValue:
    """A whole-number expression as a value, in the element type of the equation."""

    value: IndexExpr

    def __str__(self) -> str:
        return str(self.value) if not isinstance(self.value, IndexArith) else f"({self.value})"


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of :data:`FUNCTIONS`, applied to scalars."""

    function: str
    operands: tuple[Scalar, ...]

    def __str__(self) -> str:
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
    for index in e.indices if isinstance(e, Read) else (e.value,) if isinstance(e, IndexValue) else ():
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
        case Read():
            return index_names(e)
        case IndexValue(value):
            return index_names(value)
        case Apply(_, operands):
            return frozenset().union(*map(free_indices, operands))
        case Reduce(_, over, body):
            return free_indices(body) - {b.name for b in over}
    return frozenset()


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
    if (other := new(e)) is not None:
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
    """Return a scalar expression whose reads and index expressions are replaced by ``new``, extents included."""
    match e:
        case Read():
            found = reindexed(e, new)
            assert isinstance(found, Read), "a read becomes a read"
            return found
        case IndexValue(value):
            return IndexValue(reindexed(value, new))
        case Reduce(_, over, body):
            bounds = tuple(Bound(b.name, reindexed(b.extent, new)) for b in over)
            return replace(e, over=bounds, body=scalar_reindexed(body, new))
    return rebuilt(e, lambda child: scalar_reindexed(child, new))


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: one of the primitives.

    Args:
        name: The name in scalar expressions.
        arity: The number of operands.
        numpy: The function on numpy arrays.
        onnx: The ONNX operator; empty for one that joins primitives in one instruction, and is none itself.
        torch: The name of the function in ``torch``.
        needs: The least arithmetic in which the function is exact.
        doc: A description.
        sign: The sign by which it is written, if it has one.
        truth: Whether the value is true or false.
        of_truths: Whether the operands are true or false.

    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    onnx: str
    torch: str
    needs: Arithmetic
    doc: str
    sign: str = ""
    truth: bool = False
    of_truths: bool = False


def _fma(x: Any, y: Any, z: Any) -> Any:
    return np.add(np.multiply(x, y), z)


_POLYNOMIAL, _ORDERED = Arithmetic.POLYNOMIAL, Arithmetic.ORDERED
_RATIONAL, _DIGITS = Arithmetic.RATIONAL, Arithmetic.DIGITS

#: The scalar functions, by name.
FUNCTIONS: Final[dict[str, Function]] = {
    f.name: f
    for f in (
        Function("add", 2, np.add, "Add", "add", _POLYNOMIAL, "the sum", "+"),
        Function("sub", 2, np.subtract, "Sub", "sub", _POLYNOMIAL, "the difference", "-"),
        Function("mul", 2, np.multiply, "Mul", "mul", _POLYNOMIAL, "the product", "*"),
        Function("div", 2, np.divide, "Div", "div", _RATIONAL, "the quotient", "/"),
        Function("pow", 2, np.power, "Pow", "pow", _DIGITS, "the first to the power of the second", "^"),
        Function("max", 2, np.maximum, "Max", "maximum", _ORDERED, "the larger one"),
        Function("min", 2, np.minimum, "Min", "minimum", _ORDERED, "the smaller one"),
        Function("neg", 1, np.negative, "Neg", "neg", _POLYNOMIAL, "the negative", "-"),
        Function("abs", 1, np.abs, "Abs", "abs", _ORDERED, "the absolute value"),
        Function("floor", 1, np.floor, "Floor", "floor", _ORDERED, "the largest whole number of at most x"),
        Function("sqrt", 1, np.sqrt, "Sqrt", "sqrt", _DIGITS, "the square root"),
        Function("exp", 1, np.exp, "Exp", "exp", _DIGITS, "the exponential"),
        Function("log", 1, np.log, "Log", "log", _DIGITS, "the natural logarithm"),
        Function("sin", 1, np.sin, "Sin", "sin", Arithmetic.FLOATS, "the sine"),
        Function("cos", 1, np.cos, "Cos", "cos", Arithmetic.FLOATS, "the cosine"),
        Function("tanh", 1, np.tanh, "Tanh", "tanh", _DIGITS, "the hyperbolic tangent"),
        Function("erf", 1, erf, "Erf", "erf", _DIGITS, "the error function"),
        Function("less", 2, np.less, "Less", "lt", _ORDERED, "whether a < b", "<", truth=True),
        Function("atmost", 2, np.less_equal, "LessOrEqual", "le", _ORDERED, "whether a <= b", "<=", True),
        Function("equal", 2, np.equal, "Equal", "eq", _ORDERED, "whether a = b", "==", truth=True),
        Function("and", 2, np.logical_and, "And", "logical_and", _ORDERED, "both", "and", True, True),
        Function("or", 2, np.logical_or, "Or", "logical_or", _ORDERED, "one or both", "or", True, True),
        Function(
            "not", 1, np.logical_not, "Not", "logical_not", _ORDERED, "the opposite", "not ", True, True
        ),
        Function("where", 3, np.where, "Where", "where", _ORDERED, "the second if the first, else the third"),
        Function("fma", 3, _fma, "", "", _POLYNOMIAL, "the product of two plus the third"),
    )
}

#: The primitives: name to meaning.
PRIMITIVES: Final[dict[str, str]] = {
    "number": "a number, or an attribute's value",
    "index": "an index, an extent or a whole-number expression of them, as a value",
    "read": "an element of a tensor at places that are whole-number expressions",
    **{f.name: f.doc for f in FUNCTIONS.values() if f.onnx},
}

#: Reductions are folds of these functions; they have the same names in numpy.
FOLDS: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

#: Where a fold starts.
NEUTRAL: Final = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
