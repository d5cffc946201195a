"""Linear equations over small whole numbers: the extents, ranks and pads that a rule's typing leaves open.

A type rule compares sums of extents. Run on unknowns, its requirements become a linear system; the
unknowns that remain free span every instance of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, cast

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
class Relation:
    """The requirement that ``linear`` is zero (``=``), is not zero (``!=``), or is at least zero (``>=``)."""

    kind: str
    linear: Linear

    def holds(self, values: Mapping[int, Number]) -> bool:
        """Return whether the relation holds under an assignment."""
        value = self.linear.value(values)
        return value == 0 if self.kind == "=" else value != 0 if self.kind == "!=" else value >= 0


class Linear:
    """A number plus multiples of unknowns.

    Arithmetic simplifies its results; ``//`` by a number introduces the quotient as a new unknown.
    Comparisons return a :class:`Relation`, or a boolean if the outcome is already decided.
    """

    __slots__ = ("constant", "system", "terms")

    def __init__(self, system: System, constant: Number, terms: dict[int, Number]) -> None:
        self.system = system
        self.constant = constant
        self.terms = terms

    def reduced(self) -> Number | Linear:
        """Return the expression in terms of free unknowns, as a number if none are left."""
        result = self.system.reduce(self)
        return result if result.terms else result.constant

    def value(self, values: Mapping[int, Number]) -> Number:
        """Return the value under an assignment of the unknowns that occur."""
        return self.constant + sum(c * values[u] for u, c in self.terms.items())

    def _add(self, other: Number | Linear, sign: int) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.system, self.constant + sign * other, self.terms)
        terms = dict(self.terms)
        for unknown, factor in other.terms.items():
            total = terms.get(unknown, 0) + sign * factor
            if total:
                terms[unknown] = total
            else:
                terms.pop(unknown, None)
        return Linear(self.system, self.constant + sign * other.constant, terms)

    def __add__(self, other: Number | Linear) -> Linear:
        return self._add(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Number | Linear) -> Linear:
        return self._add(other, -1)

    def __rsub__(self, other: Number | Linear) -> Linear:
        return (self * -1)._add(other, 1)

    def __mul__(self, other: Number | Linear) -> Linear:
        if isinstance(other, Linear):
            left, right = self.reduced(), other.reduced()
            if isinstance(right, Linear):
                left, right = right, left
            if isinstance(right, Linear):
                raise NotLinear("a product of two unknowns")
            return left * right if isinstance(left, Linear) else Linear(self.system, left * right, {})
        if other == 0:
            return Linear(self.system, 0, {})
        return Linear(self.system, self.constant * other, {u: other * c for u, c in self.terms.items()})

    __rmul__ = __mul__

    def __floordiv__(self, other: int | Linear) -> Any:
        return self.system.divide(self, other)[0]

    def __mod__(self, other: int | Linear) -> Any:
        return self.system.divide(self, other)[1]

    def __rfloordiv__(self, other: Number) -> Any:
        return self.system.divide(Linear(self.system, other, {}), self)[0]

    def _compare(self, kind: str, difference: Linear) -> bool | Relation:
        reduced = self.system.reduce(difference)
        relation = Relation(kind, reduced)
        return relation if reduced.terms else relation.holds({})

    def __eq__(self, other: object) -> Any:
        # Other objects (such as a product of extents) define their own equality.
        if not isinstance(other, Linear | int | Fraction):
            return NotImplemented
        return self._compare("=", self - other)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, Linear | int | Fraction):
            return NotImplemented
        return self._compare("!=", self - other)

    def __ge__(self, other: Number | Linear) -> bool | Relation:
        return self._compare(">=", self - other)

    def __le__(self, other: Number | Linear) -> bool | Relation:
        return self._compare(">=", other - self)

    def __gt__(self, other: Number | Linear) -> bool | Relation:
        return self._compare(">=", self - other - 1)

    def __lt__(self, other: Number | Linear) -> bool | Relation:
        return self._compare(">=", other - self - 1)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{c}*{self.system.names[u]}" for u, c in self.terms.items()]
        return " + ".join([*parts, str(self.constant)] if self.constant or not parts else parts)


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
    solved: dict[int, Linear] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    divisions: list[tuple[Linear, int, int]] = field(default_factory=list)
    remainders: bool = False
    _rests: dict[int, Linear] = field(default_factory=dict)
    _plan: list[tuple[int, Linear, int]] | None = None

    def fresh(self, name: str, kind: str, top: int | None = None) -> Linear:
        """Return a new unknown."""
        self.names.append(name)
        self.kinds.append(kind)
        unknown = len(self.names) - 1
        if top is not None:
            self.top[unknown] = top
        return Linear(self, 0, {unknown: 1})

    def reduce(self, linear: Linear) -> Linear:
        """Return an expression in terms of free unknowns."""
        solved = self.solved
        if not any(u in solved for u in linear.terms):
            return linear
        constant = linear.constant
        total: dict[int, Number] = {}
        for unknown, factor in linear.terms.items():
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
        return Linear(self, constant, {u: c for u, c in total.items() if c})

    def require(self, condition: bool | Relation) -> None:
        """Add a requirement; raise :class:`Inconsistent` if it cannot hold."""
        self._plan = None
        if isinstance(condition, Relation) and condition.kind == "=":
            self.equate(condition.linear)
        elif isinstance(condition, Relation):
            reduced = self.reduce(condition.linear)
            if reduced.terms:
                self.relations.append(condition)
            elif not Relation(condition.kind, reduced).holds({}):
                raise Inconsistent("a requirement is false")
        elif not condition:
            raise Inconsistent("a requirement is false")

    def check(self) -> None:
        """Check all requirements again; raise :class:`Inconsistent` if one can no longer hold."""
        kept: list[Relation] = []
        for relation in self.relations:
            reduced = self.reduce(relation.linear)
            if reduced.terms:
                kept.append(Relation(relation.kind, reduced))
            elif not Relation(relation.kind, reduced).holds({}):
                raise Inconsistent("a requirement is false")
        self.relations = kept

    def bounds(self) -> dict[int, int]:
        """Return upper bounds of free unknowns, from the requirements that contain a single unknown."""
        found: dict[int, int] = {}
        free = set(self.free())
        for relation in self.relations:
            linear = self.reduce(relation.linear)
            if relation.kind == ">=" and len(linear.terms) == 1:
                ((unknown, factor),) = linear.terms.items()
                if factor < 0 and unknown in free:
                    top = int(linear.constant // -factor)
                    found[unknown] = min(top, found.get(unknown, top))
        return found

    def equate(self, linear: Linear) -> None:
        """Require that an expression is zero."""
        reduced = self.reduce(linear)
        if not reduced.terms:
            if reduced.constant != 0:
                raise Inconsistent("two numbers differ")
            return
        if self.remainders and self._equate_dividends(reduced):
            reduced = self.reduce(linear)
            if not reduced.terms:
                return
        if self.remainders and self._in_proportion(reduced):
            return
        # An unknown with factor 1 is expressed by integer multiples of the others. Quotients are the last
        # choice, because they follow from the extents that are divided.
        order = {"position": 0, "extent": 1, "rank": 1, "pad": 2, "kernel": 3, "remainder": 4, "quotient": 5}
        pivot = min(
            reduced.terms,
            key=lambda u: (abs(reduced.terms[u]) != 1, order[self.kinds[u]], -u),
        )
        factor = reduced.terms[pivot]
        rest = Linear(self, reduced.constant, {u: c for u, c in reduced.terms.items() if u != pivot})
        solution = rest * (-1 if factor == 1 else 1 if factor == -1 else Fraction(-1) / factor)
        if not solution.terms and (
            solution.constant < LEAST[self.kinds[pivot]]
            or solution.constant > self.top.get(pivot, 1 << 60)
            or solution.constant != int(solution.constant)
        ):
            above = solution.constant > self.top.get(pivot, 1 << 60)
            raise Inconsistent(f"{self.names[pivot]} would be {solution.constant}", limited=above)
        self.solved[pivot] = solution

    def _equate_dividends(self, difference: Linear) -> bool:
        """If an expression is the difference of two quotients by one divisor, equate the dividends."""
        found = {u: (dividend, by) for dividend, by, u in self.divisions if u in difference.terms}
        if len(found) != 2 or len(difference.terms) != 2 or sorted(difference.terms.values()) != [-1, 1]:
            return False
        (above, by), (below, other) = (found[u] for u in sorted(found, key=lambda u: -difference.terms[u]))
        if by != other:
            return False
        rests = [self._remainder(u, by) for u in sorted(found, key=lambda u: -difference.terms[u])]
        self.equate(above + by * difference.constant - rests[0] - (below - rests[1]))
        return True

    def _in_proportion(self, linear: Linear) -> bool:
        """Express two proportional unknowns, neither a multiple of the other, by a third one."""
        if len(linear.terms) != 2 or linear.constant != 0:
            return False
        (one, a), (two, b) = linear.terms.items()
        ratio = Fraction(a) / Fraction(b)
        if ratio > 0 or 1 in (abs(ratio.numerator), ratio.denominator):
            return False
        kind = "extent" if "quotient" in (self.kinds[one], self.kinds[two]) else self.kinds[one]
        common = self.fresh(f"a part of {self.names[one]}", kind)
        self.solved[one], self.solved[two] = common * ratio.denominator, common * -ratio.numerator
        return True

    def _remainder(self, quotient: int, by: int) -> Linear:
        if quotient not in self._rests:
            self._rests[quotient] = self.fresh(
                f"the remainder of {self.names[quotient]}", "remainder", by - 1
            )
        return self._rests[quotient]

    def divide(self, linear: Linear, by: int | Linear) -> tuple[Any, Any]:
        """Return the quotient and the remainder of a division by a number."""
        if isinstance(by, Linear):
            reduced = by.reduced()
            if isinstance(reduced, Linear):
                raise NotLinear("a division by an unknown")
            by = cast("int", reduced)
        known = linear.reduced()
        if not isinstance(known, Linear):
            return known // by, known % by
        if by == 1:
            return known, 0
        for dividend, divisor, unknown in self.divisions:
            if divisor == by and not self.reduce(known - dividend).terms and known - dividend == 0:
                quotient = Linear(self, 0, {unknown: 1})
                return quotient, known - quotient * by
        quotient = self.fresh(f"({linear!r}) // {by}", "quotient")
        self.divisions.append((known, by, len(self.names) - 1))
        return quotient, known - quotient * by

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
        """Return the values of all unknowns from those of the free ones, or None if there is no solution."""
        if self._plan is None:
            self.check()
            self._plan = self._ordered()
        found: dict[int, Number] = dict(values)
        for unknown, linear, divisor in self._plan:
            value = linear.value(found)
            if divisor:
                if unknown in found:
                    if not 0 <= value - divisor * found[unknown] < divisor:
                        return None
                    continue
                value //= divisor
            elif value != int(value):
                return None
            if not LEAST[self.kinds[unknown]] <= value <= self.top.get(unknown, 1 << 60):
                return None
            found[unknown] = int(value)
        if not all(r.holds(found) for r in self.relations):
            return None
        return found  # type: ignore[return-value]

    def _ordered(self) -> list[tuple[int, Linear, int]]:
        """Return the order in which unknowns follow from free ones, as (unknown, expression, divisor)."""
        plan: list[tuple[int, Linear, int]] = []
        found = set(self.free())
        waiting = [(u, self.reduce(linear), 0) for u, linear in self.solved.items()]
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
