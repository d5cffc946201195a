"""The proof graph: an e-graph of terms that knows why any two of them are equal.

Rules are matched among equal terms, in both directions, and every equality keeps its reason. A chain of steps from
a term to an equal one is read off the reasons, without a second search; :func:`replay` checks it without the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from workbench.graph.graph import Node, result_type
from workbench.laws.matching import Application, Bindings, Matched, Matcher, Search, compiled
from workbench.ops import AttrValue, TensorType, TypeMismatch, ValueType, spec_of
from workbench.rules.interpret import (
    NUMBER,
    RELATIONS,
    arguments,
    compared,
    is_number,
    number_key,
    read_attributes,
    value,
)
from workbench.rules.pattern import App, Rule, Term, applications, format_condition, parts, starred
from workbench.support import deadline

#: Limit on the steps of a chain.
LONGEST: Final = 400
#: Limits of :meth:`ProofGraph.run`: rounds, matches that are tried and terms that are compared in a round.
ROUNDS: Final = 8
MATCHES: Final = 4_000
WORK: Final = 100_000
#: Limits on the terms compared while one pattern is matched at one place, and while one rule is matched.
PATIENCE, PER_RULE = 400, 2_000
#: Limit on the members of a merge that is tried.
MOST_MEMBERS: Final = 16
#: Exceptions raised when a rule's expressions are evaluated on numbers that do not fit.
MISFITS: Final = (TypeMismatch, ZeroDivisionError, IndexError, KeyError, ValueError)

_Key = tuple[str, tuple[AttrValue, ...], tuple[int, ...]]


class TooManyTerms(Exception):
    """Raised when a proof graph has grown to its limit."""


class NotAStep(ValueError):
    """Raised when a step of a chain is not one application of the law that it names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A term: an operator, its attributes, the numbers of its operands, and its type if that is known."""

    op: str
    attrs: tuple[AttrValue, ...]
    inputs: tuple[int, ...]
    type: ValueType | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that does not hold, with the values of its two sides.

    A restriction to useful cases, such as ``constant(x)``, and a type rule compare no values: ``left`` and
    ``right`` are None.
    """

    condition: str
    left: AttrValue | None = None
    right: AttrValue | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of an equality: a rule, and its guards that do not hold.

    Without a rule, the equality is given.
    """

    rule: str = ""
    guards: tuple[Guard, ...] = ()


GIVEN: Final = Reason()
CONGRUENT: Final = Reason("congruent")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a chain: a part of a term is rewritten by a law.

    ``place`` are the numbers of operands from the root to the part. ``forwards`` says whether the law is read from
    left to right. ``before`` and ``after`` are the part, and ``guards`` the conditions that do not hold.
    """

    law: str
    place: tuple[int, ...]
    forwards: bool
    before: int
    after: int
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule at one match: its sides, as pairs of equal terms, and the guards that do not hold.

    ``misfit`` is what a type rule objects to; the sides are empty then.
    """

    rule: Rule
    pairs: tuple[tuple[int, int], ...]
    guards: tuple[Guard, ...] = ()
    misfit: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the sides are equal: they have a type, and all guards hold."""
        return bool(self.pairs) and not self.guards


