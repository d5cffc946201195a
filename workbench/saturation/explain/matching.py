"""Match both sides of rules among terms that are equal to one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from workbench.ops import Attr, AttrValue
from workbench.rules.interpret import Binder, NotBinding, RowAttr, bound_term
from workbench.rules.literals import Number, combined, is_number, nearest_decimal
from workbench.rules.matching import Application, Bindings, compiled
from workbench.rules.pattern import App, Rule, Term
from workbench.saturation.explain.proof_graph import Proofs

#: Limits on the terms compared while one pattern is matched at one place, and while one rule is matched.
PATIENCE, PER_RULE = 400, 2_000


def sides(rule: Rule, *, forward: bool) -> tuple[Application, ...]:
    """Return the side of a rule from which it is read; empty if that side contains a mere variable."""
    found = rule.sources if forward else rule.targets
    return tuple(compiled(t, is_number) for t in found if isinstance(t, App)) if _applied(found) else ()


def _applied(terms: Sequence[Term]) -> bool:
    return all(isinstance(t, App) for t in terms)


class Index:
    """The terms of a collection as they are now, by the set of equal terms and by operator.

    ``numbers`` are the sets of equal terms whose elements are all one number. ``left`` is the number of
    terms that may still be compared; after that nothing matches.
    """

    def __init__(self, proofs: Proofs, numbers: Mapping[int, float], left: int) -> None:
        self.proofs = proofs
        self.left = left
        self.classes = proofs.classes()
        self.numbers = {proofs.find(term): value for term, value in numbers.items()}
        self.by_op: dict[str, list[int]] = {}
        for number, terms in self.classes.items():
            for op in terms:
                self.by_op.setdefault(op, []).append(number)
        self._here = self._rule = 0

    def has(self, pattern: Application) -> bool:
        """Return whether there are terms of all operators of a pattern."""
        if pattern.number is not None:
            return bool(self.numbers)
        return pattern.op in self.by_op and all(
            self.has(a) for a in pattern.args if isinstance(a, Application)
        )

    def begin(self) -> None:
        """Begin with the next rule: its matching may compare as many terms as that of any other."""
        self._rule = PER_RULE

    def at(self, pattern: Application, place: int, bindings: Bindings | None = None) -> list[Bindings]:
        """Return the bindings with which a pattern matches a set of equal terms."""
        if pattern.op not in self.classes.get(place, ()) or self.left < 0:
            return []
        self._here = min(PATIENCE, self._rule, self.left)
        spent = self._here
        found = list(self._in(pattern, place, bindings or {}))
        spent -= max(0, self._here)
        self._rule -= spent
        self.left -= spent
        return found

    def all(
        self, patterns: Sequence[Application], bindings: Bindings
    ) -> Iterator[tuple[tuple[int, ...], Bindings]]:
        """Yield the places and the joint bindings of the matches of several patterns, anywhere."""
        if not patterns:
            yield (), bindings
            return
        for place in self.by_op.get(patterns[0].op, ()):
            if self._rule <= 0 or self.left < 0:
                return
            for found in self.at(patterns[0], place, bindings):
                for places, joint in self.all(patterns[1:], found):
                    yield (place, *places), joint

    def _in(self, pattern: str | Application, place: int, bindings: Bindings) -> Iterator[Bindings]:
        if isinstance(pattern, str):
            known = bindings.get(pattern)
            if known is None:
                yield {**bindings, pattern: place}
            elif self.proofs.find(known) == place:
                yield bindings
            return
        if pattern.number is not None:
            yield from self._number(pattern.number, place, bindings)
            return
        for term in self.classes.get(place, {}).get(pattern.op, ()):
            self._here -= 1
            if self._here < 0:
                return
            entry = self.proofs.entries[term]
            if len(entry.operands) != pattern.arity:
                continue
            bound = dict(bindings)
            if pattern.agrees(entry.attrs, bound):
                yield from self._operands(pattern.args, entry.operands, bound)

    def _operands(
        self, patterns: Sequence[str | Application], places: Sequence[int], bindings: Bindings
    ) -> Iterator[Bindings]:
        if not patterns:
            yield bindings
            return
        for bound in self._in(patterns[0], self.proofs.find(places[0]), bindings):
            yield from self._operands(patterns[1:], places[1:], bound)

    def _number(self, pattern: App, place: int, bindings: Bindings) -> Iterator[Bindings]:
        value = self.numbers.get(place)
        if value is None:
            return
        reading = _Decimal(bindings, value)
        try:
            found = bound_term(pattern, cast(Binder[Number], reading)).value
        except NotBinding:
            return
        if isinstance(found, float) and nearest_decimal(found) != nearest_decimal(value):
            return
        # The tensor that the number stands for is bound too, so that the left-hand side can be read again.
        yield {**reading.bindings, _number_name(pattern): place}


def _number_name(pattern: App) -> str:
    return f"={pattern!r}"


def number_at(pattern: Term, bindings: Mapping[str, Any]) -> int | None:
    """Return the term that a number of a left-hand side matched, or None for anything else."""
    return bindings.get(_number_name(pattern)) if isinstance(pattern, App) and is_number(pattern) else None


class _Decimal:
    """The algebra of a number on a left-hand side, whose attribute variable is bound to a value."""

    def __init__(self, bindings: Bindings, value: float) -> None:
        self.bindings = dict(bindings)
        self.value = value
        self.attrs: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}

    def fresh(self, attr: Attr, name: str | RowAttr, place: int) -> float:
        if isinstance(name, str):
            self.bindings[f"@{name}"] = self.value
        return self.value

    def literal(self, value: AttrValue, attr: Attr | None) -> AttrValue:
        return value

    def apply(self, term: App, operands: list[Number], attrs: dict[str, Any]) -> Number:
        return combined(term, attrs, operands)
