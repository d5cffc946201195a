"""Find every application of every rule in a graph, reusing the matches of the graph before, and make edits of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.laws.matching import Bindings, Matched, Matcher
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import read_term, value
from workbench.rules.pattern import App, Rule, joined_axes, off_axis, parts, symmetric
from workbench.studies.search.states import Edit, Kind, Made, NodeTable, State
from workbench.support.orders import postorder

#: Exceptions raised when a rule's expressions are evaluated on numbers that do not fit.
_MISFITS = (TypeMismatch, ZeroDivisionError, IndexError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A match of a pattern: its root, its bindings, the other nodes, and the edits made by rule and other matches."""

    root: int
    bindings: Bindings
    inner: tuple[int, ...]
    edits: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)


def admits(rule: Rule, bindings: Bindings, table: NodeTable) -> bool:
    """Return whether a rule's own conditions hold."""
    build = _Build(bindings, table)
    try:
        return all(build.holds(c) for c in rule.conditions)
    except _MISFITS:
        return False


def rule_edit(rule: Rule, matches: Sequence[Match], table: NodeTable) -> Edit | None:
    """Return the edit that a rule makes at its matches, or None if it does not apply.

    A rule does not apply if a condition fails, or if a right-hand side has no type or another type than the
    node that it replaces. A source that equals its target gives context only and stays.
    """
    bindings = {name: value for match in matches for name, value in match.bindings.items()}
    if not admits(rule, bindings, table):
        return None
    build = _Build(bindings, table)
    roots: list[tuple[int, int]] = []
    leaves: list[frozenset[int]] = []
    try:
        for match, source, term in zip(matches, rule.sources, rule.targets, strict=True):
            if source == term:
                continue
            ref = read_term(term, build)
            if build.node(ref).type != table.kinds[match.root].type:
                return None
            roots.append((match.root, ref))
            leaves.append(build.leaves(ref))
    except _MISFITS:
        return None
    inner = tuple(dict.fromkeys(n for m in matches for n in m.inner))
    return Edit(rule.name, tuple(build.made), tuple(roots), tuple(leaves), inner)


def merge_edit(rule: Rule, matches: Sequence[Match], table: NodeTable) -> Edit | None:
    """Return the edit that merges a group, whose matches agree on all but starred names; None if it is ill-typed."""
    merged = rule.targets[0]
    assert isinstance(merged, App), merged
    build = _Build(matches[0].bindings, table, matches)
    try:
        axis = value(dict(merged.attrs)["axis"], build)
        whole = read_term(merged.args[0], build)
        roots: list[tuple[int, int]] = []
        kinds: list[Any] = [table.kinds[match.root].type for match in matches]
        slices = parts(kinds, axis)
        if slices[-1]["stop"] != build.node(whole).type.shape[axis]:  # type: ignore[union-attr]
            return None
        for match, kind, given in zip(matches, kinds, slices, strict=True):
            part = build.application("slice", spec_of("slice").pack(given), [whole])
            if build.node(part).type != kind:
                return None
            roots.append((match.root, part))
    except _MISFITS:
        return None
    leaves = build.leaves(whole)
    return Edit(rule.name, tuple(build.made), tuple(roots), (leaves,) * len(roots), ())


class _Build(Matched):
    """The algebra that builds right-hand sides under a match; a tensor is a node, or ``~k`` for the k-th made."""

    def __init__(self, bindings: Bindings, table: NodeTable, matches: Sequence[Match] = ()) -> None:
        super().__init__(bindings)
        self.table, self.matches = table, matches
        self.made: list[Made] = []
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def kind(self, name: str) -> TensorType:
        return self.table.kinds[self.bindings[name]].type

    def node(self, ref: int) -> Kind:
        return self.made[~ref].kind if ref < 0 else self.table.kinds[ref]

    def variable(self, name: str) -> int:
        node: int = self.bindings[name]
        return node

    def starred(self, name: str) -> list[int]:
        return [m.bindings[name] for m in self.matches]

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.application(term.op, spec_of(term.op).pack(attrs), operands)

    def application(self, op: str, attrs: tuple[AttrValue, ...], operands: Sequence[int]) -> int:
        kinds = [self.node(ref) for ref in operands]
        result = spec_of(op).result_type([k.type for k in kinds], attrs)  # type: ignore[misc]
        kind = self.table.kind(op, attrs, result, kinds)
        key = (kind.symbol, tuple(operands))
        if key not in self._known:
            self.made.append(Made(kind, tuple(operands)))
            self._known[key] = ~(len(self.made) - 1)
        return self._known[key]

    def leaves(self, ref: int) -> frozenset[int]:
        """Return the graph's nodes that a term reads."""
        read = postorder([ref], lambda r: self.made[~r].inputs if r < 0 else ())
        return frozenset(r for r in read if r >= 0)


def group_key(match: Match, stars: Mapping[str, int], table: NodeTable) -> tuple[Any, ...]:
    """Return the key on which the members of one group agree.

    It consists of all bindings except the starred variables, and the types of these without the extents
    along the axes of joining, which ``stars`` has.
    """
    shared = tuple((n, v) for n, v in sorted(match.bindings.items()) if n not in stars)
    kinds = tuple(
        off_axis(table.kinds[match.bindings[name]].type, axis)  # type: ignore[arg-type]
        for name, axis in stars.items()
    )
    return shared, kinds


