"""Type rules on symbolic extents, which turn an operator's type rule into a rewrite rule's guard.

The left-hand side of a rule is well-typed whenever it matches, so its requirements are *assumed*. The
requirements of the right-hand side that do not follow from them are *demanded* and become guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partialmethod, reduce
from math import prod
from typing import NoReturn

from workbench.ops import types
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES
from workbench.rules.interpret import ARITHMETIC as ON_NUMBERS
from workbench.saturation.encoding import Encoding
from workbench.saturation.program import vector
from workbench.symbolic import integers
from workbench.symbolic.integers import Cond, Int, call, num, sym
from workbench.symbolic.symint import ARITHMETIC, RELATIONS, SymInt


# -- expressions of the program ------------------------------------------------------------------------
class Sym(SymInt):
    """An integer expression of the program; a number is a plain integer.

    A symbol is any expression of egglog. Quotients and remainders are those of egglog, which round towards
    zero, so that nothing is simplified in them.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        """Return the expression in egglog's syntax."""
        return written(self.x)

    def arith(self, sign: str, left: Size, right: Size) -> Size:
        """Return the result of an operation."""
        return arith(sign, left, right)

    def related(self, relation: str, left: Size, right: Size) -> bool | Cond:
        """Return whether a relation holds, or the condition that it does."""
        return compare(relation, left, right)

    def __str__(self) -> str:
        return self.text


#: An integer in this reading.
Size = int | Sym


def opaque(text: str, *, positive: bool = False) -> Sym:
    """Return an expression in egglog's syntax of which nothing is known, except that it may be at least 1."""
    return Sym(sym(f"+{text}" if positive else text))


@lru_cache(maxsize=65536)
def written(x: Int) -> str:
    """Return an integer in egglog's syntax.

    >>> written(sym("a") * sym("+b") * 2 - sym("c") - 3)
    '(- (- (* (* 2 b) a) c) 3)'
    """
    text = ""
    for product, number in sorted(x.terms, key=lambda t: (t[1] < 0, not t[0])):
        factors = [str(abs(number))] if abs(number) > 1 or not product else []
        part = _folded("*", [*factors, *map(_atom, product)])
        if text or (number < 0 and product):
            text = f"({'+' if number > 0 else '-'} {text or 0} {part})"
        else:
            text = part if number > 0 else f"-{part}"
    return text or "0"


def _atom(atom: integers.Atom) -> str:
    if atom.head == "sym":
        return str(atom.args[0]).removeprefix("+")
    return _folded(atom.head, list(map(written, atom.args)))


def _folded(operator: str, parts: Sequence[str]) -> str:
    return reduce(lambda left, right: f"({operator} {left} {right})", parts)


def _whole(value: Size) -> Int:
    return value.x if isinstance(value, Sym) else num(value)


def _size(x: Int) -> Size:
    return Sym(x) if x.value is None else x.value


def arith(sign: str, left: Size, right: Size) -> Size:
    """Return the result of an operation of a type rule."""
    if isinstance(left, int) and isinstance(right, int):
        return int(ON_NUMBERS[sign](left, right))
    x, y = _whole(left), _whole(right)
    if sign not in ("//", "%"):
        return _size(ARITHMETIC[sign](x, y))
    if y.value == 1:
        return left if sign == "//" else 0
    return Sym(call("/" if sign == "//" else "%", x, y))


def floored(sign: str, left: Size, right: Size) -> Size:
    """Return the result of an operation of a rule, whose quotients are rounded down as in Python.

    A type rule divides only numbers that its requirements keep from being negative, and needs nothing more; a
    rule may divide any number.
    """
    x, y = _whole(left), _whole(right)
    numbers, least = isinstance(left, int) and isinstance(right, int), integers.lower(x)
    alike = numbers or y.value == 1 or (least is not None and least >= 0 and integers.is_positive(y))
    if alike or sign not in ("//", "%"):
        return arith(sign, left, right)
    rest = call("%", call("%", x, y) + y, y)
    return Sym(rest if sign == "%" else call("/", x - rest, y))


