"""Scalar expressions of index notation: the value of one element, from reads, the primitives and reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from workbench.kernels.composites.index import (
    ExtentName,
    IndexArith,
    IndexExpr,
    IndexName,
    Whole,
    arith,
    index_names,
    parts,
)
from workbench.kernels.composites.index import Read as Read
from workbench.ops.elementwise import erf
from workbench.ops.exact import Arithmetic


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


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: one of the primitives.

    Args:
        name: The name in scalar expressions.
        arity: The number of operands.
        numpy: The function on numpy arrays.
        onnx: The ONNX operator.
        torch: The name of the function in ``torch``.
        needs: The least arithmetic in which the function is exact.
        doc: A description.
        sign: The sign by which it is written, if it has one.
        truth: Whether the value is true or false.
        of_truths: Whether the operands are true or false.
        joined: Whether it joins primitives in one instruction, and is none itself.

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
    joined: bool = False


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
        Function("fma", 3, _fma, "", "", _POLYNOMIAL, "the product of two plus the third", joined=True),
    )
}

#: The primitives: name to meaning.
PRIMITIVES: Final[dict[str, str]] = {
    "number": "a number, or an attribute's value",
    "index": "an index, an extent or a whole-number expression of them, as a value",
    "read": "an element of a tensor at places that are whole-number expressions",
    **{f.name: f.doc for f in FUNCTIONS.values() if not f.joined},
}

#: Reductions are folds of these functions.
FOLDS: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

#: The reductions in numpy.
NUMPY_FOLDS: Final[dict[str, Callable[..., Any]]] = {name: getattr(np, name) for name in FOLDS}

#: Where a fold starts.
NEUTRAL: Final = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
