"""The primitives of index notation: every composite is made of these 27 and of folds of four of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from workbench.ops.exact import Arithmetic


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


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return np.asarray(erf(x), np.asarray(x).dtype)


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
        Function("erf", 1, _erf, "Erf", "erf", _DIGITS, "the error function"),
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

#: The primitives that are not functions of scalars, with their meaning.
FORMS: Final = {
    "number": "a number, or an attribute's value",
    "index": "an index, an extent or a whole-number expression of them, as a value",
    "read": "an element of a tensor at places that are whole-number expressions",
}

#: The primitives: name to meaning.
PRIMITIVES: Final[dict[str, str]] = FORMS | {f.name: f.doc for f in FUNCTIONS.values() if not f.joined}

#: Reductions are folds of these functions.
FOLDS: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

#: The reductions in numpy.
NUMPY_FOLDS: Final[dict[str, Callable[..., Any]]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
}

#: Where a fold starts.
NEUTRAL: Final = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
