"""Apply rules to a collection of terms, forward and backward, and record the reason of each equality."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.graph.graph import result_type
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import RELATIONS, arguments, compared, read_attributes, value
from workbench.rules.matching import Application, Bindings, Matched
from workbench.rules.pattern import App, Rule, Term, format_condition, parts, starred
from workbench.saturation.explain.matching import Index, number_at, sides
from workbench.saturation.explain.proof_graph import Because, Guard, Proofs

#: Exceptions raised when a rule's expressions are evaluated on numbers that do not fit.
MISFITS: Final = (TypeMismatch, ZeroDivisionError, IndexError, KeyError, ValueError)
#: Limit on the members of a merge that is tried.
MOST_MEMBERS: Final = 16


class TooManyTerms(Exception):
    """Raised when a collection of terms has grown to its limit."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule at one match: its sides, as pairs of equal terms, and the guards that do not hold.

    ``places`` are the sets of equal terms at which the side matched that was searched. ``misfit`` is what a
    type rule objects to; the sides are empty then.
    """

    rule: Rule
    places: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    guards: tuple[Guard, ...] = ()
    misfit: str = ""


@dataclass(slots=True)
class Growth:
    """A collection of terms that grows by rules.

    Args:
        proofs: The terms.
        constant: Whether a term depends on weights alone.
        running: Whether a term depends on an input.
        numbers: The terms whose elements are all one number.
        weights: Whether terms of weights alone are rewritten.
        most: Limit on the terms.
        made: Called with every new term.
    """

    proofs: Proofs
    constant: Callable[[int], bool]
    running: Callable[[int], bool]
    numbers: dict[int, float] = field(default_factory=dict)
    weights: bool = True
    most: int = 4_000
    made: Callable[[int], None] | None = None
    _sides: dict[tuple[int, bool], tuple[Rule, tuple[Application, ...]]] = field(default_factory=dict)

    def index(self, work: int) -> Index:
        """Return the present terms, to be searched; at most ``work`` of them are compared."""
        return Index(self.proofs, self.numbers, work)

    def sides(self, rule: Rule, *, forward: bool) -> tuple[Application, ...]:
        """Return the side of a rule from which it is read, compiled once."""
        key = (id(rule), forward)
        if key not in self._sides:
            self._sides[key] = (rule, sides(rule, forward=forward))  # the rule keeps its id
        return self._sides[key][1]

    def matches(
        self, rule: Rule, index: Index, *, forward: bool, hot: Set[int]
    ) -> Iterator[tuple[tuple[int, ...], Bindings]]:
        """Yield the matches of one side of a rule, one of whose roots is among the places ``hot``.

        Args:
            rule: The rule; not one with ``each``.
            index: The terms.
            forward: Whether the left-hand side is searched; otherwise the right-hand side.
            hot: Sets of equal terms.
        """
        patterns = self.sides(rule, forward=forward)
        if not patterns or not all(map(index.has, patterns)):
            return
        index.begin()
        for k, first in enumerate(patterns):
            rest = [*patterns[:k], *patterns[k + 1 :]]
            for place in index.by_op.get(first.op, ()):
                if place not in hot:
                    continue
                for found in index.at(first, place):
                    for places, joint in index.all(rest, found):
                        roots = (*places[:k], place, *places[k:])
                        if len(set(roots)) == len(roots):
                            yield roots, joint

    def apply(self, rule: Rule, places: tuple[int, ...], bindings: Bindings) -> Applied:
        """Build both sides of a rule under a match and evaluate its guards.

        Raise :class:`TooManyTerms` at the limit.
        """
        if len(self.proofs) > self.most:
            raise TooManyTerms
        build = _Build(self, bindings)
        try:
            pairs = tuple(
                (build.side(source), build.side(target))
                for source, target in zip(rule.sources, rule.targets, strict=True)
                if source != target
            )
            guards = self._guards(rule, bindings, build, [p[0] for p in pairs])
        except MISFITS as error:
            return Applied(rule, places, (), misfit=str(error))
        for a, b in pairs:
            left, right = self.proofs.entries[a].type, self.proofs.entries[b].type
            if left != right:
                return Applied(rule, places, (), misfit=f"the sides have the types {left} and {right}")
        return Applied(rule, places, pairs, guards)

    def merges(self, rule: Rule, index: Index, place: int) -> Iterator[Applied]:
        """Yield the results of an ``each`` rule for a match at a place together with its other members."""
        (pattern,) = self.sides(rule, forward=True)
        if not index.has(pattern):
            return
        index.begin()
        stars = starred(rule)
        for own in index.at(pattern, place):
            shared = {k: v for k, v in own.items() if k not in stars}
            others = [
                (at, found)
                for (at,), found in index.all([pattern], shared)
                if at != place and all(found.get(k) == v for k, v in shared.items())
            ]
            if not others or len(self.proofs) > self.most:
                continue
            group = sorted([(place, own), *others], key=lambda member: member[0])[:MOST_MEMBERS]
            yield self._merged(rule, group)
            for other in others[:MOST_MEMBERS]:
                yield self._merged(rule, [(place, own), other])
                yield self._merged(rule, [other, (place, own)])

    def _merged(self, rule: Rule, members: Sequence[tuple[int, Bindings]]) -> Applied:
        places = tuple(place for place, _ in members)
        build = _Build(self, members[0][1], [m for _, m in members])
        merged = rule.targets[0]
        assert isinstance(merged, App), merged
        try:
            axis = value(dict(merged.attrs)["axis"], build)
            whole = build.side(merged.args[0])
            kinds: list[Any] = [self.proofs.entries[place].type for place in places]
            slices = [
                build.application("slice", spec_of("slice").pack(given), [whole])
                for given in parts(kinds, axis)
            ]
            guards = self._guards(rule, members[0][1], build, list(places))
        except MISFITS as error:
            return Applied(rule, places, (), misfit=str(error))
        pairs = tuple(zip(places, slices, strict=True))
        if any(self.proofs.entries[a].type != self.proofs.entries[b].type for a, b in pairs):
            return Applied(rule, places, (), misfit="a part of the whole has another type than its member")
        return Applied(rule, places, pairs, guards)

    def record(self, applied: Applied) -> bool:
        """Make the sides of a rule equal; return whether that is new."""
        because = Because(applied.rule.name, applied.guards)
        changed = [self.proofs.union(a, b, because) for a, b in applied.pairs]
        return any(changed)

    def _guards(
        self, rule: Rule, bindings: Bindings, build: _Build, roots: Sequence[int]
    ) -> tuple[Guard, ...]:
        failed: list[Guard] = []
        for condition in rule.conditions:
            for a, b in compared(condition, build):
                if not RELATIONS[condition.relation](a, b):
                    failed.append(Guard(format_condition(condition), a, b))
        failed += [Guard(f"constant({n})") for n in rule.constants if not self.constant(bindings[n])]
        failed += [Guard(f"running({n})") for n in rule.running if not self.running(bindings[n])]
        for x, y in rule.distinct:
            if self.proofs.find(bindings[x]) == self.proofs.find(bindings[y]):
                failed.append(Guard(f"distinct({x}, {y})"))
        if not self.weights and not _shrinks(rule) and not all(map(self.running, roots)):
            failed.append(Guard("running(root)"))
        return tuple(failed)


def _applications(term: Term) -> Iterator[App]:
    if isinstance(term, App):
        yield term
        for arg in term.args:
            yield from _applications(arg)


def _shrinks(rule: Rule) -> bool:
    size = [sum(1 for _ in _applications(t)) for t in (*rule.sources, *rule.targets)]
    half = len(rule.sources)
    return not rule.each and all(b < a for a, b in zip(size[:half], size[half:], strict=True))


class _Build(Matched):
    """The algebra that builds terms in a collection."""

    def __init__(self, growth: Growth, bindings: Bindings, members: Sequence[Bindings] = ()) -> None:
        super().__init__(bindings)
        self.growth, self.members = growth, members

    def kind(self, name: str) -> TensorType:
        found = self.growth.proofs.entries[self.bindings[name]].type
        if not isinstance(found, TensorType):
            raise TypeMismatch(f"{name} must be a tensor, got {found}")
        return found

    def side(self, term: Term) -> int:
        """Add a term; a number is the tensor that it matched."""
        if not isinstance(term, App):
            return self.variable(term.name)
        matched = number_at(term, self.bindings)
        if matched is not None:
            return matched
        return self.apply(term, arguments(term, self, self.side), read_attributes(term, self))

    def variable(self, name: str) -> int:
        found: int = self.bindings[name]
        return found

    def starred(self, name: str) -> list[int]:
        return [m[name] for m in self.members]

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.application(term.op, spec_of(term.op).pack(attrs), operands)

    def application(self, op: str, attrs: tuple[AttrValue, ...], operands: Sequence[int]) -> int:
        entries = self.growth.proofs.entries
        kinds: list[Any] = [entries[i].type for i in operands]
        if any(k is None for k in kinds):
            raise TypeMismatch(f"{op}: an operand has no type")
        before = len(entries)
        made = self.growth.proofs.add(op, attrs, tuple(operands), result_type(op, kinds, attrs))
        if made == before and self.growth.made is not None:
            self.growth.made(made)
        if "value" in spec_of(op).attr_names and not operands:
            self.growth.numbers.setdefault(made, float(attrs[spec_of(op).attr_names.index("value")]))  # type: ignore[arg-type]
        return made


def reads(proofs: Proofs, hot: Set[int], index: Index) -> set[int]:
    """Return sets of equal terms together with those that read them."""
    found = set(hot)
    for place, terms in index.classes.items():
        if any(
            proofs.find(i) in hot
            for group in terms.values()
            for t in group
            for i in proofs.entries[t].operands
        ):
            found.add(place)
    return found
