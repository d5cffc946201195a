"""Integers over symbols: polynomials, quotients, remainders, maxima and choices, and conditions on them.

Sizes of symbolic dimensions and the integers of proofs are both such values. A polynomial is kept in one normal
form, so that two equal polynomials are equal values. A symbol whose name begins with ``+`` is at least 1; only
numbers and such symbols may divide, which is why a quotient needs no case for zero. That a symbol is at least
``k``, or a multiple of ``k``, is said by replacing it (:func:`replaced`) with ``+s + k - 1``, or ``k * s``.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from types import MappingProxyType
from typing import Any, Final


class _ByText:
    """What is equal to another of its class if their texts are."""

    __slots__ = ()
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self.text == other.text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atom(_ByText):
    """A part of a polynomial that is not a sum or product: a symbol, or an operation on integers.

    ``head`` is ``sym`` (one name), ``div`` or ``mod`` (two integers), ``max`` (several integers), ``ite`` (a
    condition and two integers), ``bc`` (an extent and an index: 0 if the extent is 1, otherwise the index),
    or another name: a function of integers of which nothing is known.
    """

    head: str
    args: tuple[Any, ...]
    text: str

    @property
    def positive(self) -> bool:
        """Return whether the atom is known to be at least 1 by its form alone."""
        if self.head == "sym":
            return bool(self.args[0][0] == "+")
        return self.head == "max" and any(map(is_positive, self.args))


Mono = tuple[Atom, ...]

#: The extents inside which index symbols lie while definitions are put into one another. A definition reads
#: its operands inside their extents where its guards hold, so that a quotient may use them. Empty otherwise.
RANGES: Final[dict[str, Int]] = {}

#: Atoms that the facts of a rule say are at least 0, while its values are read. Empty otherwise.
NONNEGATIVE: Final[set[str]] = set()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Int(_ByText):
    """A polynomial: pairs of a product of atoms and its coefficient, in order.

    >>> s = sym("s")
    >>> written(s * s * 2 + 1), (s * s * 2 + 1).at({"s": 3}), written((s + 1) // 2), (s * 6 + 7) % 3
    ('2*s*s + 1', 19, 'floor((s + 1)/2)', 1)
    """

    terms: tuple[tuple[Mono, int], ...]
    text: str

    def __add__(self, other: Int | int) -> Int:
        return add(self, _int(other))

    def __sub__(self, other: Int | int) -> Int:
        return sub(self, _int(other))

    def __mul__(self, other: Int | int) -> Int:
        return mul(self, _int(other))

    def __floordiv__(self, other: Int | int) -> Int:
        return div(self, _int(other))

    def __mod__(self, other: Int | int) -> Int:
        return mod(self, _int(other))

    def __neg__(self) -> Int:
        return neg(self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Int:
        return sub(num(other), self)

    def __ge__(self, other: Int | int) -> Cond:
        return at_least(self, _int(other))

    def __gt__(self, other: Int | int) -> Cond:
        return at_least(self, _int(other) + 1)

    def __le__(self, other: Int | int) -> Cond:
        return at_least(_int(other), self)

    def __lt__(self, other: Int | int) -> Cond:
        return at_least(_int(other), self + 1)

    def at(self, values: Mapping[str, int]) -> int:
        """Return the value when the symbols have these values; raise KeyError if one has none."""
        return sum(c * prod(_atom_at(a, values) for a in m) for m, c in self.terms)

    @property
    def value(self) -> int | None:
        """Return the number that the polynomial is, or None if it has a symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def symbol(self) -> str | None:
        """Return the name of the symbol that the polynomial is, or None."""
        atom = single(self)
        return str(atom.args[0]) if atom is not None and atom.head == "sym" else None


def _int(value: Int | int) -> Int:
    return num(value) if isinstance(value, int) else value


def _atom_at(a: Atom, values: Mapping[str, int]) -> int:
    if a.head == "sym":
        return values[a.args[0]]
    if a.head == "ite":
        return a.args[1 if a.args[0].at(values) else 2].at(values)
    numbers = [x.at(values) for x in a.args]
    if a.head == "div":
        return numbers[0] // numbers[1]
    if a.head == "bc":
        return 0 if numbers[0] == 1 else numbers[1]
    if a.head == "max":
        return max(numbers)
    raise KeyError(a.head)


def _poly(found: Mapping[Mono, int]) -> Int:
    terms = [([a.text for a in m], m, c) for m, c in found.items() if c]
    if len(terms) > 1:
        terms.sort(key=lambda t: t[0])
    text = "+".join(["*".join([str(c), *key]) for key, _, c in terms]) or "0"
    return Int(tuple([(m, c) for _, m, c in terms]), text)


@lru_cache(maxsize=4096)
def num(value: int) -> Int:
    """Return a number."""
    return _poly({(): int(value)})


def call(head: str, *args: Int | Cond | str) -> Int:
    """Return one atom: the value of an operation, or of a function of which nothing is known."""
    parts = ",".join(a if isinstance(a, str) else a.text for a in args)
    return _poly({(Atom(head, args, parts if head == "sym" else f"{head}({parts})"),): 1})


def of_atom(a: Atom) -> Int:
    """Return the polynomial that is one atom."""
    return _poly({(a,): 1})


def single(x: Int) -> Atom | None:
    """Return the one atom that a polynomial is, or None."""
    one = len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1
    return x.terms[0][0][0] if one else None


@lru_cache(maxsize=65536)
def sym(name: str) -> Int:
    """Return a symbol."""
    return call("sym", name)


@lru_cache(maxsize=65536)
def add(*xs: Int) -> Int:
    """Return a sum."""
    found: dict[Mono, int] = {}
    for x in xs:
        for m, c in x.terms:
            found[m] = found.get(m, 0) + c
    return _poly(found)


@lru_cache(maxsize=65536)
def mul(x: Int, y: Int) -> Int:
    """Return a product."""
    found: dict[Mono, int] = {}
    for m, c in x.terms:
        for n, d in y.terms:
            mono = tuple(sorted((*m, *n), key=lambda a: a.text))
            found[mono] = found.get(mono, 0) + c * d
    return _poly(found)


def neg(x: Int) -> Int:
    """Return the opposite number."""
    return mul(num(-1), x)


def sub(x: Int, y: Int) -> Int:
    """Return a difference."""
    return add(x, neg(y))


def signed(x: Int) -> tuple[Int, Int]:
    """Return two polynomials without negative coefficients or common products, whose difference is ``x``."""
    return _poly({m: c for m, c in x.terms if c > 0}), _poly({m: -c for m, c in x.terms if c < 0})


def lower(x: Int, ranges: Mapping[str, Int] = MappingProxyType({})) -> int | None:
    """Return a number that a polynomial is never below, by its form and ranges of symbols, or None."""
    bound = 0
    for m, c in x.terms:
        if c < 0 and m:
            return None
        for a in (a for a in m if not a.positive):
            known = a.text in ranges or a.text in NONNEGATIVE
            inner = lower(a.args[0], ranges) if a.head == "div" and not known else None
            if not known and (inner is None or inner < 0):
                return None
            c = 0
        bound += c
    return bound


def upper(x: Int) -> Int | None:
    """Return a polynomial that is never exceeded, if indices are inside their axes, or None."""
    total = num(0)
    for m, c in x.terms:
        if c < 0 and m:
            return None
        product = num(c)
        for a in m:
            extent = RANGES.get(a.text)
            if extent is None and not a.positive:
                return None
            product = mul(product, sub(extent, num(1)) if extent is not None else _poly({(a,): 1}))
        total = add(total, product)
    return total


def is_positive(x: Int) -> bool:
    """Return whether a polynomial is at least 1 by its form."""
    return (lower(x) or 0) >= 1


def below(x: Int, y: Int) -> bool:
    """Return whether ``0 <= x < y`` by the form of both and the ranges of indices."""
    inner = single(x)
    if inner is not None and inner.head == "div" and below(inner.args[0], mul(inner.args[1], y)):
        return True
    low, high = lower(x, RANGES), upper(x)
    return low is not None and low >= 0 and high is not None and is_positive(sub(y, high))


def divided(x: Int, y: Int) -> tuple[Int, Int]:
    """Return ``(q, r)`` with ``x = q * y + r``, as much of ``x`` in ``q`` as has the one product ``y``."""
    if len(y.terms) != 1:
        exact = _quotient(x, y)
        return (num(0), x) if exact is None else (exact, num(0))
    (mono, c), q, r = y.terms[0], {}, {}
    for m, d in x.terms:
        left = list(m)
        try:
            for a in mono:
                left.remove(a)
        except ValueError:
            r[m] = d
            continue
        if d // c:
            q[tuple(left)] = d // c
        if d % c:
            r[m] = d % c
    return _poly(q), _poly(r)


def _quotient(x: Int, y: Int) -> Int | None:
    """Return the polynomial whose product with a sum is another polynomial, or None if none is found."""
    if not y.terms:
        return None
    (lead, c), quotient, rest = y.terms[-1], num(0), x
    for _ in x.terms:
        for mono, d in rest.terms:
            left = list(mono)
            if d % c or any(left.count(a) < lead.count(a) for a in lead):
                continue
            for a in lead:
                left.remove(a)
            part = _poly({tuple(left): d // c})
            quotient, rest = add(quotient, part), sub(rest, mul(part, y))
            break
        else:
            return None
        if not rest.terms:
            return quotient
    return None


class NotPositive(ValueError):
    """Raised when a number divides that is not known to be positive."""


def div(x: Int, y: Int) -> Int:
    """Return a quotient rounded down, of a positive divisor."""
    if not is_positive(y):
        raise NotPositive(f"the divisor must be positive, got {y}")
    q, r = divided(x, y)
    if r.value is not None and y.value is not None:
        return add(q, num(r.value // y.value))
    if not r.terms or below(r, y):
        return q
    if len(y.terms) == 1:
        mono, c = y.terms[0]
        for k, a in enumerate(mono):
            # (a * z + r) div (a * w) = z div w if 0 <= r < a.
            part = _poly({(a,): 1})
            z, rest = divided(r, part)
            if z.terms and (len(mono) > 1 or c > 1) and (not rest.terms or below(rest, part)):
                return add(q, div(z, _poly({mono[:k] + mono[k + 1 :]: c})))
    if y.value is not None:
        # (c + z div a) div b = (c * a + z) div (a * b): lengths behind several strides have one form.
        for inner in (m[0] for m, c in r.terms if c == 1 and len(m) == 1 and m[0].head == "div"):
            z, a = inner.args
            rest = sub(r, _poly({(inner,): 1}))
            if a.value is not None and rest.value is not None:
                return add(q, div(add(z, mul(rest, a)), mul(a, y)))
    # (r div a) div n = r div (a * n): numbers are divided by last.
    if y.value is None and len(y.terms) == 1 and y.terms[0][1] > 1:
        return add(q, div(div(r, _poly({y.terms[0][0]: 1})), num(y.terms[0][1])))
    return add(q, call("div", r, y))


def mod(x: Int, y: Int) -> Int:
    """Return a remainder of a positive divisor."""
    return sub(x, mul(y, div(x, y)))


def largest(*xs: Int) -> Int:
    """Return the largest integer; 1 is left out next to numbers that are positive by their form."""
    flat: dict[str, Int] = {}
    for x in xs:
        atom = single(x)
        for y in atom.args if atom is not None and atom.head == "max" else (x,):
            flat[y.text] = y
    if num(1).text in flat and any(is_positive(y) for y in flat.values() if y != num(1)):
        del flat[num(1).text]
    if all(y.value is not None for y in flat.values()):
        return num(max(y.value or 0 for y in flat.values()))
    items = [flat[k] for k in sorted(flat)]
    if len(items) == 1:
        return items[0]
    by = common(*items)
    if by == num(1) or any(not i.terms for i in items):
        return call("max", *items)
    return mul(by, largest(*(divided(i, by)[0] for i in items)))


def smallest(*xs: Int) -> Int:
    """Return the smallest integer."""
    return neg(largest(*map(neg, xs)))


def broadcast(extent: Int, index: Int) -> Int:
    """Return the place that a result's index reads along an axis: 0 if the extent is 1."""
    if extent == num(1) or index == num(0):
        return num(0)
    if extent.value is not None:
        return index
    atom = single(index)
    if atom is not None and atom.head == "bc":
        # If a product of positive numbers is 1, so is each, and so is every positive one below their largest.
        outer = atom.args[0]
        product = outer.terms[0][0] if len(outer.terms) == 1 and outer.terms[0][1] > 0 else ()
        below_it = {y.text for a in product if a.head == "max" for y in a.args}
        positive = is_positive(extent) and all(a.positive for a in product)
        if outer == extent or (extent.text in below_it and positive):
            return broadcast(extent, atom.args[1])
    return call("bc", extent, index)


def choose(condition: Cond, yes: Int, no: Int) -> Int:
    """Return one of two integers."""
    if condition == TRUE or yes == no:
        return yes
    return no if condition == FALSE else call("ite", condition, yes, no)


# -- conditions --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cond(_ByText):
    """A condition: ``ge`` or ``eq`` on an integer, ``and``, ``or``, ``not``, or a truth."""

    head: str
    args: tuple[Any, ...]
    text: str

    def at(self, values: Mapping[str, int]) -> bool:
        """Return whether the condition holds when the symbols have these values."""
        inner = [x.at(values) for x in self.args]
        if self.head in ("ge", "eq"):
            return bool(inner[0] >= 0 if self.head == "ge" else inner[0] == 0)
        if self.head == "not":
            return not inner[0]
        return any(inner) if self.head == "or" else self.head in ("and", "true") and all(inner)

    def __bool__(self) -> bool:
        """Return a truth; raise TypeError for a condition that depends on a symbol, which no branch decides."""
        if self.head not in ("true", "false"):
            raise TypeError(f"a condition must hold at every size or at none, got {self}")
        return self.head == "true"


def _cond(head: str, *args: Any) -> Cond:
    return Cond(head, args, f"{head}({','.join(a.text for a in args)})")


TRUE: Final = _cond("true")
FALSE: Final = _cond("false")


def truth(value: bool) -> Cond:
    """Return a truth value as a condition."""
    return TRUE if value else FALSE


def common(*xs: Int) -> Int:
    """Return the product of positive atoms, and the number, that divide all products of integers."""
    shared: list[Atom] | None = None
    content = 0
    for m, c in (t for x in xs for t in x.terms):
        content = gcd(content, c)
        if shared is None:
            shared = [a for a in m if a.positive]
        else:
            left = list(m)
            kept = []
            for a in shared:
                if a in left:
                    left.remove(a)
                    kept.append(a)
            shared = kept
    return _poly({tuple(shared or ()): content or 1})


def _reduced(x: Int) -> Int:
    by = common(x)
    return x if by == num(1) else divided(x, by)[0]


@lru_cache(maxsize=65536)
def at_least(x: Int, y: Int) -> Cond:
    """Return ``x >= y``, without a positive factor of both."""
    d = _reduced(sub(x, y))
    if d.value is not None:
        return truth(d.value >= 0)
    if is_positive(add(d, num(1))) or is_positive(d):
        return TRUE
    return FALSE if is_positive(neg(d)) else _cond("ge", d)


@lru_cache(maxsize=65536)
def equal(x: Int, y: Int) -> Cond:
    """Return ``x = y``, without a positive factor of both."""
    d = _reduced(sub(x, y))
    if d.value is not None:
        return truth(d.value == 0)
    if is_positive(d) or is_positive(neg(d)):
        return FALSE
    return _cond("eq", neg(d) if d.terms[0][1] < 0 else d)


def negated(c: Cond) -> Cond:
    """Return the opposite condition."""
    if c in (TRUE, FALSE):
        return truth(c == FALSE)
    if c.head == "ge":
        return at_least(num(-1), c.args[0])
    if c.head == "not":
        return c.args[0]
    if c.head == "and":
        return either(*map(negated, c.args))
    return both(*map(negated, c.args)) if c.head == "or" else _cond("not", c)


def both(*cs: Cond) -> Cond:
    """Return the conjunction."""
    return _joined("and", TRUE, FALSE, cs)


def either(*cs: Cond) -> Cond:
    """Return the disjunction."""
    return _joined("or", FALSE, TRUE, cs)


def _joined(head: str, nothing: Cond, all_: Cond, cs: Iterable[Cond]) -> Cond:
    flat: dict[str, Cond] = {}
    for c in cs:
        for d in c.args if c.head == head else (c,):
            if d == all_:
                return all_
            if d != nothing:
                flat[d.text] = d
    items = [flat[k] for k in sorted(flat)]
    return nothing if not items else items[0] if len(items) == 1 else _cond(head, *items)


# -- substitution --------------------------------------------------------------------------------------
def replaced(x: Int, by: Mapping[str, Int]) -> Int:
    """Return a polynomial with symbols replaced."""
    found = by and any(s in by for s in symbols(x))
    return mapped(x, lambda a: _replaced_atom(a, by)) if found else x


def mapped(x: Int, value: Callable[[Atom], Int]) -> Int:
    """Return a polynomial with a value in place of every atom."""
    total = num(0)
    for m, c in x.terms:
        product = num(c)
        for a in m:
            product = mul(product, value(a))
        total = add(total, product)
    return total


def _replaced_atom(a: Atom, by: Mapping[str, Int]) -> Int:
    if a.head == "sym":
        return by.get(a.args[0], _poly({(a,): 1}))
    if a.head == "ite":
        return choose(replaced_in(a.args[0], by), replaced(a.args[1], by), replaced(a.args[2], by))
    args = [replaced(i, by) for i in a.args]
    if a.head == "div":
        return div(args[0], args[1])
    if a.head == "bc":
        return broadcast(args[0], args[1])
    return largest(*args) if a.head == "max" else call(a.head, *args)


def replaced_in(c: Cond, by: Mapping[str, Int]) -> Cond:
    """Return a condition with symbols replaced."""
    if c.head in ("ge", "eq"):
        x = replaced(c.args[0], by)
        return at_least(x, num(0)) if c.head == "ge" else equal(x, num(0))
    parts = [replaced_in(d, by) for d in c.args]
    if c.head == "not":
        return negated(parts[0])
    return both(*parts) if c.head == "and" else either(*parts) if c.head == "or" else c


def atoms(x: Int | Cond) -> Iterator[Atom]:
    """Yield the atoms of an integer or a condition, with those inside them."""
    for a in (a for m, _ in x.terms for a in m) if isinstance(x, Int) else ():
        yield a
        for d in a.args if a.head != "sym" else ():
            yield from atoms(d)
    for c in x.args if isinstance(x, Cond) else ():
        yield from atoms(c)


def thresholds(found: Sequence[Int | Cond], name: str, others: Mapping[str, int]) -> set[int]:
    """Return the values of a symbol at which a maximum or a condition in integers changes, given the other symbols."""

    def compared(c: Cond) -> list[Int]:
        return [c.args[0]] if c.head in ("ge", "eq") else [x for d in c.args for x in compared(d)]

    differences: dict[Int, None] = {}
    for a in (a for x in found for a in atoms(x)):
        if a.head == "max":
            differences |= dict.fromkeys(a.args[0] - b for b in a.args[1:])
        elif a.head == "ite":
            differences |= dict.fromkeys(compared(a.args[0]))
    return {k for d in differences if name in symbols(d) for k in _roots(d, name, others)}


def _roots(d: Int, name: str, others: Mapping[str, int]) -> Iterator[int]:
    """Yield a value at which an integer is 0, and one from which its sign is another, by halving."""

    def at(value: int) -> int:
        return d.at({**others, name: value})

    yield from [value for value in range(1, 65) if at(value) == 0][:1]
    up = at(1) >= 0
    low, high = 1, next((1 << n for n in range(1, 24) if (at(1 << n) >= 0) != up), 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (at(middle) >= 0) == up else (low, middle)
    if high:
        yield high


@lru_cache(maxsize=65536)
def symbols(x: Int | Cond) -> frozenset[str]:
    """Return the names of the symbols in an integer or a condition."""
    return frozenset(a.args[0] for a in atoms(x) if a.head == "sym")


# -- text ----------------------------------------------------------------------------------------------
#: The operators on integers that a text may have.
_SIGNS: Final[Mapping[type[ast.operator], Callable[[Int, Int], Int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def parsed(text: str, names: Collection[str] | Mapping[str, int]) -> Int | None:
    """Parse a sum, difference or product of integers and named symbols; return None for any other text.

    The result is also None if a name is not in ``names``, or if the text is a single name or number. If
    ``names`` gives a number for each, they stand for these, and the text may have quotients, rounded down.

    >>> written(parsed("past + sequence", {"past", "sequence"}))
    'past + sequence'
    >>> parsed("past + 1", {"sequence"}), parsed("past", {"past"})
    (None, None)
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _read(tree, names) if isinstance(tree, ast.BinOp) else None


def _read(tree: ast.expr, names: Collection[str] | Mapping[str, int]) -> Int | None:
    if isinstance(tree, ast.Name):
        if tree.id not in names:
            return None
        return num(names[tree.id]) if isinstance(names, Mapping) else sym(tree.id)
    if isinstance(tree, ast.Constant):
        return num(tree.value) if type(tree.value) is int else None
    if not isinstance(tree, ast.BinOp):
        return None
    a, b = _read(tree.left, names), _read(tree.right, names)
    if a is None or b is None:
        return None
    if isinstance(names, Mapping) and isinstance(tree.op, ast.FloorDiv | ast.Div):
        return None if b.value is None or b.value < 1 else div(a, b)
    return _SIGNS[type(tree.op)](a, b) if type(tree.op) in _SIGNS else None


def quotient(x: Int, by: int) -> Int:
    """Return ``x // by`` after both are divided by what divides all numbers in them."""
    shared = gcd(by, *(c for _, c in x.terms))
    return div(divided(x, num(shared))[0], num(by // shared))


def as_quotient(x: Int) -> tuple[list[tuple[tuple[str, ...], int]], int]:
    """Return products of names with their coefficients, and a number: ``x`` is their sum divided by it.

    The products of most factors come first. The number is 1 unless ``x`` has one quotient by a number.
    """
    inside = [a for m, c in x.terms if c == 1 and len(m) == 1 for a in m if a.head == "div"]
    divisor = inside[0].args[1].value if len(inside) == 1 else None
    if divisor is not None:
        x = (x - _poly({(inside[0],): 1})) * divisor + inside[0].args[0]
    terms = [(tuple(sorted(map(_name, m))), c) for m, c in x.terms]
    return sorted(terms, key=lambda t: (-len(t[0]), tuple(Counter(t[0]).items()))), divisor or 1


def _name(a: Atom) -> str:
    if a.head == "div":
        return f"floor(({written(a.args[0])})/({written(a.args[1])}))"
    known = all(isinstance(x, Int) for x in a.args)
    return f"{a.head}({', '.join(map(written, a.args))})" if known else a.text


def written(x: Int) -> str:
    """Return an integer as text for a reader, such as the name of a dimension in a file."""
    terms, divisor = as_quotient(x)
    parts = []
    for names, number in terms:
        factors = [*names] if names and abs(number) == 1 else [str(abs(number)), *names]
        parts.append(("- " if number < 0 else "+ ") + "*".join(factors))
    text = " ".join(parts).removeprefix("+ ") or "0"
    if divisor == 1:
        return text
    return f"floor({f'({text})' if len(parts) > 1 else text}/{divisor})"
