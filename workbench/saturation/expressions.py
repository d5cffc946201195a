"""Integer expressions in egglog's syntax, with easy simplifications, and relations between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from typing import cast

from workbench.ops.types import DTYPE_NAMES, contains
from workbench.rules.interpret import ARITHMETIC, RELATIONS
from workbench.rules.pattern import Compare


@dataclass(frozen=True, slots=True, eq=False)
class Sym:
    """An integer expression in egglog's syntax.

    If it is a sum, ``terms`` are its summands and ``offset`` the number added to them. ``positive`` means
    that it is at least 1, as every extent is. A ``code`` is that of an element type.
    """

    text: str
    positive: bool = False
    terms: tuple[str, ...] = ()
    offset: int = 0
    code: bool = False

    def summands(self) -> tuple[tuple[str, ...], int]:
        """Return the expression as summands and a number."""
        return (self.terms, self.offset) if self.terms else ((self.text,), 0)

    def _op(self, operator: str, other: Int, *, swap: bool = False) -> Int:
        return arith(operator, other, self) if swap else arith(operator, self, other)

    def __add__(self, other: Int) -> Int:
        return self._op("+", other)

    def __radd__(self, other: Int) -> Int:
        return self._op("+", other, swap=True)

    def __sub__(self, other: Int) -> Int:
        return self._op("-", other)

    def __rsub__(self, other: Int) -> Int:
        return self._op("-", other, swap=True)

    def __mul__(self, other: Int) -> Int:
        return self._op("*", other)

    def __rmul__(self, other: Int) -> Int:
        return self._op("*", other, swap=True)

    def __floordiv__(self, other: Int) -> Int:
        return self._op("//", other)

    def __rfloordiv__(self, other: Int) -> Int:
        return self._op("//", other, swap=True)

    def __mod__(self, other: Int) -> Int:
        return self._op("%", other)

    def __eq__(self, other: Int) -> bool | Fact:  # type: ignore[override]  # a condition, maybe open
        return compare("=", self, other)

    def __ne__(self, other: Int) -> bool | Fact:  # type: ignore[override]
        return compare("!=", self, other)

    def __lt__(self, other: Int) -> bool | Fact:
        return compare("<", self, other)

    def __le__(self, other: Int) -> bool | Fact:
        return compare("<=", self, other)

    def __gt__(self, other: Int) -> bool | Fact:
        return compare(">", self, other)

    def __ge__(self, other: Int) -> bool | Fact:
        return compare(">=", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.text


Int = int | Sym
_UNIT = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}


def _sum(terms: tuple[str, ...], offset: int, positive: bool) -> Int:
    if not terms:
        return offset
    text = terms[0]
    for term in terms[1:]:
        text = f"(+ {text} {term})"
    if len(terms) == 1 and not offset:
        return Sym(text, positive)
    if offset:
        text = f"(+ {text} {offset})" if offset > 0 else f"(- {text} {-offset})"
    return Sym(text, positive, terms, offset)


def _summands(value: Int) -> tuple[tuple[str, ...], int]:
    return ((), value) if isinstance(value, int) else value.summands()


def arith(operator: str, left: Int, right: Int) -> Int:
    """Return an integer expression, with easy simplifications."""
    if isinstance(left, int) and isinstance(right, int):
        return int(ARITHMETIC[operator](left, right))
    if isinstance(right, int) and (operator, right) in _UNIT:
        return left
    if isinstance(left, int) and (operator, left) in {("+", 0), ("*", 1)}:
        return right
    if operator == "%" and isinstance(right, int) and right == 1:
        return 0
    if operator in ("max", "min") and str(left) == str(right):
        return left
    terms, offset = _summands(left)
    more, number = _summands(right)
    positive = _positive(left) and _positive(right)
    if operator == "+":
        return _sum(terms + more, offset + number, positive)
    if operator == "-" and all(more.count(t) <= terms.count(t) for t in more):
        rest = list(terms)
        for t in more:
            rest.remove(t)
        # A sum of extents minus some of them is the sum of the others.
        left_positive = isinstance(left, Sym) and left.positive and bool(rest) and offset == number
        return _sum(tuple(rest), offset - number, left_positive)
    sign = "/" if operator == "//" else operator
    return Sym(f"({sign} {left} {right})", positive and operator in ("*", "max", "min"))


def product(factors: Iterable[Int]) -> Int:
    """Return a product of integer expressions."""
    return reduce(partial(arith, "*"), factors, cast("Int", 1))


def floored(operator: str, left: Int, right: Int) -> Int:
    """Return an expression of a rule, whose quotients are rounded down as in Python.

    The engine's ``/`` and ``%`` round towards zero. A type rule divides only numbers that its requirements
    keep from being negative, and needs nothing more; a rule may divide any number.
    """
    numbers = isinstance(left, int) and isinstance(right, int)
    if operator not in ("//", "%") or numbers or (_natural(left) and _positive(right)):
        return arith(operator, left, right)
    if isinstance(right, int) and right == 1:
        return arith(operator, left, right)
    rest = Sym(f"(% (+ (% {left} {right}) {right}) {right})")
    return rest if operator == "%" else Sym(f"(/ (- {left} {rest}) {right})")


@dataclass(frozen=True, slots=True)
class Test:
    """Any test, as text in egglog's syntax."""

    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation between two integer expressions."""

    relation: str
    left: Int
    right: Int

    @property
    def text(self) -> str:
        """Return the fact in egglog's syntax."""
        return f"({self.relation} {self.left} {self.right})"


def _positive(value: Int) -> bool:
    return value > 0 if isinstance(value, int) else value.positive


def _natural(value: Int) -> bool:
    return value >= 0 if isinstance(value, int) else value.positive


def compare(relation: str, left: Int, right: Int) -> bool | Fact:
    """Return whether a relation holds, or the fact that states it."""
    if isinstance(left, int) and isinstance(right, int):
        return bool(RELATIONS[relation](left, right))
    if str(left) == str(right):
        return relation in ("=", "<=", ">=")
    if relation in ("<", "<=", ">", ">="):
        small, large = (left, right) if relation in ("<", "<=") else (right, left)
        more = arith("-", large, small)
        if isinstance(more, Sym) and more.positive:
            return True
        if relation in ("<=", ">=") and isinstance(small, int) and small <= 1 and _positive(large):
            return True
    if relation in (">", ">="):  # one spelling for each fact
        left, right = right, left
        relation = "<" if relation == ">" else "<="
    if relation in ("=", "!=") and str(right) < str(left):
        left, right = right, left
    return Fact(relation, left, right)


def relation_of(condition: Compare, *sides: Int) -> Callable[[str, Int, Int], bool | Fact]:
    """Return the comparison of the two sides of a condition: of element types, or of numbers."""
    codes = condition.of_dtypes or any(isinstance(side, Sym) and side.code for side in sides)
    return compare_dtypes if codes else compare


def compare_dtypes(relation: str, left: Int, right: Int) -> bool | Fact:
    """Return the fact that a relation holds between the codes of element types, or whether it does.

    One element type is at most another if every number of it is one of the other.
    """
    if relation not in ("<=", ">="):
        return compare(relation, left, right)
    narrow, wide = (left, right) if relation == "<=" else (right, left)
    # Bit b of entry a says whether the element type b contains a.
    sets = [sum(1 << b for b, w in DTYPE_NAMES.items() if contains(w, n)) for n in DTYPE_NAMES.values()]
    table = " ".join(map(str, [0, *sets]))
    return Fact("!=", 0, Sym(f"(& (vec-get (vec-of {table}) {narrow}) (<< 1 {wide}))"))