class Terms:
    """Ground terms, each of which has one number."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self.types = [e.type for e in self.entries]
        self._known: dict[_Key, int] = {(e.op, e.attrs, e.inputs): i for i, e in enumerate(self.entries)}

    def __len__(self) -> int:
        return len(self.entries)

    def add(
        self, op: str, attrs: tuple[AttrValue, ...], inputs: tuple[int, ...], type: ValueType | None
    ) -> int:
        """Return the number of a term, which is new unless the same term is known.

        Args:
            op: The operator.
            attrs: Its attributes in declared order.
            inputs: The numbers of its operands.
            type: The type of its result, if that is known.
        """
        number = self._known.setdefault((op, attrs, inputs), len(self.entries))
        if number == len(self.entries):
            self.entries.append(Entry(op, attrs, inputs, type))
            self.types.append(type)
            self._added(number)
        return number

    def _added(self, number: int) -> None:
        """Note that a term is new."""

    def build(self, op: str, attrs: tuple[AttrValue, ...], inputs: Sequence[int]) -> int:
        """Return the number of a term whose type follows from its operands; raise TypeMismatch if it has none."""
        kinds: list[Any] = [self.types[i] for i in inputs]
        if any(k is None for k in kinds):
            raise TypeMismatch(f"{op}: an operand has no type")
        return self.add(op, attrs, tuple(inputs), result_type(op, kinds, attrs))

    def enter(self, nodes: Sequence[Node]) -> list[int]:
        """Add the nodes of a graph; return their terms."""
        found: list[int] = []
        for node in nodes:
            found.append(self.add(node.op, node.attrs, tuple([found[j] for j in node.inputs]), node.type))
        return found

    def part(self, term: int, place: Sequence[int]) -> int:
        """Return the part of a term at a place; raise IndexError if there is none."""
        for k in place:
            term = self.entries[term].inputs[k]
        return term

    def put(self, term: int, place: Sequence[int], part: int) -> int:
        """Return a term with something else at a place."""
        if not place:
            return part
        entry, (k, *rest) = self.entries[term], place
        changed = self.put(entry.inputs[k], rest, part)
        return self.build(entry.op, entry.attrs, (*entry.inputs[:k], changed, *entry.inputs[k + 1 :]))


class ProofGraph(Terms):
    """Terms, the equalities between them, and the reason of each.

    Equal terms share a number, :meth:`find`. Equality is closed under congruence: operators of equal operands are
    equal. Rules make terms equal by :meth:`run`, or one by one by :meth:`apply` and :meth:`record`.

    ``constant`` says whether a term depends on weights alone, ``running`` whether it depends on an input, ``weights``
    whether terms of weights alone are rewritten. ``most`` limits the terms. ``made`` is called with the new ones.
    """

    def __init__(
        self,
        *,
        constant: Callable[[int], bool] = lambda term: False,
        running: Callable[[int], bool] = lambda term: True,
        weights: bool = True,
        most: int = 4_000,
        made: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self.constant, self.running, self.weights = constant, running, weights
        self.most, self.made = most, made
        #: The terms whose elements are all one number.
        self.numbers: dict[int, float] = {}
        self._parent: list[int] = []
        self._size: list[int] = []
        self._readers: list[list[int]] = []
        # Edges of the trees of reasons: the term above, the reason, and the left-hand side of the two.
        self._edge: list[tuple[int, Reason, int] | None] = []
        self._canonical: dict[_Key, int] = {}
        self._sides: dict[tuple[int, bool], tuple[Rule, tuple[Application, ...]]] = {}

    # -- terms and equalities -------------------------------------------------------------------------
    def find(self, term: int) -> int:
        """Return the number that stands for all terms equal to a term."""
        parent = self._parent
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def _added(self, number: int) -> None:
        """Make a new term equal to others by congruence at once."""
        entry = self.entries[number]
        self._parent.append(number)
        self._size.append(1)
        self._readers.append([])
        self._edge.append(None)
        if entry.op == NUMBER:
            self.numbers[number] = float(entry.attrs[0])  # type: ignore[arg-type]
        for i in dict.fromkeys(map(self.find, entry.inputs)):
            self._readers[i].append(number)
        same = self._canonical.setdefault(self._signature(number), number)
        if same != number:
            self.union(same, number, CONGRUENT)

    def _signature(self, term: int) -> _Key:
        entry = self.entries[term]
        return entry.op, entry.attrs, tuple([self.find(i) for i in entry.inputs])

    def union(self, a: int, b: int, because: Reason) -> bool:
        """Make two terms equal for a reason; return whether that is new.

        A rule's left-hand side is ``a``, its right-hand side ``b``.
        """
        waiting = [(a, b, because)]
        changed = False
        while waiting:
            a, b, because = waiting.pop()
            left, right = self.find(a), self.find(b)
            if left == right:
                continue
            changed = True
            self._reroot(a)
            self._edge[a] = (b, because, a)
            if self._size[left] > self._size[right]:
                left, right = right, left
            self._parent[left] = right
            self._size[right] += self._size[left]
            moved, self._readers[left] = self._readers[left], []
            for reader in moved:
                same = self._canonical.setdefault(self._signature(reader), reader)
                if self.find(same) != self.find(reader):
                    waiting.append((same, reader, CONGRUENT))
            self._readers[right] += moved
        return changed

    def _reroot(self, term: int) -> None:
        """Turn the edges between a term and the root of its tree of reasons around."""
        edge, self._edge[term] = self._edge[term], None
        while edge is not None:
            above, because, left = edge
            following, self._edge[above] = self._edge[above], (term, because, left)
            term, edge = above, following

    def classes(self) -> dict[int, dict[str, list[int]]]:
        """Return the distinct terms of every set of equal terms, by operator."""
        found: dict[int, dict[str, list[int]]] = {}
        seen: set[_Key] = set()
        for i, entry in enumerate(self.entries):
            signature = self._signature(i)
            if signature not in seen:
                seen.add(signature)
                found.setdefault(self.find(i), {}).setdefault(entry.op, []).append(i)
        return found

    # -- chains ---------------------------------------------------------------------------------------
    def chain(self, a: int, b: int, *, everywhere: bool = False, most: int = LONGEST) -> list[Step]:
        """Return the steps from a term to an equal one, at most ``most`` of them; raise ValueError for other terms.

        Args:
            a: The term.
            b: The equal term.
            everywhere: Whether a part that a term has at several places is rewritten at each, which a replay needs;
                otherwise it is rewritten once for all.
            most: The limit on the steps.
        """
        if self.find(a) != self.find(b):
            raise ValueError("terms must be equal to have a chain of reasons")
        steps: list[Step] = []
        stack: list[tuple[tuple[int, ...], int, int, tuple[Reason, bool] | None]] = [((), a, b, None)]
        seen: set[tuple[int, int, bool]] = set()
        while stack and len(steps) < most:
            place, before, after, why = stack.pop()
            if (link := (before, after, why is None)) in seen and not everywhere:
                continue
            seen.add(link)
            if why is None:
                stack += [(place, *link) for link in reversed(self.path(before, after))]
            elif why[0] is not CONGRUENT:
                steps.append(Step(why[0].rule, place, why[1], before, after, why[0].guards))
            else:
                sides = zip(self.entries[before].inputs, self.entries[after].inputs, strict=True)
                below = [((*place, k), x, y, None) for k, (x, y) in enumerate(sides) if x != y]
                stack += reversed(below)
        return steps

    def path(self, a: int, b: int) -> list[tuple[int, int, tuple[Reason, bool]]]:
        """Return the edges of the tree of reasons between two terms, and whether each is from left to right."""
        up = [a]
        while (edge := self._edge[up[-1]]) is not None:
            up.append(edge[0])
        place = {term: i for i, term in enumerate(up)}
        down = []
        while b not in place:
            edge = self._edge[b]
            assert edge is not None
            down.append((edge[0], b, (edge[1], edge[0] == edge[2])))
            b = edge[0]
        edges = ((term, self._edge[term]) for term in up[: place[b]])
        found = [(term, e[0], (e[1], term == e[2])) for term, e in edges if e is not None]
        return found + down[::-1]

    # -- rules ----------------------------------------------------------------------------------------
    def run(
        self,
        rules: Sequence[Rule],
        goals: Sequence[tuple[int, int]],
        *,
        rounds: int = ROUNDS,
        holds: Callable[[Applied], bool] = lambda one: one.holds,
    ) -> bool:
        """Apply rules in both directions until pairs of terms are equal; return whether they are.

        Each round looks near the terms of the round before it. The run also ends at the limits, or if nothing
        changes any more.

        Args:
            rules: The rules.
            goals: The pairs of terms.
            rounds: Limit on the rounds.
            holds: Whether the sides of a match are made equal.
        """
        hot = set(range(len(self)))
        for _ in range(rounds):
            if self.equal(goals):
                return True
            before, index = len(self), Index(self, WORK)
            near = self.near({self.find(t) for t in hot}, index)
            taken, changed = 0, False
            try:
                for rule in rules:
                    deadline.check()
                    found = list(self.applications(rule, index, near, backward=True))
                    taken += len(found)
                    for one in filter(holds, found):
                        changed |= self.record(one)
                    if taken > MATCHES or self.equal(goals):
                        break
            except TooManyTerms:
                break
            if not changed:
                break
            hot = set(range(before, len(self)))
            warm = {self.find(t) for t in hot}
            hot.update(t for t in range(before) if self.find(t) in warm)
        return self.equal(goals)

    def equal(self, pairs: Iterable[tuple[int, int]]) -> bool:
        """Return whether the terms of each pair are equal."""
        return all(self.find(a) == self.find(b) for a, b in pairs)

    def near(self, places: Set[int], index: Index) -> set[int]:
        """Return sets of equal terms together with those that read them."""
        read = {
            place: (i for group in terms.values() for t in group for i in self.entries[t].inputs)
            for place, terms in index.classes.items()
        }
        return {*places, *(p for p, inputs in read.items() if any(self.find(i) in places for i in inputs))}

    def applications(
        self, rule: Rule, index: Index, hot: Set[int], *, backward: bool, most: int | None = None
    ) -> Iterator[Applied]:
        """Yield a rule at its matches, one of whose roots is among the places ``hot``.

        Args:
            rule: The rule.
            index: The terms.
            hot: Sets of equal terms.
            backward: Whether the right-hand side is searched too.
            most: Limit on the matches of one side.
        """
        if rule.each:
            for place in sorted(hot):
                yield from self._merges(rule, index, place)
            return
        for forward in (True, False) if backward else (True,):
            for bound in islice(self._matches(rule, index, forward=forward, hot=hot), most):
                yield self.apply(rule, bound)

    def sides(self, rule: Rule, *, forward: bool) -> tuple[Application, ...]:
        """Return the side of a rule from which it is read, compiled once."""
        key = (id(rule), forward)
        if key not in self._sides:
            self._sides[key] = (rule, sides(rule, forward=forward))  # the rule keeps its id
        return self._sides[key][1]

    def _matches(self, rule: Rule, index: Index, *, forward: bool, hot: Set[int]) -> Iterator[Bindings]:
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
                        roots = (place, *places)
                        if len(set(roots)) == len(roots):
                            yield joint

    def apply(self, rule: Rule, bindings: Bindings) -> Applied:
        """Build both sides of a rule under a match and evaluate its guards.

        Raise :class:`TooManyTerms` at the limit.
        """
        if len(self) > self.most:
            raise TooManyTerms
        build = _Build(self, bindings)
        both = ((s, t) for s, t in zip(rule.sources, rule.targets, strict=True) if s != t)
        return self._applied(rule, build, ((build.side(s), build.side(t)) for s, t in both))

    def _applied(self, rule: Rule, build: _Build, sides: Iterable[tuple[int, int]]) -> Applied:
        """Return a rule at a match whose sides are made as they are read."""
        try:
            pairs = tuple(sides)
            guards = self._guards(rule, build, [a for a, _ in pairs])
        except MISFITS as error:
            return Applied(rule, (), misfit=str(error))
        for a, b in pairs:
            if self.types[a] != self.types[b]:
                misfit = f"the sides have the types {self.types[a]} and {self.types[b]}"
                return Applied(rule, (), misfit=misfit)
        return Applied(rule, pairs, guards)

    def _merges(self, rule: Rule, index: Index, place: int) -> Iterator[Applied]:
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
            if not others or len(self) > self.most:
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

        def slices() -> Iterator[tuple[int, int]]:
            axis = value(dict(merged.attrs)["axis"], build)
            whole = build.side(merged.args[0])
            kinds: list[Any] = [self.types[place] for place in places]
            for place, given in zip(places, parts(kinds, axis), strict=True):
                yield place, self.build("slice", spec_of("slice").pack(given), [whole])

        return self._applied(rule, build, slices())

    def record(self, applied: Applied) -> bool:
        """Make the sides of a rule equal; return whether that is new."""
        because = Reason(applied.rule.name, applied.guards)
        changed = [self.union(a, b, because) for a, b in applied.pairs]
        return any(changed)

    def _guards(self, rule: Rule, build: _Build, roots: Sequence[int]) -> tuple[Guard, ...]:
        bindings = build.bindings
        failed = [
            Guard(format_condition(condition), a, b)
            for condition in rule.conditions
            for a, b in compared(condition, build)
            if not RELATIONS[condition.relation](a, b)
        ]
        failed += [Guard(f"constant({n})") for n in rule.constants if not self.constant(bindings[n])]
        failed += [Guard(f"running({n})") for n in rule.running if not self.running(bindings[n])]
        same = (p for p in rule.distinct if self.equal([(bindings[p[0]], bindings[p[1]])]))
        failed += [Guard(f"distinct({x}, {y})") for x, y in same]
        if not self.weights and not _shrinks(rule) and not all(map(self.running, roots)):
            failed.append(Guard("running(root)"))
        return tuple(failed)

    def build(self, op: str, attrs: tuple[AttrValue, ...], inputs: Sequence[int]) -> int:
        """Return the number of a term that a rule makes; raise TypeMismatch if it has no type."""
        before = len(self)
        made = super().build(op, attrs, inputs)
        if made == before and self.made is not None:
            self.made(made)
        return made


def _shrinks(rule: Rule) -> bool:
    before, after = ([len(list(applications(t))) for t in side] for side in (rule.sources, rule.targets))
    return not rule.each and all(b < a for a, b in zip(before, after, strict=True))


class _Build(Matched):
    """The algebra that builds the sides of a rule as terms."""

    def __init__(self, terms: Terms, bindings: Bindings, members: Sequence[Bindings] = ()) -> None:
        super().__init__(bindings)
        self.terms, self.members = terms, members

    def kind(self, name: str) -> TensorType:
        found = self.terms.types[self.bindings[name]]
        if not isinstance(found, TensorType):
            raise TypeMismatch(f"{name} must be a tensor, got {found}")
        return found

    def side(self, term: Term) -> int:
        """Add a term; a number is the tensor that it matched."""
        if not isinstance(term, App):
            return self.variable(term.name)
        if is_number(term) and (matched := self.bindings.get(number_key(term))) is not None:
            return int(matched)
        return self.apply(term, arguments(term, self, self.side), read_attributes(term, self))

    def variable(self, name: str) -> int:
        return self.bindings[name]

    def starred(self, name: str) -> list[int]:
        return [m[name] for m in self.members]

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.terms.build(term.op, spec_of(term.op).pack(attrs), operands)


# -- matching ---------------------------------------------------------------------------------------------
def sides(rule: Rule, *, forward: bool) -> tuple[Application, ...]:
    """Return the side of a rule from which it is read; empty if that side contains a mere variable."""
    found = rule.sources if forward else rule.targets
    applied = [t for t in found if isinstance(t, App)]
    return tuple(compiled(t, is_number) for t in applied) if len(applied) == len(found) else ()


class Index(Search):
    """The terms of a proof graph as they are now, by the set of equal terms and by operator.

    ``left`` is the number of terms that may still be compared; after that nothing matches.
    """

    def __init__(self, graph: ProofGraph, left: int) -> None:
        self.graph = graph
        self.left = left
        self.classes = graph.classes()
        self.numbers = {graph.find(term): number for term, number in graph.numbers.items()}
        self.by_op: dict[str, list[int]] = {}
        for number, terms in self.classes.items():
            for op in terms:
                self.by_op.setdefault(op, []).append(number)
        self._rule = 0

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
        spent = self.patience = min(PATIENCE, self._rule, self.left)
        found = [bound for bound, _ in self.matches(pattern, place, bindings or {})]
        spent -= max(0, self.patience)
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

    def _terms(self, place: int, op: str) -> Sequence[int]:
        return self.classes.get(place, {}).get(op, ())

    def _term(self, term: int) -> tuple[Sequence[Any], Sequence[int]]:
        return self.graph.entries[term].attrs, self.graph.entries[term].inputs

    def _find(self, term: int) -> int:
        return self.graph.find(term)


# -- the check of a chain ---------------------------------------------------------------------------------
def replay(terms: Terms, start: int, steps: Sequence[Step], laws: Mapping[str, Rule]) -> list[int]:
    """Return the terms through which a chain leads, the first included; they are added to ``terms``.

    Each step is done again without the proof graph: the law is matched against the part before it, or after it if
    the law is read backwards, its other side is built there, and its conditions are evaluated. Restrictions of
    a law to useful cases are not part of the equation that it claims. A law of several roots is not a step. Raise
    NotAStep if a step is not one application of its law.

    Args:
        terms: The terms of which the steps speak.
        start: The first term.
        steps: The steps.
        laws: The laws by name.
    """
    found = [start]
    for step in steps:
        law = laws.get(step.law)
        source, target = (step.before, step.after) if step.forwards else (step.after, step.before)
        try:
            if terms.part(found[-1], step.place) != step.before:
                raise NotAStep(f"{step.law}: another part is at {list(step.place)}")
            if law is None or rewritten(terms, law, source) != target:
                raise NotAStep(f"{step.law} does not make these terms equal")
            found.append(terms.put(found[-1], step.place, step.after))
        except (IndexError, TypeMismatch) as error:
            raise NotAStep(f"{step.law}: {error}") from None
    return found


def rewritten(terms: Terms, law: Rule, term: int) -> int | None:
    """Return the right-hand side of a law for a term that its left-hand side matches; None if it does not apply."""
    if law.multi or law.each:
        return None
    inputs = [e.inputs for e in terms.entries]
    match = Matcher(law, law.sources[0]).bind(term, terms.entries, inputs)
    if match is None:
        return None
    build = _Build(terms, match[0])
    try:
        if not all(build.holds(c) for c in law.conditions):
            return None
        made = build.side(law.targets[0])
    except (TypeMismatch, ZeroDivisionError):
        return None
    return made if terms.types[made] == terms.types[term] else None
