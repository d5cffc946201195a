"""Linear equations over small whole numbers: the extents, ranks and pads that a rule's typing leaves open.

A type rule compares sums of extents. Run on unknowns, its requirements become a linear system; the
unknowns that remain free span every instance of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

Number = int | Fraction


class Inconsistent(ValueError):
    """Say that the requirements contradict each other."""


class NotLinear(ValueError):
    """Say that a requirement is not linear in the unknowns, such as a product of extents."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Hold a requirement: ``linear`` is zero (``=``), is not (``!=``), or is at least zero (``>=``)."""

    kind: str
    linear: Linear

    def holds(self, values: Mapping[int, Number]) -> bool:
        """Say whether the relation holds under an assignment."""
        value = self.linear.value(values)
        return value == 0 if self.kind == "=" else value != 0 if self.kind == "!=" else value >= 0


class Linear:
    """Hold a number plus multiples of unknowns.

    Arithmetic simplifies as it goes; ``//`` and ``%`` by a number bring in the quotient and the
    remainder as new unknowns. Comparisons give a :class:`Relation`, or a boolean where it is decided.
    """

    __slots__ = ("constant", "system", "terms")

    def __init__(self, system: System, constant: Number, terms: dict[int, Number]) -> None:
        self.system = system
        self.constant = constant
        self.terms = terms

    def reduced(self) -> Number | Linear:
        """Return the value in terms of what is still free: a number where nothing is."""
        result = self.system.reduce(self)
        return result if result.terms else result.constant

    def value(self, values: Mapping[int, Number]) -> Number:
        """Return the value under an assignment of the unknowns that occur."""
        return self.constant + sum(c * values[u] for u, c in self.terms.items())

    def _add(self, other: Any, sign: int) -> Linear:
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

    def __add__(self, other: Any) -> Linear:
        return self._add(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Linear:
        return self._add(other, -1)

    def __rsub__(self, other: Any) -> Linear:
        return (self * -1)._add(other, 1)

    def __mul__(self, other: Any) -> Linear:
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

    def __floordiv__(self, other: Any) -> Any:
        return self.system.divide(self, other)[0]

    def __mod__(self, other: Any) -> Any:
        return self.system.divide(self, other)[1]

    def __rfloordiv__(self, other: Any) -> Any:
        return self.system.divide(Linear(self.system, other, {}), self)[0]

    def _compare(self, kind: str, difference: Linear) -> bool | Relation:
        reduced = difference.reduced()
        relation = Relation(kind, difference)
        if isinstance(reduced, Linear):
            return relation
        return Relation(kind, Linear(self.system, reduced, {})).holds({})

    def __eq__(self, other: object) -> Any:
        return self._compare("=", self - other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", self - other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", self - other)

    def __le__(self, other: Any) -> Any:
        return self._compare(">=", other - self)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">=", self - other - 1)

    def __lt__(self, other: Any) -> Any:
        return self._compare(">=", other - self - 1)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{c}*{self.system.names[u]}" for u, c in self.terms.items()]
        return " + ".join([*parts, str(self.constant)] if self.constant or not parts else parts)


#: The least value of an unknown, by what it stands for.
LEAST: Final = {"extent": 1, "kernel": 1, "rank": 0, "pad": 0, "position": 0, "slack": 0, "quotient": 0}


@dataclass(slots=True)
class System:
    """Own the unknowns and what is required of them.

    ``names`` and ``kinds`` are by unknown; ``top`` bounds an unknown from above where it has a bound.
    ``solved`` expresses unknowns by others; what it does not hold is free.
    """

    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    top: dict[int, int] = field(default_factory=dict)
    solved: dict[int, Linear] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)

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
        if not any(u in self.solved for u in linear.terms):
            return linear
        result = Linear(self, linear.constant, {})
        for unknown, factor in linear.terms.items():
            known = self.solved.get(unknown)
            if known is None:
                result = result + Linear(self, 0, {unknown: factor})
            else:
                result = result + self.reduce(known) * factor
        return result

    def require(self, condition: bool | Relation) -> None:
        """Add a requirement; raise :class:`Inconsistent` where it cannot hold."""
        if isinstance(condition, Relation) and condition.kind == "=":
            self.equate(condition.linear)
        elif isinstance(condition, Relation):
            reduced = condition.linear.reduced()
            if isinstance(reduced, Linear):
                self.relations.append(condition)
            elif not Relation(condition.kind, Linear(self, reduced, {})).holds({}):
                raise Inconsistent("a requirement is false")
        elif not condition:
            raise Inconsistent("a requirement is false")

    def equate(self, linear: Linear) -> None:
        """Require that an expression is zero."""
        reduced = self.reduce(linear)
        if not reduced.terms:
            if reduced.constant != 0:
                raise Inconsistent("two numbers differ")
            return
        # An unknown with factor 1 is expressed by whole multiples of the others. Quotients go first:
        # they follow from extents, not the other way round; ranks and extents stay free.
        order = {"quotient": 0, "slack": 1, "position": 2, "extent": 3, "rank": 3, "pad": 4, "kernel": 5}
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
            raise Inconsistent(f"{self.names[pivot]} would be {solution.constant}")
        self.solved[pivot] = solution

    def divide(self, linear: Any, by: Any) -> tuple[Any, Any]:
        """Return the quotient and the remainder of a division by a number."""
        if isinstance(by, Linear):
            reduced = by.reduced()
            if isinstance(reduced, Linear):
                raise NotLinear("a division by an unknown")
            by = reduced
        known = linear.reduced()
        if not isinstance(known, Linear):
            return known // by, known % by
        if by == 1:
            return known, 0
        quotient = self.fresh(f"({linear!r}) // {by}", "quotient")
        remainder = self.fresh(f"({linear!r}) % {by}", "slack", by - 1)
        self.equate(linear - by * quotient - remainder)
        return quotient, remainder

    def free(self) -> list[int]:
        """Return the unknowns that nothing determines, in order of their making."""
        return [u for u in range(len(self.names)) if u not in self.solved]

    def complete(self, values: Mapping[int, int]) -> dict[int, int] | None:
        """Return the values of all unknowns from those of the free ones; None where that is no solution."""
        found: dict[int, Number] = dict(values)
        for unknown in self.solved:
            linear = self.reduce(self.solved[unknown])
            found[unknown] = linear.value(found)
        for unknown, value in found.items():
            if value != int(value) or value < LEAST[self.kinds[unknown]]:
                return None
            if value > self.top.get(unknown, 1 << 60):
                return None
        if not all(r.holds(found) for r in self.relations):
            return None
        return {u: int(v) for u, v in found.items()}