def compare(relation: str, left: Size, right: Size) -> bool | Cond:
    """Return whether a relation holds, or the condition that it does."""
    found = RELATIONS[relation](_whole(left), _whole(right))
    return found == integers.TRUE if found in (integers.TRUE, integers.FALSE) else found


def compare_dtypes(relation: str, left: Size, right: Size) -> bool | Cond | str:
    """Return the fact that element types relate by their codes: one is at most another that has all its numbers."""
    if relation not in ("<=", ">="):
        return compare(relation, left, right)
    narrow, wide = (left, right) if relation == "<=" else (right, left)
    # Bit b of entry a says whether the element type b contains a.
    sets = [sum(1 << b for b, w in DTYPE_NAMES.items() if types.contains(w, n)) for n in DTYPE_NAMES.values()]
    table = " ".join(map(str, [0, *sets]))
    return f"(!= 0 (& (vec-get (vec-of {table}) {narrow}) (<< 1 {wide})))"


@lru_cache(maxsize=65536)
def sides(condition: Cond) -> tuple[str, Size, Size]:
    """Return a condition as a relation between two expressions without a term in common."""
    relation = {"ge": "<=", "eq": "=", "not": "!="}[condition.head]
    more, less = integers.signed((condition.args[0] if relation == "!=" else condition).args[0])
    if relation == "<=" and less.value is None and less.terms[0] == ((), 1):
        return "<", _size(less - 1), _size(more)
    small, large = _size(less), _size(more)
    if relation != "<=" and str(large) < str(small):  # one spelling for each fact
        small, large = large, small
    return relation, small, large


def equal_types(left: str, right: str) -> str:
    """Return the fact that two types are equal; two variables are compared when both are known.

    Types are kept out of the joins of a query: if two variables are equal, egglog makes one of them and joins
    the tables by it. A type is a bad key, because hundreds of e-classes have the same one. If the types are
    compared by a test, the query starts from the operators.

    >>> equal_types("s_x_", "s_y_"), equal_types("s_x_", "(vec-of 0 1 3)")
    ('(= s_x_ (vec-append s_y_))', '(= s_x_ (vec-of 0 1 3))')
    """
    variables = not left.startswith("(") and not right.startswith("(")
    return f"(= {left} (vec-append {right}))" if variables else f"(= {left} {right})"


class NotSymbolic(Exception):
    """Raised when a type rule needs concrete numbers."""


class NeverApplies(Exception):
    """Raised when a requirement is false for all extents."""


@dataclass(frozen=True, slots=True, eq=False)
class SymType:
    """A type vector: an expression, and the slots that are known more precisely."""

    base: str
    slots: dict[int, Size] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.base


def _code(dtype: str | Size) -> Size:
    """Return the code of an element type given by name, or the given expression for it."""
    return DTYPE_CODES[dtype] if isinstance(dtype, str) else dtype


