"""The rule applications behind a result, found again in the e-graph from which it was extracted.

An e-graph keeps which rule made an e-node, not how e-classes became equal. So each e-node of the result is traced
back: the rule that made it is matched so that its right side has the e-node; the e-nodes of its left side are
traced back in turn. E-classes whose e-nodes are not connected so are connected by all rules that fired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.egraph import EGraph
from workbench.egraph.rebuild import by_term
from workbench.graph import Graph
from workbench.graph.graph import numbers_in
from workbench.laws.matching import Application, Bindings, Search, compiled
from workbench.laws.run_proofs.instance import Instance
from workbench.ops import TypeMismatch, spec_of
from workbench.rules.interpret import is_number, value
from workbench.rules.pattern import App, Rule, Term, Var, parts, starred
from workbench.support import deadline

#: Limit on the ways in which one e-node is made that are followed.
MOST_WAYS: Final = 6
#: Limit on the e-nodes that are compared while one rule is matched at one place.
PATIENCE: Final = 20_000
#: Limits on the members of a merge, and on the matches of a rule at an e-class.
MOST_MEMBERS, MOST_MATCHES = 64, 200


@dataclass(frozen=True, slots=True)
class Match:
    """A rule at a place of an e-graph.

    ``bindings`` are e-classes by tensor variable and by number of the left side, and attributes as in a proof's
    substitution; ``left`` and ``right`` are the e-nodes of its sides.
    """

    rule: Rule
    bindings: Mapping[str, Any]
    members: tuple[Mapping[str, int], ...] = field(default=(), hash=False)
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Return what tells the match apart from others."""
        return repr((self.rule.name, sorted(self.bindings.items(), key=str), self.members))


class Absent(LookupError):
    """Raised when an e-graph does not have a term."""


#: Exceptions that mean that an e-graph does not have a side of a rule.
NOT_THERE: Final = (Absent, TypeMismatch, ZeroDivisionError, IndexError, KeyError, ValueError)