#: The matches with a given root node, each with the number of its source pattern.
Found = tuple[tuple[int, Match], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    rule: Rule
    sources: tuple[int, ...]
    symmetric: bool
    stars: dict[str, int]


class Candidates:
    """All applications of ``rules`` in a graph of a ``table``: by rule in order, then by the root nodes of the sources.

    A match consists of node numbers, and a node keeps its number when the graph around it changes. A graph
    therefore takes over the matches of the graph before, except within a pattern's depth above a change,
    and an edit that was built and typed once is not built again.

    ``exclusive`` says whether an operator below the root of a match must have no reader outside the match, as in
    TASO, ``ordered`` whether both orders count if exchanging two sources is a renaming.
    """

    def __init__(self, rules: Sequence[Rule], table: NodeTable, *, exclusive: bool, ordered: bool) -> None:
        self.table, self.exclusive = table, exclusive
        self._entries: list[_Entry] = []
        self._sources: list[Matcher] = []
        for rule in rules:
            first = len(self._sources)
            self._sources += [Matcher(rule, term) for term in rule.sources]
            numbers = tuple(range(first, len(self._sources)))
            alike = not ordered and not rule.contextual and symmetric(rule)
            self._entries.append(_Entry(rule, numbers, alike, joined_axes(rule) if rule.each else {}))
        self._by_op: dict[str, list[tuple[int, Matcher]]] = {}
        for number, source in enumerate(self._sources):
            self._by_op.setdefault(source.op, []).append((number, source))
        self._depth = max((s.depth for s in self._sources), default=0)
        self._conditional = {
            e.sources[0]: e.rule for e in self._entries if len(e.sources) == 1 and e.rule.conditions
        }

    # -- matches ----------------------------------------------------------------------------------
    def matches(self, state: State) -> dict[int, Found]:
        """Return the matches in a graph by root node."""
        if state.found is None:
            before: dict[int, Found] = (state.parent and state.parent.found) or {}
            kept = before.keys() - self._stale(state) if before else ()
            state.found = {
                n: before[n] if n in kept else self._ending_in(state, n) for n in sorted(state.inputs)
            }
        found: dict[int, Found] = state.found
        return found

    def _stale(self, state: State) -> frozenset[int]:
        """Return the nodes whose surroundings, within the depth of patterns, differ from the parent's."""
        assert state.parent is not None
        before = state.parent.inputs
        front = [n for n, operands in state.inputs.items() if before.get(n) != operands]
        stale = set(front)
        for _ in range(self._depth):
            front = [u for n in front for u in state.around.users[n] if u not in stale]
            stale.update(front)
        return frozenset(stale)

    def _ending_in(self, state: State, node: int) -> Found:
        kinds, found = self.table.kinds, []
        for number, source in self._by_op.get(kinds[node].op, ()):
            bound, rule = source.bind(node, kinds, state.inputs), self._conditional.get(number)
            if bound is not None and (rule is None or admits(rule, bound[0], self.table)):
                found.append((number, Match(node, *bound)))
        return tuple(found)

    # -- applications -----------------------------------------------------------------------------
    def edits(self, state: State) -> Iterator[Edit]:
        """Yield every well-typed application of every rule, in a fixed order."""
        by_source: list[list[Match]] = [[] for _ in self._sources]
        for found in self.matches(state).values():
            for number, match in found:
                by_source[number].append(match)
        for place, entry in enumerate(self._entries):
            first = by_source[entry.sources[0]]
            groups = self._groups(entry, first, state) if entry.rule.each else self._joined(entry, by_source)
            for matches in groups:
                known = matches[0].edits
                key = (place, *matches[1:])
                if key not in known:
                    make = merge_edit if entry.rule.each else rule_edit
                    known[key] = make(entry.rule, matches, self.table)
                edit = known[key]
                if edit is not None and not (self.exclusive and _read_elsewhere(state, matches)):
                    yield edit

    def _joined(self, entry: _Entry, by_source: list[list[Match]]) -> Iterator[tuple[Match, ...]]:
        """Yield one match per source such that the matches agree on shared names and have distinct roots."""
        first, *rest = entry.sources
        names = set(self._sources[first].names)
        partial: list[tuple[Match, ...]] = [(m,) for m in by_source[first]]
        for number in rest:
            shared = [n for n in self._sources[number].names if n in names]
            names.update(self._sources[number].names)
            table: dict[tuple[Any, ...], list[Match]] = {}
            for match in by_source[number]:
                table.setdefault(tuple(match.bindings[n] for n in shared), []).append(match)
            partial = [
                (*some, match)
                for some in partial
                for match in table.get(tuple(_bound(some, n) for n in shared), ())
                if all(match.root != m.root for m in some)
                and not (entry.symmetric and match.root < some[0].root)
            ]
        yield from partial

    def _groups(self, entry: _Entry, matches: Sequence[Match], state: State) -> Iterator[tuple[Match, ...]]:
        """Yield whole groups of members, split such that no member depends on another."""
        groups: dict[tuple[Any, ...], dict[int, Match]] = {}
        for match in matches:
            key = group_key(match, entry.stars, self.table)
            groups.setdefault(key, {}).setdefault(match.root, match)
        for members in groups.values():
            left = sorted(members.values(), key=lambda m: state.around.position[m.root])
            while len(left) > 1:
                layer: list[Match] = []
                for member in left:
                    operands = [v for n, v in member.bindings.items() if n[0] not in "@#"]
                    if not any(state.around.feeds(kept.root, v) for kept in layer for v in operands):
                        layer.append(member)
                if len(layer) > 1:
                    yield tuple(sorted(layer, key=lambda m: m.root))
                left = [m for m in left if m not in layer]


def _bound(matches: Sequence[Match], name: str) -> Any:
    return next(m.bindings[name] for m in matches if name in m.bindings)


def _read_elsewhere(state: State, matches: Sequence[Match]) -> bool:
    """Return whether a node below the roots is an output or has a reader that is not matched."""
    inner = {n for m in matches for n in m.inner}
    matched, around = inner | {m.root for m in matches}, state.around
    return any(sum(u in matched for u in around.users[n]) < around.uses[n] for n in inner)
