"""Linear equations over small whole numbers: the extents, ranks and pads that a rule's typing leaves open.

A type rule compares sums of extents. Run on unknowns, its requirements become a linear system; the
unknowns that remain free span every instance of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from workbench.symbolic.integers import Int, sym
from workbench.symbolic.symint import ARITHMETIC, SymInt

Number = int | Fraction


class Inconsistent(ValueError):
    """Raised when requirements contradict each other.

    ``limited`` means that they do so only because a reading has few axes, or another bound of its own.
    """

    def __init__(self, message: str, *, limited: bool = False) -> None:
        super().__init__(message)
        self.limited = limited


class NotLinear(ValueError):
    """Raised when a requirement is not linear in the unknowns, such as a product of extents."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a linear system: a number plus multiples of unknowns, fractions too while it is solved."""

    constant: Number
    terms: Mapping[int, Number]

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, x: Int) -> Row:
        """Return the row of a polynomial whose symbols are the numbers of unknowns."""
        terms = {int(m[0].args[0]) if m else -1: c for m, c in x.terms}
        return cls(terms.pop(-1, 0), terms)

    def plus(self, other: Row, factor: Number = 1) -> Row:
        """Return the sum with a multiple of another row."""
        terms = dict(self.terms)
        for unknown, times in other.terms.items():
            terms[unknown] = terms.get(unknown, 0) + factor * times
        return Row(self.constant + factor * other.constant, {u: c for u, c in terms.items() if c})

    def value(self, values: Mapping[int, Number]) -> Number:
        """Return the value under an assignment of the unknowns that occur."""
        return self.constant + sum(c * values[u] for u, c in self.terms.items())


_NOTHING: Final = Row(0, {})


@dataclass(frozen=True, slots=True)
class Relation:
    """The requirement that ``row`` is zero (``=``), is not zero (``!=``), or is at least zero (``>=``)."""

    kind: str
    row: Row

    def holds(self, values: Mapping[int, Number]) -> bool:
        """Return whether the relation holds under an assignment."""
        value = self.row.value(values)
        return value == 0 if self.kind == "=" else value != 0 if self.kind == "!=" else value >= 0


class Linear(SymInt):
    """An integer that is linear in the unknowns of a system; each symbol is the number of an unknown.

    A quotient by a number is a new unknown. Comparisons return a :class:`Relation`, or a boolean if the outcome
    is already decided.
    """

    __slots__ = ("system",)

    def __init__(self, system: System, x: Int) -> None:
        super().__init__(x)
        self.system = system

    def row(self) -> Row:
        """Return the expression in terms of free unknowns."""
        return self.system.reduce(Row.of(self.x))

    def reduced(self) -> Number | Linear:
        """Return the expression, or the number that it is if it has no free unknowns."""
        row = self.row()
        return self if row.terms else row.constant

    def value(self, values: Mapping[int, Number]) -> Number:
        """Return the value under an assignment of the unknowns that occur."""
        return Row.of(self.x).value(values)

    def arith(self, sign: str, left: Any, right: Any) -> Any:
        """Return the result of an operation; raise NotLinear for a product of, or division by, unknowns."""
        if sign in ("//", "%"):
            return self.system.divide(self.whole(left), right)[sign == "%"]
        if sign == "*" and isinstance(left, Linear) and isinstance(right, Linear):
            left, right = left.reduced(), right.reduced()
            if isinstance(left, Linear) and isinstance(right, Linear):
                raise NotLinear("a product of two unknowns")
        return Linear(self.system, ARITHMETIC[sign](self.whole(left), self.whole(right)))

    def related(self, relation: str, left: Any, right: Any) -> Any:
        """Return whether a relation holds, or the requirement that it does."""
        # Other objects (such as a product of extents) define their own equality.
        if not isinstance(right, Linear | int):
            return NotImplemented
        small, large = (left, right) if relation[0] == "<" else (right, left)
        row = Row.of(self.whole(large)).plus(Row.of(self.whole(small)), -1)
        if relation in ("<", ">"):
            row = Row(row.constant - 1, row.terms)
        reduced = self.system.reduce(row)
        found = Relation(relation if relation in ("=", "!=") else ">=", reduced)
        return found if reduced.terms else found.holds({})

    def __repr__(self) -> str:
        row = Row.of(self.x)
        parts = [f"{c}*{self.system.names[u]}" for u, c in row.terms.items()]
        return " + ".join([*parts, str(row.constant)] if row.constant or not parts else parts)


#: The least value of an unknown, by kind.
LEAST: Final = {"extent": 1, "kernel": 1, "rank": 0, "pad": 0, "position": 0, "quotient": 0, "remainder": 0}


