"""What is known of the sizes of a model at every binding that it accepts, and proofs from it.

All symbols are at least 1. A model requires more: that a window fits into its input, that two lengths are
equal. Such requirements are facts about every call that succeeds, so later conclusions may use them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from workbench.symbolic import integers
from workbench.symbolic.integers import Atom, Cond, Int, at_least, equal, num, of_atom, sym, symbols

#: Operations inside one another that a proof opens before it gives up, and bounds computed for one question.
_DEPTH: Final = 7
_STEPS: Final = 400
#: The largest divisor whose remainders are tried one by one.
_REMAINDERS: Final = 64
#: Turns in which values are halved or doubled until the facts hold.
_HALVINGS: Final = 12


@dataclass(slots=True)
class Facts:
    """Integers that are at least 0 at every binding, and what follows from them for single symbols."""

    known: list[Int] = field(default_factory=list)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    #: Pairs of extents that are equal, unless one of them is the number beside them (1 if they broadcast).
    joined: dict[tuple[Int, Int], int] = field(default_factory=dict)
    _proved: dict[str, bool] = field(default_factory=dict, repr=False)
    _steps: int = field(default=0, repr=False)

    def add(self, x: Int) -> bool:
        """Note that an integer is at least 0; return whether that is new."""
        if x.value is not None or self.nonnegative(x):
            return False
        self._assume(x)
        return True

    def _assume(self, x: Int) -> None:
        self.known.append(x)
        self._proved.clear()
        names = symbols(x)
        if len(names) == 1:
            (name,) = names
            low = self.least.get(name, 1)
            if x.at({name: low}) < 0 and (first := _first(x, name, low)) is not None:
                self.least[name] = first
            elif name not in self.most and (last := _last(x, name)) is not None:
                self.most[name] = last

    def _given(self, condition: Cond) -> Facts:
        """Return the facts where a condition holds."""
        found = Facts(list(self.known), dict(self.least), dict(self.most))
        for x in _stated(condition):
            found._assume(x)
        found._steps = self._steps
        return found

    def replaced(self, name: str, by: Int) -> None:
        """Replace a symbol by what it is, in all facts."""
        before, self.known, self.least, self.most, self.joined = self.known, [], {}, {}, {}
        self._proved.clear()
        for x in before:
            self.add(integers.replaced(x, {name: by}))

    # -- proofs ------------------------------------------------------------------------------------
    def nonnegative(self, x: Int) -> bool:
        """Return whether an integer is proved to be at least 0 at every binding."""
        if x.value is not None:
            return x.value >= 0
        found = self._proved.get(x.text)
        if found is None:
            self._steps = 0
            found = self._holds(x)
            self._proved[x.text] = found
        return found

    def at_least(self, x: Int, y: Int | int) -> bool:
        """Return whether ``x >= y`` is proved."""
        return self.nonnegative(x - y)

    def differ(self, x: Int, y: Int) -> bool:
        """Return whether two integers are proved to differ at every binding."""
        d = x - y
        numbers = [c for m, c in d.terms if m]
        rest = sum(c for m, c in d.terms if not m)
        if numbers and rest % math.gcd(*numbers):
            return True
        return self.nonnegative(d - 1) or self.nonnegative(-d - 1)

    def _holds(self, x: Int) -> bool:
        def above(y: Int) -> bool:
            bound = self._bound(y, _DEPTH)
            return bound is not None and bound > -1

        if above(x) or self._by_factors(x) >= 0:
            return True
        names = symbols(x)
        return any(above(x - k) for k in self.known if names & symbols(k))

    def _bound(self, x: Int, depth: int) -> Fraction | None:
        """Return a number that an integer is never below, or None."""
        self._steps += 1
        if x.value is not None:
            return Fraction(x.value)
        if depth < 0 or self._steps > _STEPS:
            return None
        place = next(((m, a) for m, _ in x.terms for a in m if a.head != "sym"), None)
        if place is None:
            return self._of_polynomial(x)
        _, atom = place
        if atom.head in ("max", "ite"):
            return self._by_cases(x, atom, depth)
        return self._of_quotient(x, atom, depth) if atom.head == "div" else None

    def _of_polynomial(self, x: Int) -> Fraction | None:
        # s >= k is s = s' + k, with s' >= 0.
        shifted = integers.replaced(x, {s: sym(s) + self.least.get(s, 1) for s in symbols(x)})
        bound = 0
        for m, c in shifted.terms:
            if not m:
                bound += c
            elif c < 0:
                names = [str(a.args[0]) for a in m]
                if any(name not in self.most for name in names):
                    return None
                bound += c * math.prod(self.most[name] - self.least.get(name, 1) for name in names)
        return Fraction(bound)

    def _by_factors(self, x: Int) -> float:
        """Return a bound of a product and a number: factors that are not negative multiply their bounds."""
        constant = sum(c for m, c in x.terms if not m)
        product, factors = x - constant, list[Int]()
        for a in product.terms[0][0] if product.terms else ():
            once, rest = integers.divided(product, of_atom(a))
            if not rest.terms:
                product = once
                factors.append(of_atom(a))
        if not factors:
            return -math.inf
        bound = 1
        for factor in (*factors, product):
            least = self._bound(factor, _DEPTH)
            if least is None or least <= -1:
                return -math.inf
            bound *= max(0, math.ceil(least))
        return bound + constant

    def _by_cases(self, x: Int, atom: Atom, depth: int) -> Fraction | None:
        """Bound by the cases of a maximum or a choice: it is one of its arguments."""
        if atom.head == "ite":
            condition, yes, no = atom.args
            cases = [(yes, self._given(condition)), (no, self._given(integers.negated(condition)))]
        else:
            cases = [(a, self) for a in atom.args]
        found = [facts._bound(_swapped(x, atom, value), depth - 1) for value, facts in cases]
        self._steps = max(facts._steps for _, facts in cases)
        bounds = [bound for bound in found if bound is not None]
        if atom.head == "max" and all(c > 0 and len(m) == 1 for m, c in x.terms if atom in m):
            return max(bounds, default=None)  # it is at least each argument, so one of them suffices
        return min(bounds) if len(bounds) == len(cases) else None

    def _of_quotient(self, x: Int, atom: Atom, depth: int) -> Fraction | None:
        top, by = atom.args
        plain = [(m, c) for m, c in x.terms if atom in m]
        if any(m.count(atom) > 1 or not all(a.positive for a in m if a != atom) for m, _ in plain):
            return None
        signs = {c > 0 for _, c in plain}
        if len(signs) != 1:
            return None
        up = signs == {True}
        k = by.value
        if k is None:
            if not self._steps < _STEPS or not self._holds(top):
                return None
            return self._bound(_swapped(x, atom, num(0) if up else top), depth - 1)
        # (top - k + 1) / k <= top // k <= top / k, and all is multiplied by k.
        scaled = _swapped(x * k, atom, None)
        rest = [(m, c) for m, c in (x * k).terms if atom in m]
        edge = top - (k - 1) if up else top
        for m, c in rest:
            left = list(m)
            left.remove(atom)
            scaled = scaled + math.prod(map(of_atom, left), start=num(c // k)) * edge
        bound = self._bound(scaled, depth - 1)
        found = None if bound is None else bound / k
        if up and (found is None or found <= -1) and self._steps < _STEPS and self._holds(top):
            other = self._bound(_swapped(x, atom, num(0)), depth - 1)
            found = other if found is None or (other is not None and other > found) else found
        return found

    # -- what is made of sizes, with all that is known ------------------------------------------------
    def greatest(self, x: Int, y: Int) -> Int:
        """Return the larger of two integers."""
        return x if self.at_least(x, y) else y if self.at_least(y, x) else integers.largest(x, y)

    def smallest(self, x: Int, y: Int) -> Int:
        """Return the smaller of two integers."""
        return -self.greatest(-x, -y)

    def decided(self, condition: Cond) -> Cond:
        """Return a condition, or the truth that is proved of it."""
        if condition.head == "ge":
            x = condition.args[0]
            if self.nonnegative(x):
                return at_least(num(0), num(0))
            return at_least(num(-1), num(0)) if self.nonnegative(-x - 1) else condition
        if condition.head == "eq" and self.differ(condition.args[0], num(0)):
            return at_least(num(-1), num(0))
        return condition

    def choice(self, condition: Cond, yes: Int, no: Int) -> Int:
        """Return one of two integers, the one that is proved to be taken if there is one."""
        return integers.choose(self.decided(condition), yes, no)

    def quotient(self, x: Int, by: Int) -> Int | None:
        """Return ``x // by`` rounded towards zero, as ONNX divides integers; None if ``by`` may be 0 or less."""
        if not self.at_least(by, 1):
            return None
        exact, rest = integers.divided(x, by)
        if not rest.terms:
            return exact
        try:
            if by.value is None:
                down, up = integers.div(x, by), integers.div(-x, by)
            else:
                down, up = integers.quotient(x, by.value), integers.quotient(-x, by.value)
        except ValueError:
            return None
        return down if self.nonnegative(x) else self.choice(at_least(x, num(0)), down, -up)

    def broadcast(self, x: Int, y: Int) -> Int:
        """Return the extent of two that broadcast."""
        one = num(1)
        if x == y or y == one:
            return x
        if x == one:
            return y
        if x.value is None or y.value is None:
            self.joined.setdefault((x, y), 1)
        if self.at_least(x, 2):
            return x
        return y if self.at_least(y, 2) else integers.choose(equal(x, one), y, x)

    def near(self, values: dict[str, int]) -> dict[str, int]:
        """Return values of symbols at which the facts hold and all extents fit, near others, if that is easy."""
        for x in self.known * _HALVINGS:
            for name in sorted(symbols(x)) if x.at(values) < 0 else ():
                turns = ({**values, name: v} for v in (max(1, values[name] // 2), 2 * values[name]))
                values = max(turns, key=x.at)
        for x, y in self.joined:
            if self._fit(x, y, values):
                continue
            solved, _ = self.solved(x, y)
            values |= {n: v for n, size in solved.items() if n in values and (v := size.at(values)) >= 1}
            near = ({**values, n: values[n] + k} for k in range(_REMAINDERS) for n in sorted(symbols(x - y)))
            values = next((v for v in near if self._fit(x, y, v)), values)
        return values

    def fit(self, values: Mapping[str, int]) -> bool:
        """Return whether all extents fit one another at values of the symbols."""
        return all(self._fit(x, y, values) for x, y in self.joined)

    def _fit(self, x: Int, y: Int, values: Mapping[str, int]) -> bool:
        a, b = x.at(values), y.at(values)
        return a == b or self.joined[x, y] in (a, b)

    def must_equal(self, x: Int, y: Int) -> bool:
        """Return whether two extents that broadcast are equal in every case."""
        one = num(1)
        if x == y or (self.at_least(x, 2) and self.at_least(y, 2)):
            return True
        names = symbols(x) | symbols(y)
        if len(names) != 1 or one in (x, y):
            return False
        (name,) = names
        low = self.least.get(name, 1)
        above = Facts(list(self.known), {**self.least, name: low + 1}, dict(self.most))
        same = x.at({name: low}) == y.at({name: low})
        return same and above.at_least(x, 2) and above.at_least(y, 2)

    def solved(self, x: Int, y: Int) -> tuple[dict[str, Int], list[Int]]:
        """Return what follows from the equality of two integers: symbols that others give, and new facts."""
        d = x - y
        d = integers.divided(d, integers.common(d))[0] if d.terms else d
        inside = [a for m, _ in d.terms for a in m if a.head != "sym"]
        nested = {s for a in inside for x in a.args if isinstance(x, Int | Cond) for s in symbols(x)}
        for m, c in reversed(d.terms):
            name = of_atom(m[0]).symbol if len(m) == 1 and abs(c) == 1 else None
            if name is not None and name not in nested and sum(m[0] in n for n, _ in d.terms) == 1:
                return {name: (d - sym(name) * c) * -c}, []
        for a in inside:
            if a.head == "max":
                sign = next((c for m, c in d.terms if m == (a,)), 0)
                others = [_swapped(d, a, arg) for arg in a.args]
                if abs(sign) == 1 and any(o.value == 0 for o in others):
                    return {}, [o * -sign for o in others if o.value is None]
            if a.head == "ite":
                condition, yes, no = a.args
                for holds, value in ((condition, no), (integers.negated(condition), yes)):
                    stated = _stated(holds)
                    if stated and self._given(integers.negated(holds)).differ(_swapped(d, a, value), num(0)):
                        return {}, [x for x in stated if not self.nonnegative(x)]
        return next((found for q in inside for found in self._remainders(d, q)), {}), []

    def _remainders(self, d: Int, atom: Atom) -> Iterator[dict[str, Int]]:
        """Yield what a symbol in a quotient is if only one remainder makes a difference zero."""
        for a in (a for inner in atom.args if isinstance(inner, Int) for a in integers.atoms(inner)):
            if a.head == "div":
                yield from self._remainders(d, a)
        if atom.head != "div" or (k := atom.args[1].value) is None or not 2 <= k <= _REMAINDERS:
            return
        for name in sorted(symbols(atom.args[0])):
            values = [sym(name) * k - (k - r) % k for r in range(k)]
            able = [v for v in values if not self.differ(integers.replaced(d, {name: v}), num(0))]
            if len(able) == 1:
                yield {name: able[0]}


def _swapped(x: Int, atom: Atom, by: Int | None) -> Int:
    """Return a polynomial with an atom of its products replaced; without these products if by None."""
    value = num(0) if by is None else by
    return integers.mapped(x, lambda a: value if a == atom else of_atom(a))


def _stated(c: Cond) -> tuple[Int, ...]:
    """Return integers that are at least 0 if a condition holds."""
    if c.head == "ge":
        return (c.args[0],)
    if c.head == "eq":
        return (c.args[0], -c.args[0])
    return tuple(x for d in c.args for x in _stated(d)) if c.head == "and" else ()


def _first(x: Int, name: str, low: int) -> int | None:
    """Return the least value of a symbol from which an integer is at least 0, or None."""
    for value in range(low, low + 4096):
        if x.at({name: value}) >= 0:
            return value if all(x.at({name: value + n}) >= 0 for n in range(1, 65)) else None
    return None


def _last(x: Int, name: str) -> int | None:
    """Return the largest value of a symbol at which a linear integer is at least 0, or None."""
    slope = sum(c for m, c in x.terms if m)
    if any(len(m) > 1 or a.head != "sym" for m, _ in x.terms for a in m) or slope >= 0:
        return None
    return (x - sym(name) * slope).at({}) // -slope
