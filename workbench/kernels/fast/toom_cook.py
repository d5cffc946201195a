"""Toom-Cook's algorithm for short convolutions: three rational matrices that follow from interpolation points.

The ``outputs`` values ``y[i] = sum(k) g[k] d[i + k]`` of a window of ``taps`` weights are the coefficients of a
product of polynomials, which its values at ``outputs + taps - 1`` points determine. So as many products are enough,
instead of ``outputs * taps``: ``y = A (G g * B d)``. A point may be infinity, at which the value is the highest
coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm, prod
from typing import Final

Row = tuple[Fraction, ...]

#: Points that are used by default, in order: small errors in floating point decide, not small numbers of additions.
POINTS: Final = tuple(map(Fraction, ("0", "2/3", "-2/3", "3/2", "-3/2")))
#: The points of most programs. Their matrices have more ones, and more than three times the error.
WHOLE_POINTS: Final = tuple(map(Fraction, ("0", "1", "-1", "2", "-2")))


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A short convolution by ``len(points) + 1`` products; infinity is always the last point.

    >>> f = Algorithm(2, 3, WHOLE_POINTS[:3])
    >>> f.products, [list(map(str, row)) for row in f.weight]
    (4, [['-1', '0', '0'], ['1/2', '1/2', '1/2'], ['1/2', '-1/2', '1/2'], ['0', '0', '1']])
    """

    outputs: int
    taps: int
    points: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        wanted = self.outputs + self.taps - 2
        if len(self.points) != wanted or len(set(self.points)) != wanted:
            raise ValueError(
                f"there must be {wanted} different points, got {', '.join(map(str, self.points))}"
            )

    @property
    def products(self) -> int:
        """Return the number of products."""
        return self.outputs + self.taps - 1

    @property
    def input(self) -> tuple[Row, ...]:
        """Return ``B``: whole numbers without a common factor in each row, a row for each product."""
        return _matrices(self)[0]

    @property
    def output(self) -> tuple[Row, ...]:
        """Return ``A``: whole numbers without a common factor in each column, a row for each output."""
        return _matrices(self)[1]

    @property
    def weight(self) -> tuple[Row, ...]:
        """Return ``G``, which takes what makes the numbers of the others whole, because it is applied once."""
        return _matrices(self)[2]


@lru_cache(maxsize=64)
def _matrices(by: Algorithm) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
    """Return ``B``, ``A`` and ``G`` of an algorithm."""
    last = by.outputs - 1
    inputs = [_coefficients([q for q in by.points if q != p], by.products) for p in by.points]
    inputs.append(_coefficients(by.points, by.products))
    outputs = [[*(p**i for p in by.points), Fraction(i == last)] for i in range(by.outputs)]
    rows, columns = [_primitive(row) for row in inputs], [_primitive(c) for c in zip(*outputs, strict=True)]
    divisors = [prod((p - q for q in by.points if q != p), start=Fraction(1)) for p in by.points]
    weights = [[p**k / d for k in range(by.taps)] for p, d in zip(by.points, divisors, strict=True)]
    weights.append([Fraction(k == by.taps - 1) for k in range(by.taps)])
    return (
        tuple(tuple(x * s for x in row) for row, s in zip(inputs, rows, strict=True)),
        tuple(tuple(x * s for x, s in zip(row, columns, strict=True)) for row in outputs),
        tuple(tuple(x / (s * t) for x in row) for row, s, t in zip(weights, rows, columns, strict=True)),
    )


def _coefficients(roots: Sequence[Fraction], width: int) -> list[Fraction]:
    """Return the coefficients of the polynomial with these roots, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found + [Fraction(0)] * (width - len(found))


def _primitive(row: Sequence[Fraction]) -> Fraction:
    """Return the factor that makes numbers whole, without a common factor."""
    below = lcm(*(x.denominator for x in row))
    return Fraction(below, gcd(*(int(x * below) for x in row)))


def algorithm(outputs: int, taps: int, *, whole: bool = False) -> Algorithm:
    """Return the algorithm at the first of the default points, or of whole ones.

    Few points are 0, 1 and -1 in any case.

    >>> str(algorithm(4, 3).input[1][1]), str(algorithm(4, 3).output[3][1])
    ('-18', '8')
    """
    count = outputs + taps - 2
    points = WHOLE_POINTS if whole or count <= 3 else POINTS
    if count > len(points):
        raise ValueError(f"outputs and taps must be at most {len(points) + 2} together, got {outputs + taps}")
    return Algorithm(outputs, taps, points[:count])
