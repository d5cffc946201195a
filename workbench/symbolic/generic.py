"""Generic extents: each symbolic dimension is replaced by one large number that identifies it everywhere.

A graph whose symbols have generic extents is an ordinary graph. No tensor of it is ever computed: search
and prices see extents as numbers only. The import infers every extent as an integer over symbols
(:mod:`workbench.symbolic.integers`) and enters it here with the number that stands for it
(:meth:`Generic.number`). Only a number that a rewrite makes is decoded; types are then inferred again with
integers over symbols (:mod:`workbench.egraph.at_sizes`), so nothing is concluded from the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import Atom, Int, mapped, num, of_atom, replaced, sym, symbols

#: Numbers from here on are not extents: ``INT64_MAX`` and the like mean "to the end".
_UNBOUNDED: Final = 1 << 61
#: Smaller numbers stand for themselves.
_LEAST: Final = 1_000
#: The largest generic extent of a maximum, a choice and the like: they are below most extents.
_PARTS: Final = 9_000
#: Multiples and addends that are decoded.
_TIMES: Final = 4
_ADDEND: Final = 64


class Undecodable(ValueError):
    """Raised when a number that depends on a symbolic dimension has no form as an expression."""


class Collision(Undecodable):
    """Raised when the generic extent of an integer also stands for something else."""


@dataclass(frozen=True, slots=True)
class Generic:
    """The generic extents of the symbols of a model.

    The symbols have prime extents. ``sizes`` are the dimensions by name, each an integer over symbols: a symbol,
    a multiple of one, or what it is by others. ``constants`` are numbers that the model itself contains; they
    are never decoded. ``facts`` hold at every binding that the model accepts.
    """

    primes: Mapping[str, int]
    sizes: Mapping[str, Int] = field(default_factory=dict)
    constants: set[int] = field(default_factory=set)
    facts: Facts = field(default_factory=Facts)
    _known: dict[int, Int] = field(default_factory=dict, repr=False, compare=False)
    _guessed: dict[int, Int] = field(default_factory=dict, repr=False, compare=False)
    _parts: dict[str, tuple[str, int, Int]] = field(default_factory=dict, repr=False, compare=False)
    _noted: dict[Int, None] = field(default_factory=dict, repr=False, compare=False)
    _bases: dict[int, Int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.sizes:
            object.__setattr__(self, "sizes", {name: sym(name) for name in self.primes})
        for name, prime in self.primes.items():
            self._known[prime] = self._bases[prime] = sym(name)

    @property
    def extents(self) -> dict[str, int]:
        """Return the generic extent of every dimension."""
        return {name: self.number(size) for name, size in self.sizes.items()}

    @property
    def own(self) -> dict[str, tuple[str, int, int]]:
        """Return for every symbol a dimension, a factor and an addend: the dimension is symbol * factor + addend."""
        found: dict[str, tuple[str, int, int]] = {}
        for name, size in self.sizes.items():
            names = symbols(size)
            if len(names) == 1 and all(len(m) <= 1 for m, _ in size.terms):
                (symbol,) = names
                factor = next(c for m, c in size.terms if m)
                addend = sum(c for m, c in size.terms if not m)
                if next(m for m, _ in size.terms if m)[0].head == "sym" and factor > 0:
                    found.setdefault(symbol, (name, factor, addend))
        return found

    def symbols_at(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the values of the symbols at sizes of the dimensions."""
        return {s: (sizes[name] - c) // k for s, (name, k, c) in self.own.items()}

    def fit(self, sizes: Mapping[str, int]) -> bool:
        """Return whether sizes are such as the model requires."""
        values = self.symbols_at(sizes)
        return (
            all(v >= 1 for v in values.values())
            and all(size.at(values) == sizes.get(name, size.value) for name, size in self.sizes.items())
            and all(x.at(values) >= 0 for x in self.facts.known)
            and self.facts.fit(values)
        )

    def completed(self, asked: Mapping[str, int]) -> dict[str, int]:
        """Return sizes that fit and are near those asked for, the sizes that follow from others included."""
        values: dict[str, int] = {}
        for symbol, (name, factor, addend) in self.own.items():
            value = round((asked[name] - addend) / factor) if name in asked else 1
            least = self.facts.least.get(symbol, 1)
            value = least + value if value < least else value  # different sizes stay different
            values[symbol] = max(least, min(value, self.facts.most.get(symbol, value)))
        values = self.facts.near(values)
        return {name: size.at(values) for name, size in self.sizes.items() if size.value is None}

    @property
    def made(self) -> tuple[Int, ...]:
        """Return all integers that numbers stand for, or that are computed from sizes."""
        return (*self._known.values(), *self._noted)

    def note(self, x: Int) -> None:
        """Note an integer that the model computes from sizes, but that is not an extent."""
        if x.value is None:
            self._noted[x] = None

    # -- from integers to numbers -------------------------------------------------------------------------
    def number(self, x: Int) -> int:
        """Return the number that stands for an integer; raise :class:`Collision` if there is none."""
        if x.value is not None:
            if x.value in self._known and x.value >= _LEAST:
                raise Collision(f"{x.value} is a generic extent, too")
            self.constants.add(x.value)
            return x.value
        coded = self._coded(x)
        found = coded.at({**self.primes, **{name: prime for name, prime, _ in self._parts.values()}})
        if abs(found) >= _LEAST and found not in self.constants:
            before = self._known.setdefault(found, x)
            if before == x:
                if found > 0 and any(a.head == "div" for m, _ in x.terms for a in m):
                    self._bases.setdefault(found, x)
                return found
        else:
            products = [m for m, _ in x.terms if m]
            divides = any(a.head == "div" for m in products for a in m)
            if divides and self.facts.at_least(x, 0) and len(products) == 1:
                raise Collision(f"{x} is {found} at the generic extents")
        return self._part(x)[1]

    def _coded(self, x: Int) -> Int:
        """Return an integer with a symbol of its own in place of every maximum, choice and the like."""
        return mapped(x, self._coded_atom)

    def _coded_atom(self, a: Atom) -> Int:
        whole = of_atom(a)
        if a.head == "sym":
            return whole
        if a.head == "div":
            top, by = (self._coded(i) for i in a.args)
            if by.value is not None or by.symbol is not None:
                return top // by
        if a.head == "max" and all(self.facts.nonnegative(-x) for x in a.args):  # the opposite of a minimum
            return -sym(self._part(-whole)[0])
        return sym(self._part(whole)[0])

    def _part(self, x: Int) -> tuple[str, int, Int]:
        if x.text not in self._parts:
            taken = {p for _, p, _ in self._parts.values()} | set(self.primes.values()) | set(self._known)
            prime = prime_below(_PARTS, frozenset(self.constants), frozenset(taken))
            self._parts[x.text] = (f"+part{len(self._parts)}", prime, x)
            self._known[prime] = self._bases[prime] = x
            self._guessed.clear()
        return self._parts[x.text]

    # -- from numbers to integers -------------------------------------------------------------------------
    def learn(self, number: int, x: Int) -> None:
        """Note that a number stands for an integer, as a type rule finds."""
        if x.value is None and number not in self.constants and abs(number) >= _LEAST:
            self._known.setdefault(number, x)

    def expression(self, number: int) -> Int:
        """Return the integer over symbols that a number stands for."""
        found = self._known.get(number, self._guessed.get(number))
        if found is None:
            guess = self._read(number, 3) if number < _UNBOUNDED else None
            found = self._guessed[number] = num(number) if guess is None else guess
        return found

    def depends(self, number: int) -> bool:
        """Return whether a number depends on a symbol."""
        return self.expression(number).value is None

    def at(self, sizes: Mapping[str, int]) -> Callable[[int], int]:
        """Return what gives the value of a number when the dimensions have these sizes."""
        values = self.symbols_at(sizes)
        return lambda number: self.expression(number).at(values) if self.depends(number) else number

    def named(self, x: Int) -> Int:
        """Return an integer over symbols as one over the names of dimensions."""
        own = self.own
        total = num(0)
        for m, c in x.terms:
            product = num(1)
            for a in m:
                name, factor, addend = own.get(str(a.args[0]), ("", 1, 0)) if a.head == "sym" else ("", 1, 0)
                if name and not addend and c % factor == 0:
                    product, c = product * sym(name), c // factor
                elif name:
                    product = product * ((sym(name) - addend) // factor)
                else:
                    quotients = {s: (sym(n) - d) // k for s, (n, k, d) in own.items()}
                    product = product * replaced(of_atom(a), quotients)
            total = total + product * c
        return total

    def _read(self, number: int, depth: int) -> Int | None:
        """Decode a number as products, multiples and sums of numbers that are known."""
        if number in self.constants or number < _LEAST or depth == 0:
            return None
        if number in self._known:
            return self._known[number]
        bases = sorted(self._bases.items(), reverse=True)
        for base, x in bases:
            if number % base == 0:
                rest = number // base
                inner = self._read(rest, depth - 1)
                return x * (num(rest) if inner is None else inner)
        for base, x in bases:
            times = round(number / base)
            if 1 <= times <= _TIMES and abs(number - times * base) <= min(_ADDEND, base // 100):
                return x * times + (number - times * base)
        for base, x in bases:
            if number > base and (other := self._read(number - base, depth - 1)) is not None:
                return x + other
        return None


def is_prime(number: int) -> bool:
    """Return whether a number is prime.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def prime_below(bound: int, avoid: frozenset[int], taken: frozenset[int] = frozenset()) -> int:
    """Return the largest prime up to ``bound`` that resembles no number in ``avoid`` and is not in ``taken``.

    A number resembles a prime if it is a multiple of the prime, or within 2 of the prime or of its double. Raise
    :class:`Undecodable` if no prime above 10 meets these conditions.
    """
    near = {m for n in avoid for d in range(-2, 3) for m in (n + d, (n + d) // 2)}
    for number in range(bound, 10, -1):
        if number in taken or number in near or not is_prime(number):
            continue
        if all(n % number for n in avoid if n >= number):
            return number
    raise Undecodable(f"no prime up to {bound} differs from all sizes in the model")
