"""Generic extents: each symbolic dimension is replaced by one large number that identifies it everywhere.

A graph whose symbols have generic extents is an ordinary graph. No tensor of it is ever computed: search
and prices see extents as numbers only. A rewrite that needs one particular size does not fire on it, and
every number in its types and attributes can be decoded to an expression in the symbols
(:meth:`Generic.expression`). Decoding is a heuristic, so its result is checked in three ways: at a second
generic binding, by type inference at other sizes, and by running the original and the optimised file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.symbolic.integers import Int, num, quotient, sym

#: Numbers from here on are not extents: ``INT64_MAX`` and the like mean "to the end".
_UNBOUNDED: Final = 1 << 61

#: The divisors that convolutions and pools apply to extents.
_DIVISORS: Final = (2, 4, 8, 16, 32, 64, 3, 5, 6)
#: Symbols with a smaller prime are lengths bounded by a stored table; windows do not divide them.
_DIVIDED: Final = 4096

_Fraction = tuple[Int, int]


class Undecodable(ValueError):
    """Raised when a number that depends on a symbolic dimension has no form as an expression."""


@dataclass(frozen=True, slots=True)
class Generic:
    """The generic extents of the symbols of a model.

    The extent of a symbol is its prime times its entry in ``multiples`` (1 unless the model needs extents
    with a given divisor). ``derived`` contains the symbols whose sizes follow from other symbols.
    ``constants`` are numbers that the model itself contains; they are never decoded.
    """

    primes: Mapping[str, int]
    multiples: Mapping[str, int] = field(default_factory=dict)
    derived: Mapping[str, Int] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    _known: dict[int, Int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def extents(self) -> dict[str, int]:
        """Return the generic extent of every symbol, including the derived symbols."""
        own = {name: prime * self.multiples.get(name, 1) for name, prime in self.primes.items()}
        return self.completed(own)

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes together with the sizes of the derived symbols."""
        return {**sizes, **{name: size.at(sizes) for name, size in self.derived.items()}}

    def expression(self, number: int) -> Int:
        """Return the expression in the symbols that a number encodes."""
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = self._read(number)
        return found

    def depends(self, number: int) -> bool:
        """Return whether a number depends on a symbol."""
        return self.expression(number).value is None

    def at(self, number: int, sizes: Mapping[str, int]) -> int:
        """Return the value of a number when the symbols have these sizes."""
        found = self.expression(number)
        return number if found.value is not None else found.at(sizes)

    # -- reading: a fraction is an integer and the number that divides it -------------------------------
    def _read(self, number: int) -> Int:
        if not self.primes or number < 0 or number >= _UNBOUNDED:
            return num(number)
        found = self._product(number) or self._affine(number) or self._sum(number)
        return num(number) if found is None else quotient(*found)

    def _small(self, number: int) -> bool:
        """Return whether a number is too small to encode a symbol, or is a constant of the model."""
        least = min(p * (1 if self.multiples.get(n, 1) > 1 else 0.1) for n, p in self.primes.items())
        return number in self.constants or number < least

    def _product(self, number: int) -> _Fraction | None:
        """Decode a number that the prime of a symbol divides; the quotient is decoded in turn."""
        if self._small(number):
            return None
        for name, prime in self.primes.items():
            if number % prime == 0:
                rest = number // prime
                inner, divisor = self._product(rest) or self._affine(rest) or (num(rest), 1)
                return sym(name) * inner, self.multiples.get(name, 1) * divisor
        return None

    def _affine(self, number: int) -> _Fraction | None:
        """Decode a multiple of one symbol plus a small addend, or such a sum divided and rounded down."""
        if self._small(number):
            return None
        found: list[tuple[int, _Fraction]] = []
        for name, prime in self.primes.items():
            multiple = self.multiples.get(name, 1)
            reach = min(64, 1 + prime // 1000)
            addend = _centred(number, prime)
            times = (number - addend) // prime
            few = times % multiple == 0 and times // multiple <= 4 and abs(addend) <= reach
            part = multiple > 1 and times.bit_count() == 1 and abs(addend) <= 2
            if addend and times > 0 and (few or part):
                found.append((abs(addend), (sym(name) * times + addend * multiple, multiple)))
            if multiple > 1 or prime < _DIVIDED:
                continue
            for divisor in _DIVISORS:
                exact = number * divisor - prime
                # Windows halve an extent rounding down or up; at one extent other addends agree.
                natural = [a for a in (0, divisor - 1, exact) if (prime + a) // divisor == number]
                if natural and abs(exact) < 2 * divisor:
                    found.append((divisor, (sym(name) + natural[0], divisor)))
                    break
        return min(found, key=lambda f: f[0])[1] if found else None

    def _sum(self, number: int) -> _Fraction | None:
        """Decode a number as the sum of a symbol and an expression in the symbols."""
        for name, prime in self.primes.items():
            rest = number - prime * self.multiples.get(name, 1)
            if rest > 0:
                other = self._product(rest) or self._affine(rest)
                if other is not None:
                    return sym(name) * other[1] + other[0], other[1]
        return None


def _centred(number: int, modulus: int) -> int:
    """Return the remainder of least magnitude, which may be negative.

    >>> _centred(11, 4), _centred(9, 4)
    (-1, 1)
    """
    rest = number % modulus
    return rest - modulus if rest > modulus // 2 else rest


def is_prime(number: int) -> bool:
    """Return whether a number is prime.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def prime_below(bound: int, avoid: frozenset[int], taken: frozenset[int] = frozenset()) -> int:
    """Return the largest prime up to ``bound`` that resembles no number in ``avoid`` and is not in ``taken``.

    A number resembles a prime if it is a multiple of the prime, or within 2 of the prime or of its double.

    Raises:
        Undecodable: No prime above 10 meets these conditions.
    """
    near = {m for n in avoid for d in range(-2, 3) for m in (n + d, (n + d) // 2)}
    for number in range(bound, 10, -1):
        if number in taken or number in near or not is_prime(number):
            continue
        if all(n % number for n in avoid):
            return number
    raise Undecodable(f"no prime up to {bound} differs from all sizes in the model")
