"""The exact form of operators: the numbers that an operator needs, and its semantics on those numbers.

Rules are judged in exact arithmetic. Most operators need no form of their own: their reference semantics
run on arrays of residues, whole numbers, fractions or long decimals as they are. An operator whose
semantics divide, take roots or call the functions of floating-point numbers writes them here, against
the :class:`Numbers` interface, next to its other forms.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

#: A fraction or a long decimal: numbers with Python's arithmetic, in arrays of objects.
Number = Any
ExactAttrs = Mapping[str, Any]


class Inexact(ArithmeticError):
    """Raised when a value is not exact in the chosen arithmetic."""


class Arithmetic(enum.IntEnum):
    """The arithmetics in which operators compute, each able to do more than the one before.

    Polynomials in the operands' elements need integers modulo a prime, comparisons whole numbers,
    divisions fractions. Roots and exponentials have no exact arithmetic and need long decimals. An operator
    of which only the semantics in floating point are known is computed in float64.
    """

    POLYNOMIAL = 0
    ORDERED = 1
    RATIONAL = 2
    DIGITS = 3
    FLOATS = 4


class Numbers(Protocol):
    """Fractions or long decimals, with the functions that operators apply to them.

    A function without a value among the numbers raises :class:`Inexact`.
    """

    def number(self, value: float | Fraction, /) -> Number:
        """Return the number that a Python number stands for."""

    def root(self, x: Number, /) -> Number:
        """Return the square root."""

    def exp(self, x: Number, /) -> Number:
        """Return the exponential."""

    def log(self, x: Number, /) -> Number:
        """Return the natural logarithm: minus infinity of 0, and no number of less."""

    def tanh(self, x: Number, /) -> Number:
        """Return the hyperbolic tangent."""

    def erf(self, x: Number, /) -> Number:
        """Return the error function."""

    def cos(self, x: Number, /) -> Number:
        """Return the cosine."""

    def sin(self, x: Number, /) -> Number:
        """Return the sine."""

    def power(self, x: Number, y: Number, /) -> Number:
        """Return ``x ** y``, which is not a number if ``x`` is negative and ``y`` not whole."""

    def pi(self) -> Number:
        """Return the ratio of a circle's circumference to its diameter."""


#: Compute on arrays of fractions or decimals: ``(numbers, operands, attrs) -> result``.
ExactCompute = Callable[[Numbers, Sequence[np.ndarray], ExactAttrs], np.ndarray]
#: Bound a polynomial's degree, from the operands' degrees.
Degree = Callable[[Sequence[int]], int]
#: Bound an absolute value: ``(the operands' bounds, the operands' shapes, attrs) -> the result's bound``.
Bound = Callable[[Sequence[int], Sequence[tuple[int, ...]], ExactAttrs], int]


def largest_degree(degrees: Sequence[int]) -> int:
    """Return the largest degree of an operand: that of a linear operator."""
    return max(degrees, default=0)


def largest_bound(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    """Return the largest bound of an operand, and 1 for a constant."""
    return max(bounds, default=1)


@dataclass(frozen=True, slots=True)
class ExactForm:
    """An operator in exact arithmetic.

    ``needs`` is the least arithmetic that has the operator, or a function that finds it from the
    attributes. ``compute`` works on fractions and decimals; without it the reference semantics do.
    ``degree`` and ``bound`` follow the degree of a polynomial and the size of whole numbers through the
    operator. Without a bound, fractions take the place of whole numbers.
    """

    needs: Arithmetic | Callable[[ExactAttrs], Arithmetic]
    compute: ExactCompute | None = None
    degree: Degree = largest_degree
    bound: Bound | None = largest_bound

    def arithmetic(self, attrs: ExactAttrs) -> Arithmetic:
        """Return the least arithmetic that has the operator with these attributes.

        >>> ExactForm(Arithmetic.ORDERED).arithmetic({}).name
        'ORDERED'
        """
        return self.needs if isinstance(self.needs, Arithmetic) else self.needs(attrs)


#: The forms of operators whose reference semantics are exact as they are.
POLYNOMIAL = ExactForm(Arithmetic.POLYNOMIAL)
ORDERED = ExactForm(Arithmetic.ORDERED)
RATIONAL = ExactForm(Arithmetic.RATIONAL)


def each(f: Callable[[Number], Number], array: np.ndarray) -> np.ndarray:
    """Return an array of objects: ``f`` of every element."""
    out = np.empty(array.size, dtype=object)
    for k, e in enumerate(array.flat):
        out[k] = f(e)
    return out.reshape(array.shape)


def in_digits(f: Callable[[Numbers, Number], Number]) -> ExactForm:
    """Return the form of an elementwise function that has a value to many digits only."""
    return ExactForm(Arithmetic.DIGITS, lambda numbers, xs, attrs: each(lambda x: f(numbers, x), xs[0]))
