"""Type rules on symbolic extents, which turn an operator's type rule into a rewrite rule's guard.

The left-hand side of a rule is well-typed whenever it matches, so its requirements are *assumed*. The
requirements of the right-hand side that do not follow from them are *demanded* and become guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import NoReturn, cast

from workbench.ops.types import (
    DTYPE_CODES,
    DTYPE_NAMES,
    FLOAT_DTYPES,
    INDEX_DTYPES,
    INTEGER_DTYPES,
    NUMBER_DTYPES,
    contains,
)
from workbench.rules.interpret import ARITHMETIC, RELATIONS
from workbench.rules.pattern import Compare
from workbench.saturation.encoding import Encoding, vector


class NotSymbolic(Exception):
    """Raised when a type rule needs concrete numbers."""


class NeverApplies(Exception):
    """Raised when a requirement is false for all extents."""


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
    (terms, offset), (more, number) = (((), v) if isinstance(v, int) else v.summands() for v in (left, right))
    positive = all(_positive(v) for v in (left, right))
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


@dataclass(frozen=True, slots=True, eq=False)
class SymType:
    """A type vector: an expression, and the slots that are known more precisely."""

    base: str
    slots: dict[int, Int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.base


def _code(dtype: str | Int) -> Int:
    """Return the code of an element type given by name, or the given expression for it."""
    return DTYPE_CODES[dtype] if isinstance(dtype, str) else dtype


@dataclass(slots=True)
class SymbolicTyping:
    """The reading on symbolic extents, which collects what type rules require.

    While ``assuming``, a requirement is recorded as known. Afterwards it becomes a guard unless it is known.
    """

    encoding: Encoding
    assuming: bool = True
    known: set[str] = field(default_factory=set)
    guards: list[str] = field(default_factory=list)
    same: dict[str, Int] = field(default_factory=dict)
    same_type: dict[str, str] = field(default_factory=dict)
    met: list[tuple[frozenset[str], Sym]] = field(default_factory=list)

    # -- expressions --------------------------------------------------------------------------
    def resolve(self, value: Int) -> Int:
        """Return the simplest expression known to equal ``value``."""
        while isinstance(value, Sym) and value.text in self.same:
            value = self.same[value.text]
        return value

    def text(self, x: SymType) -> str:
        """Return the type vector as an expression."""
        base = x.base
        while base in self.same_type:
            base = self.same_type[base]
        if not x.slots:
            return base
        if len(x.slots) == self.encoding.rank + 2:
            return vector(self.resolve(x.slots[i]) for i in range(len(x.slots)))
        for index in sorted(x.slots):
            base = f"(vec-set {base} {index} {self.resolve(x.slots[index])})"
        return base

    def get(self, x: SymType, index: int) -> Int:
        """Return one slot of a type vector."""
        if index in x.slots:
            return self.resolve(x.slots[index])
        base = x.base
        while base in self.same_type:
            base = self.same_type[base]
        return self.resolve(Sym(f"(vec-get {base} {index})", positive=index > 1))

    def explicit(self, slots: list[Int]) -> SymType:
        """Return a type with all slots given."""
        return SymType("", dict(enumerate(slots)))

    def ranked(self, code: Int, dims: Sequence[Int]) -> SymType:
        """Return the type with the given code of the element type and all extents."""
        fill: list[Int] = [1] * (self.encoding.rank - len(dims))
        if len(dims) > self.encoding.rank:
            raise NeverApplies("a rank beyond the largest of the graph")
        return self.explicit([code, len(dims), *fill, *dims])

    # -- requirements -------------------------------------------------------------------------
    def require(self, condition: object, message: str) -> None:
        """Assume or demand a condition."""
        if condition is True:
            return None
        if condition is False:
            raise NeverApplies(message)
        assert isinstance(condition, (Fact, Test)), condition
        if isinstance(condition, Fact) and condition.relation == "=":
            left, right = self.resolve(condition.left), self.resolve(condition.right)
            again = compare("=", left, right)
            if isinstance(again, bool):
                return self.require(again, message)
            condition = again
            self._note_equal(left, right)
        if condition.text in self.known:
            return None
        self.known.add(condition.text)
        if not self.assuming:
            self.guards.append(condition.text)
        return None

    def _note_equal(self, a: Int, b: Int) -> None:
        # The simpler expression replaces both from now on: a number, otherwise the shorter text.
        if isinstance(a, int) or (isinstance(b, Sym) and (len(a.text), a.text) < (len(b.text), b.text)):
            a, b = b, a
        if isinstance(a, Sym):
            self.same[a.text] = b

    def equal(self, a: Int, b: Int, message: str) -> None:
        """Assume or demand that two integers are equal."""
        self.require(compare("=", self.resolve(a), self.resolve(b)), message)

    # -- the Typing interface -----------------------------------------------------------------
    def rank(self, x: SymType) -> Int:
        return self.get(x, 1)

    def dim(self, x: SymType, axis: Int) -> Int:
        if isinstance(axis, int):
            if not -self.encoding.rank <= axis < 0:
                return 1
            return self.get(x, self.encoding.slot(axis))
        at = f"(+ {self.encoding.rank + 2} {axis})"
        return self.resolve(Sym(f"(vec-get {self.text(x)} {at})", positive=True))

    def with_dim(self, x: SymType, axis: Int, extent: Int) -> SymType:
        if isinstance(axis, int):
            if -axis > self.encoding.rank:
                raise NeverApplies("an axis beyond the largest rank")
            return SymType(x.base, x.slots | {self.encoding.slot(axis): extent})
        return SymType(f"(vec-set {self.text(x)} (+ {self.encoding.rank + 2} {axis}) {extent})")

    def with_dtype(self, x: SymType, dtype: str | Int) -> SymType:
        return SymType(x.base, x.slots | {0: _code(dtype)})

    def tensor(self, like: SymType, *dims: Int) -> SymType:
        return self.ranked(self.get(like, 0), dims)

    def constant(self, dtype: str | Int, *dims: Int) -> SymType:
        for extent in dims:
            self.require(compare("<=", 1, extent), "the extents of a constant are positive")
        return self.ranked(_code(dtype), dims)

    def constant_of_shape(self, dtype: str | Int, shape: object) -> SymType:
        if isinstance(shape, tuple):
            return self.constant(dtype, *shape)
        out, code = SymType(str(shape)), self.resolve(_code(dtype))
        if self.assuming:  # the vector of a constant's shape is the constant's own type
            self.equal(self.get(out, 0), code, "element types differ")
        return out if str(self.get(out, 0)) == str(self.resolve(code)) else self.with_dtype(out, code)

    def with_shape(self, x: SymType, shape: object) -> SymType:
        if isinstance(shape, tuple):
            return self.tensor(x, *shape)
        out = SymType(str(shape))
        if self.assuming:
            self.equal(self.get(out, 0), self.get(x, 0), "element types differ")
        # A shape is known as the type of the reshape that matched, which may have another element type.
        own = str(self.get(out, 0)) == str(self.get(x, 0))
        return out if own else SymType(out.base, {0: self.get(x, 0)})

    def permute(self, x: SymType, perm: object) -> SymType:
        size = self.encoding.rank + 2
        if isinstance(perm, tuple):
            self.equal(self.rank(x), len(perm), "a permutation fits its operand's rank")
            source = self.encoding.perm_vector(perm)
            slots = [self.get(x, 0), self.get(x, 1), *(self.get(x, i) for i in source[2:])]
            return self.explicit(slots)
        self.equal(self.resolve(Sym(f"(vec-get {perm} 1)")), self.rank(x), "the ranks agree")
        text = self.text(x)
        moved: list[Int] = [Sym(f"(vec-get {text} (vec-get {perm} {i}))") for i in range(2, size)]
        return self.explicit([self.get(x, 0), self.get(x, 1), *moved])

    def elements(self, x: SymType) -> Int:
        return product(self.get(x, i) for i in range(2, self.encoding.rank + 2))

    def broadcast(self, x: SymType, y: SymType, keep: int = 0) -> SymType:
        size = self.encoding.rank + 2
        if not keep and self.text(x) == self.text(y):
            return x
        for number, other in ((y, x), (x, y)):
            rank = number.slots.get(1)
            if not keep and isinstance(rank, int) and rank == 0:  # no axes, as an explicit type states
                return other
        slots: list[Int] = [self.get(x, 0), arith("max", *sorted((self.rank(x), self.rank(y)), key=str))]
        for i in range(2, size):
            a, b = self.get(x, i), self.get(y, i)
            if i >= size - keep or (isinstance(b, int) and b == 1):
                slots.append(a)
                continue
            if isinstance(a, int) and a == 1:
                slots.append(b)
                continue
            # a = b or a = 1 or b = 1, as one integer equation
            low, high = sorted((str(a), str(b)))
            if low != high:
                fact = f"(= 0 (* (- {low} {high}) (* (- {low} 1) (- {high} 1))))"
                self.require(Test(fact), "the operands broadcast")
            slots.append(arith("max", *sorted((a, b), key=str)) if low != high else a)
        return self.explicit(slots)

    def picked(self, x: SymType, axis: Int, places: SymType) -> SymType:
        rank, most = self.rank(x), self.encoding.rank
        if not isinstance(axis, int) or not isinstance(rank, int) or rank != -axis:
            raise NotSymbolic("places along another axis than the first")
        dims = [self.dim(places, k) for k in range(rank - 1 - most, 0)]
        total = arith("+", self.rank(places), rank - 1)
        self.require(compare("<=", total, most), "the rank is not too large")
        return self.explicit([self.get(x, 0), total, *dims, *(self.dim(x, k) for k in range(1 - rank, 0))])

    def maximum(self, a: Int, b: Int) -> Int:
        return arith("max", a, b)

    def require_same(self, x: SymType, y: SymType, message: str) -> None:
        a, b = self.text(x), self.text(y)
        if a == b:
            return
        a, b = sorted((a, b))
        self.require(Test(f"(= {a} {b})"), message)
        # Replacing one by the other lets later comparisons find that they agree.
        if not x.slots and not y.slots and not b.startswith("("):
            self.same_type[b] = a
            return
        for i in range(self.encoding.rank + 2):
            left, right = self.get(x, i), self.get(y, i)
            if str(left) != str(right) and not (isinstance(left, int) and isinstance(right, int)):
                self._note_equal(left, right)

    def require_same_dtype(self, x: SymType, y: SymType) -> None:
        self.equal(self.get(x, 0), self.get(y, 0), "element types agree")

    def require_float(self, x: SymType) -> None:
        self._require_dtype(x, FLOAT_DTYPES, "a float is expected")

    def require_integer(self, x: SymType) -> None:
        self._require_dtype(x, INTEGER_DTYPES, "a small whole number is expected")

    def require_index(self, x: SymType) -> None:
        self._require_dtype(x, INDEX_DTYPES, "numbers of places are expected")

    def _require_dtype(self, x: SymType, dtypes: frozenset[str], message: str) -> None:
        code = self.get(x, 0)
        if isinstance(code, int):
            self.require(code in {DTYPE_CODES[d] for d in dtypes}, message)
        elif not self._has_met(code, dtypes):
            self.met.append((dtypes, code))
            none = product(arith("-", code, dtype) for dtype in sorted(DTYPE_CODES[d] for d in dtypes))
            self.require(Test(f"(= 0 {none})"), message)

    def _has_met(self, code: Int, dtypes: frozenset[str]) -> bool:
        return any(d == dtypes and str(self.resolve(c)) == str(code) for d, c in self.met)

    def require_number(self, x: SymType) -> None:
        code = self.get(x, 0)
        others = () if self._has_met(code, FLOAT_DTYPES) else DTYPE_CODES.keys() - NUMBER_DTYPES
        for other in sorted(DTYPE_CODES[d] for d in others):
            self.require(compare("!=", code, other), "an element type that holds 0 and 1 is expected")

    def require_axis(self, x: SymType, axis: Int) -> None:
        if isinstance(axis, int):
            self.require(compare("<=", -axis, self.rank(x)), "the axis exists")
            return
        # The guard on the axis also keeps vec-set inside the vector.
        self.require(compare("<=", arith("-", 0, axis), self.rank(x)), "the axis exists")
        self.require(compare("<", axis, 0), "axes count from the last")

    def concrete(self, what: str, *xs: SymType) -> NoReturn:
        raise NotSymbolic(what)