class Derivations(Search):
    """Matches of rules in an e-graph, found where they are asked for."""

    def __init__(self, egraph: EGraph, graph: Graph, rules: Sequence[Rule]) -> None:
        self.egraph = egraph
        fired = set(egraph.rules)
        self.rules = {r.name: r for r in rules if r.name in fired}
        self.eclass: list[int] = egraph.eclass.tolist()
        self.known = by_term(egraph)
        self.operands = [tuple(egraph.operands(i).tolist()) for i in range(len(egraph))]
        self.by_op: dict[str, list[int]] = defaultdict(list)
        self.members: list[dict[str, list[int]]] = [{} for _ in range(egraph.n_classes)]
        for i, op in enumerate(egraph.ops):
            self.by_op[op].append(i)
            self.members[self.eclass[i]].setdefault(op, []).append(i)
        self.numbers: dict[int, float] = {}
        for node, number in numbers_in(graph).items():
            if (i := int(egraph.original[node])) >= 0:
                self.numbers[self.eclass[i]] = number
        for i in self.by_op.get("scalar", ()):
            self.numbers.setdefault(self.eclass[i], float(egraph.attrs[i][0]))  # type: ignore[arg-type]
        self._compiled: dict[int, Application] = {}

    def birth(self, e_node: int) -> int:
        """Return the step in which an e-node was made."""
        return int(self.egraph.birth_step[e_node])

    # -- which rules made an e-node, and which connect an e-class
    def making(self, e_node: int) -> list[Match]:
        """Return matches of the rule that made an e-node whose right side has it, the earliest first."""
        number = int(self.egraph.birth_rule[e_node])
        rule = self.rules.get(self.egraph.rules[number]) if number >= 0 else None
        if rule is None:
            return []
        self.patience = PATIENCE
        found: dict[str, Match] = {}
        for match in self._making(rule, e_node):
            found.setdefault(match.key, match)
            if len(found) >= 4 * MOST_WAYS:
                break

        def latest(match: Match) -> int:
            return max(map(self.birth, match.left), default=0)

        ordered = sorted(found.values(), key=lambda m: (latest(m), len(m.left)))
        earlier = [m for m in ordered if latest(m) < self.birth(e_node)]
        return (earlier or ordered)[:MOST_WAYS]

    def _making(self, rule: Rule, e_node: int) -> Iterator[Match]:
        op = self.egraph.ops[e_node]
        if rule.each:
            yield from self._merges(rule, e_node)
            return
        for k, target in enumerate(rule.targets):
            for part in (p for p in _outermost_first(target) if p.op == op):
                partial = self._binds(part, e_node)
                if partial is not None:
                    places = {k: self.eclass[e_node]} if part is target else {}
                    found = self._matches(rule, partial, places)
                    yield from (match for match in found if e_node in match.right)

    def connecting(self, eclass: int) -> Iterator[Match]:
        """Yield the matches of all rules that fired whose left side lies in an e-class."""
        for rule in self.rules.values():
            self.patience = PATIENCE
            if rule.each:
                for whole in self.members[eclass].get("slice", ()):
                    yield from self._merges(rule, whole)
                continue
            for k in range(len(rule.sources)):
                for n, match in enumerate(self._matches(rule, {}, {k: eclass})):
                    yield match
                    if n > MOST_MATCHES:
                        break

    # -- matching
    def _app(self, term: App) -> Application:
        found = self._compiled.get(id(term))
        if found is None:
            found = self._compiled[id(term)] = compiled(term, is_number)
        return found

    def _binds(self, part: App, e_node: int) -> Bindings | None:
        """Return what a part of a right side says if it is an e-node; None if it cannot be."""
        bindings: Bindings = {}
        operands = self.operands[e_node]
        stars = any(isinstance(a, Var) and a.starred for a in part.args)
        agrees = self._app(part).agrees(self.egraph.attrs[e_node], bindings)
        if not agrees or (not stars and len(operands) != len(part.args)):
            return None
        for arg, c in zip(part.args, operands, strict=False):
            if isinstance(arg, Var) and not arg.starred and bindings.setdefault(arg.name, c) != c:
                return None
        # An attribute that the right side computes says nothing; one that it names must be bound on the left too.
        return bindings

    def _matches(self, rule: Rule, partial: Bindings, places: Mapping[int, int]) -> Iterator[Match]:
        # Sources with a known place first: they bind what the others share.
        order = sorted(range(len(rule.sources)), key=lambda j: j not in places)
        sources = [(self._app(rule.sources[j]), places.get(j)) for j in order]
        for bindings, used in self._all(sources, dict(partial), ()):
            if (match := self._completed(rule, bindings, used)) is not None:
                yield match

    def _all(
        self, sources: Sequence[tuple[Application, int | None]], bindings: Bindings, used: tuple[int, ...]
    ) -> Iterator[tuple[Bindings, tuple[int, ...]]]:
        if not sources:
            yield bindings, used
            return
        (first, place), *rest = sources
        for root in (self.by_op if place is None else self.members[place]).get(first.op, ()):
            for found, more in self.match(first, root, bindings):
                yield from self._all(rest, found, (*used, *more))

    def _terms(self, place: int, op: str) -> Sequence[int]:
        return self.members[place].get(op, ())

    def _term(self, term: int) -> tuple[Sequence[Any], Sequence[int]]:
        deadline.check()
        return self.egraph.attrs[term], self.operands[term]

    def _completed(self, rule: Rule, bindings: Bindings, used: tuple[int, ...]) -> Match | None:
        """Return a match whose right side the e-graph has, under its conditions; None otherwise."""
        made: list[int] = []
        build = self._classes(made, bindings)
        try:
            if not all(build.holds(c) for c in rule.conditions):
                return None
            changed = [t for s, t in zip(rule.sources, rule.targets, strict=True) if s != t]
            sides = [build.side(target, left=False) for target in changed]
            if not rule.multi and sides != [self.eclass[used[0]]] * len(sides):
                return None
        except NOT_THERE:
            return None
        return Match(rule, bindings, (), used, tuple(made))

    # -- merges
    def _merges(self, rule: Rule, whole_part: int) -> Iterator[Match]:
        """Yield the merges whose whole, or a part of it, is an e-node."""
        target = rule.targets[0]
        assert isinstance(target, App)
        merged = target.args[0]
        assert isinstance(merged, App)
        op = self.egraph.ops[whole_part]
        if op == "slice":
            wholes = list(self.members[self.operands[whole_part][0]].get(merged.op, ()))
        elif op == merged.op:
            wholes = [whole_part]
        else:  # a joined operand of the whole
            wholes = [i for i in self.by_op.get(merged.op, ()) if self.eclass[whole_part] in self.operands[i]]
        for whole in wholes:
            for bindings, lists in self._wholes(merged, whole, {}, {}):
                count = {len(v) for v in lists.values()}
                if len(count) != 1 or not 2 <= min(count) <= MOST_MEMBERS:
                    continue
                members = tuple({n: lists[n][k] for n in starred(rule)} for k in range(min(count)))
                match = self._merge(rule, bindings, members)
                if match is not None and (whole_part in match.right or op != "slice"):
                    yield match

    def _wholes(
        self, pattern: Term, e_node: int, bindings: Bindings, lists: Mapping[str, tuple[int, ...]]
    ) -> Iterator[tuple[Bindings, Mapping[str, tuple[int, ...]]]]:
        """Yield the bindings of a whole and its lists of members."""
        assert isinstance(pattern, App)
        bound = dict(bindings)
        if not self._app(pattern).agrees(self.egraph.attrs[e_node], bound):
            return
        operands = self.operands[e_node]
        if len(pattern.args) == 1 and isinstance(pattern.args[0], Var) and pattern.args[0].starred:
            name = pattern.args[0].name
            if lists.get(name, operands) == operands:
                yield bound, {**lists, name: operands}
            return
        if len(operands) != len(pattern.args):
            return
        states: list[tuple[Bindings, Mapping[str, tuple[int, ...]]]] = [(bound, lists)]
        for arg, c in zip(pattern.args, operands, strict=True):
            following: list[tuple[Bindings, Mapping[str, tuple[int, ...]]]] = []
            for b, found in states:
                if isinstance(arg, Var):
                    if b.get(arg.name, c) == c:
                        following.append(({**b, arg.name: c}, found))
                else:
                    for i in self.members[c].get(arg.op, ()):
                        following += self._wholes(arg, i, b, found)
            states = following
        yield from states

    def _merge(self, rule: Rule, bindings: Bindings, members: tuple[Mapping[str, int], ...]) -> Match | None:
        target = rule.targets[0]
        assert isinstance(target, App)
        left: list[int] = []
        right: list[int] = []
        build = self._classes(right, bindings, members)
        try:
            axis = value(dict(target.attrs)["axis"], build)
            of_each = [self._classes(left, bindings, [member]) for member in members]
            owned = [one.side(rule.sources[0], left=False) for one in of_each]
            whole = build.side(target.args[0], left=False)
            kinds: list[Any] = [self.egraph.types[c] for c in owned]
            for given in parts(kinds, axis):
                build.add("slice", spec_of("slice").pack(given), (whole,))
        except NOT_THERE:
            return None
        return Match(rule, bindings, members, tuple(left), tuple(right))

    def _classes(
        self, used: list[int], bindings: Mapping[str, Any], members: Sequence[Mapping[str, int]] = ()
    ) -> Instance:
        """Return the algebra that looks terms up among the e-classes; it adds the e-nodes that it meets to ``used``."""

        def find(op: str, attrs: tuple[Any, ...], operands: tuple[int, ...]) -> int:
            found = self.known.get((op, attrs, operands))
            if found is None:
                raise Absent(op)
            used.append(found)
            return self.eclass[found]

        return Instance(find, self.egraph.types, bindings, members)


def _outermost_first(term: Term) -> Iterator[App]:
    if isinstance(term, App):
        yield term
        for arg in term.args:
            yield from _outermost_first(arg)