@dataclass(slots=True)
class System:
    """The unknowns and the requirements on them.

    ``names`` and ``kinds`` are lists by unknown; ``top`` maps unknowns to their upper bounds, if any.
    ``solved`` expresses unknowns by others; unknowns not in it are free. A quotient is an unknown that
    follows from its dividend: ``divisions`` holds (dividend, divisor, quotient). If ``remainders`` is set,
    two equal quotients equate their dividends, each less an unknown remainder, and unknowns in proportion
    have a common part. Numbers that fit are then computed instead of met by chance, but an instance may
    have several assignments.
    """

    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    top: dict[int, int] = field(default_factory=dict)
    solved: dict[int, Row] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    divisions: list[tuple[Row, int, int]] = field(default_factory=list)
    remainders: bool = False
    _rests: dict[int, Row] = field(default_factory=dict)
    _plan: list[tuple[int, Row, int]] | None = None

    def fresh(self, name: str, kind: str, top: int | None = None) -> Linear:
        """Return a new unknown."""
        self.names.append(name)
        self.kinds.append(kind)
        unknown = len(self.names) - 1
        if top is not None:
            self.top[unknown] = top
        return Linear(self, sym(str(unknown)))

    def reduce(self, row: Row) -> Row:
        """Return a row in terms of free unknowns."""
        solved = self.solved
        if not any(u in solved for u in row.terms):
            return row
        constant = row.constant
        total: dict[int, Number] = {}
        for unknown, factor in row.terms.items():
            known = solved.get(unknown)
            if known is None:
                total[unknown] = total.get(unknown, 0) + factor
                continue
            # The simplified form is kept, so that the next look-up takes one step.
            simplest = self.reduce(known)
            if simplest is not known:
                solved[unknown] = simplest
            constant += simplest.constant * factor
            for other, times in simplest.terms.items():
                total[other] = total.get(other, 0) + times * factor
        return Row(constant, {u: c for u, c in total.items() if c})

    def require(self, condition: bool | Relation) -> None:
        """Add a requirement; raise :class:`Inconsistent` if it cannot hold."""
        self._plan = None
        if isinstance(condition, Relation) and condition.kind == "=":
            self.equate(condition.row)
            return
        if isinstance(condition, Relation):
            reduced = Relation(condition.kind, self.reduce(condition.row))
            if reduced.row.terms:
                self.relations.append(condition)
                return
            condition = reduced.holds({})
        if not condition:
            raise Inconsistent("a requirement is false")

    def check(self) -> None:
        """Check all requirements again; raise :class:`Inconsistent` if one can no longer hold."""
        known, self.relations = self.relations, []
        for relation in known:
            self.require(Relation(relation.kind, self.reduce(relation.row)))

    def bounds(self) -> dict[int, int]:
        """Return upper bounds of free unknowns, from the requirements that contain a single unknown."""
        found: dict[int, int] = {}
        free = set(self.free())
        for row in (self.reduce(r.row) for r in self.relations if r.kind == ">="):
            if len(row.terms) == 1:
                ((unknown, factor),) = row.terms.items()
                if factor < 0 and unknown in free:
                    top = int(row.constant // -factor)
                    found[unknown] = min(top, found.get(unknown, top))
        return found

    def equate(self, row: Row) -> None:
        """Require that a row is zero."""
        reduced = self.reduce(row)
        if not reduced.terms:
            if reduced.constant != 0:
                raise Inconsistent("two numbers differ")
            return
        if self.remainders and self._equate_dividends(reduced):
            reduced = self.reduce(row)
            if not reduced.terms:
                return
        if self.remainders and self._in_proportion(reduced):
            return
        # An unknown with factor 1 is expressed by integer multiples of the others. Quotients are the last
        # choice, because they follow from the extents that are divided.
        order = {"position": 0, "extent": 1, "rank": 1, "pad": 2, "kernel": 3, "remainder": 4, "quotient": 5}
        pivot = min(reduced.terms, key=lambda u: (abs(reduced.terms[u]) != 1, order[self.kinds[u]], -u))
        factor = reduced.terms[pivot]
        rest = Row(reduced.constant, {u: c for u, c in reduced.terms.items() if u != pivot})
        solution = _NOTHING.plus(rest, -factor if abs(factor) == 1 else Fraction(-1) / factor)
        number = solution.constant
        if not solution.terms and (number != int(number) or not self._has(pivot, number)):
            above = number > self.top.get(pivot, 1 << 60)
            raise Inconsistent(f"{self.names[pivot]} would be {number}", limited=above)
        self.solved[pivot] = solution

    def _has(self, unknown: int, value: Number) -> bool:
        """Return whether a value is within the bounds of an unknown."""
        return LEAST[self.kinds[unknown]] <= value <= self.top.get(unknown, 1 << 60)

    def _equate_dividends(self, difference: Row) -> bool:
        """If a row is the difference of two quotients by one divisor, equate the dividends."""
        found = {u: (dividend, by) for dividend, by, u in self.divisions if u in difference.terms}
        if len(found) != 2 or len(difference.terms) != 2 or sorted(difference.terms.values()) != [-1, 1]:
            return False
        first, second = sorted(found, key=lambda u: -difference.terms[u])
        (above, by), (below, other) = found[first], found[second]
        if by != other:
            return False
        both = Row(above.constant + by * difference.constant, above.terms).plus(below, -1)
        rest = self._remainder(first, by)
        self.equate(both.plus(rest, -1).plus(self._remainder(second, by)))
        return True

    def _in_proportion(self, row: Row) -> bool:
        """Express two proportional unknowns, neither a multiple of the other, by a third one."""
        if len(row.terms) != 2 or row.constant != 0:
            return False
        (one, a), (two, b) = row.terms.items()
        ratio = Fraction(a) / Fraction(b)
        if ratio > 0 or 1 in (abs(ratio.numerator), ratio.denominator):
            return False
        kind = "extent" if "quotient" in (self.kinds[one], self.kinds[two]) else self.kinds[one]
        common = self.fresh(f"a part of {self.names[one]}", kind).row()
        self.solved[one] = _NOTHING.plus(common, ratio.denominator)
        self.solved[two] = _NOTHING.plus(common, -ratio.numerator)
        return True

    def _remainder(self, quotient: int, by: int) -> Row:
        if quotient not in self._rests:
            name = f"the remainder of {self.names[quotient]}"
            self._rests[quotient] = self.fresh(name, "remainder", by - 1).row()
        return self._rests[quotient]

    def divide(self, x: Int, by: int | Linear) -> tuple[Any, Any]:
        """Return the quotient and the remainder of a division by a number."""
        divisor = by.reduced() if isinstance(by, Linear) else by
        if not isinstance(divisor, int):
            raise NotLinear("a division by an unknown")
        whole, row = Linear(self, x), self.reduce(Row.of(x))
        if not row.terms:
            return row.constant // divisor, row.constant % divisor
        if divisor == 1:
            return whole, 0
        for dividend, known, unknown in self.divisions:
            if known == divisor and self.reduce(row.plus(dividend, -1)) == _NOTHING:
                quotient = Linear(self, sym(str(unknown)))
                return quotient, whole - quotient * divisor
        quotient = self.fresh(f"({whole!r}) // {divisor}", "quotient")
        self.divisions.append((row, divisor, len(self.names) - 1))
        return quotient, whole - quotient * divisor

    def free(self) -> list[int]:
        """Return the unknowns that nothing determines, in order of creation.

        A quotient follows from its dividend, unless the dividend itself is expressed by the quotient.
        """
        known = [u for u, kind in enumerate(self.kinds) if u not in self.solved and kind != "quotient"]
        found = set(known)
        waiting = {u: self.reduce(d).terms for d, _, u in self.divisions if u not in self.solved}
        while waiting:
            ready = [u for u, terms in waiting.items() if found.issuperset(terms)]
            if not ready:
                ready = [next(iter(waiting))]
                known += ready
            found.update(ready)
            for u in ready:
                del waiting[u]
        return known

    def complete(self, values: Mapping[int, int]) -> dict[int, int] | None:
        """Return the values of all unknowns from those of the free ones, or None without a solution."""
        if self._plan is None:
            self.check()
            self._plan = self._ordered()
        found: dict[int, Number] = dict(values)
        for unknown, row, divisor in self._plan:
            value = row.value(found)
            if divisor:
                if unknown in found:
                    if not 0 <= value - divisor * found[unknown] < divisor:
                        return None
                    continue
                value //= divisor
            elif value != int(value):
                return None
            if not self._has(unknown, value):
                return None
            found[unknown] = int(value)
        if not all(r.holds(found) for r in self.relations):
            return None
        return found  # type: ignore[return-value]

    def _ordered(self) -> list[tuple[int, Row, int]]:
        """Return the order in which unknowns follow from free ones, as (unknown, row, divisor)."""
        plan: list[tuple[int, Row, int]] = []
        found = set(self.free())
        waiting = [(u, self.reduce(row), 0) for u, row in self.solved.items()]
        waiting += [(u, self.reduce(d), by) for d, by, u in self.divisions if u not in self.solved]
        while waiting:
            ready = [step for step in waiting if found.issuperset(step[1].terms)]
            if not ready:
                raise Inconsistent("the unknowns depend on each other in a circle")
            plan += ready
            found.update(step[0] for step in ready)
            waiting = [step for step in waiting if step[0] not in found]
        # Quotients that equations determine are checked against their dividends.
        plan += [(u, self.reduce(d), by) for d, by, u in self.divisions]
        return plan