@dataclass(slots=True)
class SymbolicTyping:
    """The reading on symbolic extents: requirements are known while ``assuming``, and then become guards."""

    encoding: Encoding
    assuming: bool = True
    known: set[str] = field(default_factory=set)
    guards: list[str] = field(default_factory=list)
    same: dict[Int, Size] = field(default_factory=dict)
    same_type: dict[str, str] = field(default_factory=dict)
    met: list[tuple[frozenset[str], Sym]] = field(default_factory=list)

    # -- expressions --------------------------------------------------------------------------
    def resolve(self, value: Size) -> Size:
        """Return the simplest expression known to equal ``value``."""
        while isinstance(value, Sym) and value.x in self.same:
            value = self.same[value.x]
        return value

    def base(self, x: SymType) -> str:
        """Return the simplest expression known to equal that from which a type vector is made."""
        base = x.base
        while base in self.same_type:
            base = self.same_type[base]
        return base

    def text(self, x: SymType) -> str:
        """Return the type vector as an expression."""
        base = self.base(x)
        if not x.slots:
            return base
        if len(x.slots) == self.encoding.rank + 2:
            return vector(self.resolve(x.slots[i]) for i in range(len(x.slots)))
        for index in sorted(x.slots):
            base = f"(vec-set {base} {index} {self.resolve(x.slots[index])})"
        return base

    def get(self, x: SymType, index: int) -> Size:
        """Return one slot of a type vector."""
        if index in x.slots:
            return self.resolve(x.slots[index])
        return self.resolve(opaque(f"(vec-get {self.base(x)} {index})", positive=index > 1))

    def explicit(self, slots: list[Size]) -> SymType:
        """Return a type with all slots given."""
        return SymType("", dict(enumerate(slots)))

    def ranked(self, code: Size, dims: Sequence[Size]) -> SymType:
        """Return the type with the given code of the element type and all extents."""
        fill: list[Size] = [1] * (self.encoding.rank - len(dims))
        if len(dims) > self.encoding.rank:
            raise NeverApplies("a rank beyond the largest of the graph")
        return self.explicit([code, len(dims), *fill, *dims])

    # -- requirements -------------------------------------------------------------------------
    def require(self, condition: object, message: str) -> None:
        """Assume or demand a condition, or a fact in egglog's syntax."""
        if condition is True:
            return None
        if condition is False:
            raise NeverApplies(message)
        text = condition
        if isinstance(condition, Cond):
            relation, left, right = sides(condition)
            if relation == "=":
                left, right = self.resolve(left), self.resolve(right)
                again = compare("=", left, right)
                if isinstance(again, bool):
                    return self.require(again, message)
                relation, left, right = sides(again)
                self._note_equal(left, right)
            text = f"({relation} {left} {right})"
        assert isinstance(text, str), condition
        if text in self.known:
            return None
        self.known.add(text)
        if not self.assuming:
            self.guards.append(text)
        return None

    def _note_equal(self, a: Size, b: Size) -> None:
        # The simpler expression replaces both from now on: a number, otherwise the shorter text.
        if isinstance(a, int) or (isinstance(b, Sym) and (len(a.text), a.text) < (len(b.text), b.text)):
            a, b = b, a
        if isinstance(a, Sym):
            self.same[a.x] = b

    def equal(self, a: Size, b: Size, message: str) -> None:
        """Assume or demand that two integers are equal."""
        self.require(compare("=", self.resolve(a), self.resolve(b)), message)

    # -- the Typing interface -----------------------------------------------------------------
    def rank(self, x: SymType) -> Size:
        return self.get(x, 1)

    def dim(self, x: SymType, axis: Size) -> Size:
        if isinstance(axis, int):
            if not -self.encoding.rank <= axis < 0:
                return 1
            return self.get(x, self.encoding.slot(axis))
        at = f"(+ {self.encoding.rank + 2} {axis})"
        return self.resolve(opaque(f"(vec-get {self.text(x)} {at})", positive=True))

    def with_dim(self, x: SymType, axis: Size, extent: Size) -> SymType:
        if isinstance(axis, int):
            if -axis > self.encoding.rank:
                raise NeverApplies("an axis beyond the largest rank")
            return SymType(x.base, x.slots | {self.encoding.slot(axis): extent})
        return SymType(f"(vec-set {self.text(x)} (+ {self.encoding.rank + 2} {axis}) {extent})")

    def with_dtype(self, x: SymType, dtype: str | Size) -> SymType:
        return SymType(x.base, x.slots | {0: _code(dtype)})

    def tensor(self, like: SymType, *dims: Size) -> SymType:
        return self.ranked(self.get(like, 0), dims)

    def constant(self, dtype: str | Size, *dims: Size) -> SymType:
        for extent in dims:
            self.require(compare("<=", 1, extent), "the extents of a constant are positive")
        return self.ranked(_code(dtype), dims)

    def constant_of_shape(self, dtype: str | Size, shape: object) -> SymType:
        if isinstance(shape, tuple):
            return self.constant(dtype, *shape)
        out = SymType(str(shape))
        code = self.resolve(_code(dtype))
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
            source = [0, 1, *self.encoding.perm_vector(perm)[2:]]
            return self.explicit([self.get(x, i) for i in source])
        self.equal(self.resolve(opaque(f"(vec-get {perm} 1)")), self.rank(x), "the ranks agree")
        text = self.text(x)
        moved: list[Size] = [opaque(f"(vec-get {text} (vec-get {perm} {i}))") for i in range(2, size)]
        return self.explicit([self.get(x, 0), self.get(x, 1), *moved])

    def elements(self, x: SymType) -> Size:
        return prod(self.get(x, i) for i in range(2, self.encoding.rank + 2))

    def broadcast(self, x: SymType, y: SymType, keep: int = 0) -> SymType:
        size = self.encoding.rank + 2
        if not keep and self.text(x) == self.text(y):
            return x
        for number, other in ((y, x), (x, y)):
            rank = number.slots.get(1)
            if not keep and isinstance(rank, int) and rank == 0:  # no axes, as an explicit type states
                return other
        slots: list[Size] = [self.get(x, 0), arith("max", self.rank(x), self.rank(y))]
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
                self.require(fact, "the operands broadcast")
            slots.append(arith("max", a, b) if low != high else a)
        return self.explicit(slots)

    def picked(self, x: SymType, axis: Size, places: SymType) -> SymType:
        rank, most = self.rank(x), self.encoding.rank
        if not isinstance(axis, int) or not isinstance(rank, int) or rank != -axis:
            raise NotSymbolic("places along another axis than the first")
        dims = [self.dim(places, k) for k in range(rank - 1 - most, 0)]
        total = self.rank(places) + (rank - 1)
        self.require(compare("<=", total, most), "the rank is not too large")
        return self.explicit([self.get(x, 0), total, *dims, *(self.dim(x, k) for k in range(1 - rank, 0))])

    def maximum(self, a: Size, b: Size) -> Size:
        return arith("max", a, b)

    def require_same(self, x: SymType, y: SymType, message: str) -> None:
        a, b = sorted((self.text(x), self.text(y)))
        if a == b:
            return
        self.require(equal_types(a, b), message)
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

    def _among(self, x: SymType, *, dtypes: frozenset[str], why: str) -> None:
        code = self.get(x, 0)
        if isinstance(code, int):
            self.require(code in {DTYPE_CODES[d] for d in dtypes}, why)
        elif not self._has_met(code, dtypes):
            self.met.append((dtypes, code))
            none = _folded("*", [f"(- {code} {dtype})" for dtype in sorted(DTYPE_CODES[d] for d in dtypes)])
            self.require(f"(= 0 {none})", why)

    require_float = partialmethod(_among, dtypes=types.FLOAT_DTYPES, why="a float is expected")
    require_integer = partialmethod(
        _among, dtypes=types.INTEGER_DTYPES, why="a small whole number is expected"
    )
    require_index = partialmethod(_among, dtypes=types.INDEX_DTYPES, why="numbers of places are expected")
    require_truth = partialmethod(_among, dtypes=types.TRUTH_DTYPES, why="truth values are expected")

    def _has_met(self, code: Size, dtypes: frozenset[str]) -> bool:
        return any(d == dtypes and str(self.resolve(c)) == str(code) for d, c in self.met)

    def require_number(self, x: SymType) -> None:
        code = self.get(x, 0)
        others = () if self._has_met(code, types.FLOAT_DTYPES) else DTYPE_CODES.keys() - types.NUMBER_DTYPES
        for other in sorted(DTYPE_CODES[d] for d in others):
            self.require(compare("!=", code, other), "an element type that holds 0 and 1 is expected")

    def require_axis(self, x: SymType, axis: Size) -> None:
        self.require(compare("<=", -axis, self.rank(x)), "the axis exists")
        if not isinstance(axis, int):  # the guard also keeps vec-set inside the vector
            self.require(compare("<", axis, 0), "axes count from the last")

    def concrete(self, what: str, *xs: SymType) -> NoReturn:
        raise NotSymbolic(what)
