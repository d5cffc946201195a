"""Turn matches of a rule into edits: check its conditions, build its right-hand sides, infer their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.laws.matching import Bindings, Matched, Matcher
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import read_term, value
from workbench.rules.pattern import App, Rule, off_axis, parts
from workbench.studies.search.states import Edit, Kind, Made, NodeTable
from workbench.support.orders import postorder

#: Exceptions raised when a rule's expressions are evaluated on numbers that do not fit.
_MISFITS = (TypeMismatch, ZeroDivisionError, IndexError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A match of a pattern: its root node, the other matched nodes, and its bindings.

    ``edits`` caches the edits made from the match, by rule and the other matches of the rule.
    """

    root: int
    inner: tuple[int, ...]
    bindings: Bindings
    edits: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)


class Source(Matcher):
    """A left-hand side that is matched in the graphs of a search."""

    def match(self, node: int, kinds: Sequence[Kind], inputs: Mapping[int, tuple[int, ...]]) -> Match | None:
        """Return the match whose root is ``node``, or None."""
        found = self.bind(node, kinds, inputs)
        return None if found is None else Match(node, found[1], found[0])


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
    """Return the edit that merges all members of a group at once, or None if it is not well-typed.

    ``matches`` agree on all names that are not starred; each is replaced by its own part of the whole.
    """
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
    """The algebra that reads a rule's expressions and builds its right-hand sides under a match.

    A tensor is a node, or ``~k`` for the k-th made; equal applications are one.
    """

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
    along the joined axes.

    Args:
        match: The match of one member.
        stars: The axis along which the tensors of each starred variable are joined.
        table: The nodes of the graph.
    """
    shared = tuple((n, v) for n, v in sorted(match.bindings.items()) if n not in stars)
    kinds = tuple(
        off_axis(table.kinds[match.bindings[name]].type, axis)  # type: ignore[arg-type]
        for name, axis in stars.items()
    )
    return shared, kinds
