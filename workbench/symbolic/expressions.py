"""Sizes as expressions: polynomials in the symbolic dimensions of a model, rounded down."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

#: A product of symbols: each with its power, in alphabetical order.
Monomial = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A size: the sum of products of symbols, each with a rational coefficient, rounded down.

    >>> s = Expression.symbol("s")
    >>> e = s * s * 2 + 1
    >>> str(e), e.at({"s": 3})
    ('2*s*s + 1', 19)
    >>> half = Expression.of({(("s", 1),): Fraction(1, 2), (): Fraction(1, 2)})
    >>> str(half), half.at({"s": 4}), half.at({"s": 5})
    ('floor((s + 1)/2)', 2, 3)
    """

    terms: tuple[tuple[Monomial, Fraction], ...]

    @classmethod
    def of(cls, terms: Mapping[Monomial, Fraction]) -> Expression:
        """Return the expression with these coefficients, in normal form."""
        kept = {m: c for m, c in terms.items() if c}
        return cls(tuple(sorted(kept.items(), key=lambda t: (-sum(p for _, p in t[0]), t[0]))))

    @classmethod
    def number(cls, value: int | Fraction) -> Expression:
        """Return a constant."""
        return cls.of({(): Fraction(value)})

    @classmethod
    def symbol(cls, name: str) -> Expression:
        """Return a symbol."""
        return cls.of({((name, 1),): Fraction(1)})

    def __add__(self, other: Expression | int) -> Expression:
        total = dict(self.terms)
        for monomial, c in _expression(other).terms:
            total[monomial] = total.get(monomial, Fraction(0)) + c
        return Expression.of(total)

    def __mul__(self, other: Expression | int | Fraction) -> Expression:
        total: dict[Monomial, Fraction] = {}
        for a, x in self.terms:
            for b, y in _expression(other).terms:
                powers = dict(a)
                for name, power in b:
                    powers[name] = powers.get(name, 0) + power
                product = tuple(sorted(powers.items()))
                total[product] = total.get(product, Fraction(0)) + x * y
        return Expression.of(total)

    @property
    def symbols(self) -> frozenset[str]:
        """Return the symbols that the size depends on."""
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)

    @property
    def constant(self) -> bool:
        """Return whether the size depends on no symbol."""
        return not self.symbols

    @property
    def divisor(self) -> int:
        """Return the least common denominator of the coefficients."""
        return math.lcm(*(c.denominator for _, c in self.terms))

    def given(self, sizes: Mapping[str, int]) -> Expression:
        """Return the expression after substituting these sizes for their symbols; other symbols remain."""
        total = Expression.number(0)
        for monomial, c in self.terms:
            term = Expression.number(c)
            for name, power in monomial:
                factor = Expression.number(sizes[name]) if name in sizes else Expression.symbol(name)
                for _ in range(power):
                    term = term * factor
            total = total + term
        return total

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the size when the symbols have these sizes."""
        total = Fraction(0)
        for monomial, c in self.terms:
            total += c * math.prod(sizes[name] ** power for name, power in monomial)
        return math.floor(total)

    def __str__(self) -> str:
        divisor = self.divisor
        parts = []
        for monomial, c in self.terms:
            number = int(c * divisor)
            factors = [name for name, power in monomial for _ in range(power)]
            if not factors or abs(number) != 1:
                factors.insert(0, str(abs(number)))
            parts.append(("- " if number < 0 else "+ ") + "*".join(factors))
        text = " ".join(parts).removeprefix("+ ") or "0"
        if divisor == 1:
            return text
        whole = f"({text})" if len(parts) > 1 else text
        return f"floor({whole}/{divisor})"


def parsed(text: str, names: Collection[str]) -> Expression | None:
    """Parse a sum, difference or product of integers and named symbols; return None for any other text.

    The result is also None if a name is not in ``names``, or if the text is a single name or number.

    >>> str(parsed("past + sequence", {"past", "sequence"}))
    'past + sequence'
    >>> parsed("past + 1", {"sequence"}), parsed("past", {"past"})
    (None, None)
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _read(tree, names) if isinstance(tree, ast.BinOp) else None


def _read(tree: ast.expr, names: Collection[str]) -> Expression | None:
    if isinstance(tree, ast.Name):
        return Expression.symbol(tree.id) if tree.id in names else None
    if isinstance(tree, ast.Constant):
        return Expression.number(tree.value) if type(tree.value) is int else None
    if not isinstance(tree, ast.BinOp):
        return None
    a, b = _read(tree.left, names), _read(tree.right, names)
    if a is None or b is None:
        return None
    match tree.op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a + b * -1
        case ast.Mult():
            return a * b
    return None


def _expression(value: Expression | int | Fraction) -> Expression:
    return value if isinstance(value, Expression) else Expression.number(value)
