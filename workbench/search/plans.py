"""Turn matches of a rule into edits: check its conditions, build its right-hand sides, infer their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.ops import AttrValue, TypeMismatch, spec_of
from workbench.rules.expressions import evaluate, holds
from workbench.rules.pattern import App, Literal, Rule, Term, Var, subterms
from workbench.search.nodes import Kind, NodeTable
from workbench.search.patterns import Bindings, Match
from workbench.search.program import Made, Plan

#: What evaluating a rule's expressions on numbers that do not fit raises.
_MISFITS = (TypeMismatch, ZeroDivisionError, IndexError, ValueError)


def joined_bindings(matches: Sequence[Match]) -> Bindings:
    """Return what matches that agree on their shared names bind together."""
    bindings = dict(matches[0].bindings)
    for match in matches[1:]:
        bindings.update(match.bindings)
    return bindings


def admits(rule: Rule, bindings: Bindings, table: NodeTable) -> bool:
    """Say whether a rule's own conditions hold."""
    reading = _Reading(bindings, table)
    try:
        return all(holds(c, reading.attribute, reading.type) for c in rule.conditions)
    except _MISFITS:
        return False


def plan_rule(rule: Rule, matches: Sequence[Match], table: NodeTable) -> Plan | None:
    """Return the edit that a rule makes of its matches, None where it has none.

    There is none where a condition fails, where a right-hand side has no type, and where its type is
    not that of what it replaces. A source that is its own target is context, and stays.
    """
    bindings = joined_bindings(matches)
    if not admits(rule, bindings, table):
        return None
    build = _Build(bindings, table)
    roots: list[tuple[int, int]] = []
    leaves: list[frozenset[int]] = []
    try:
        for match, source, target in zip(matches, rule.sources, rule.targets, strict=True):
            if source == target:
                continue
            ref = build.term(target)
            if build.kind(ref).type != table.kinds[match.root].type:
                return None
            roots.append((match.root, ref))
            leaves.append(build.leaves(ref))
    except _MISFITS:
        return None
    inner = tuple(dict.fromkeys(n for m in matches for n in m.inner))
    return Plan(rule.name, tuple(build.made), tuple(roots), tuple(leaves), inner)


def plan_merge(rule: Rule, matches: Sequence[Match], table: NodeTable) -> Plan | None:
    """Return the edit that merges all members of a group at once, None where it is not well-typed.

    ``matches`` agree on all that is not starred; each is replaced by its own part of the whole.
    """
    target = rule.targets[0]
    assert isinstance(target, App), target
    build = _Build(matches[0].bindings, table, matches)
    try:
        axis = build.reading.value(dict(target.attrs)["axis"])
        whole = build.term(target.args[0])
        roots: list[tuple[int, int]] = []
        start = 0
        for match in matches:
            kind = table.kinds[match.root].type
            stop = start + kind.shape[axis]  # type: ignore[union-attr]
            attrs = spec_of("slice").pack({"axis": axis, "start": start, "stop": stop})
            part = build.application("slice", attrs, [whole])
            if build.kind(part).type != kind:
                return None
            roots.append((match.root, part))
            start = stop
        if start != build.kind(whole).type.shape[axis]:  # type: ignore[union-attr]
            return None
    except _MISFITS:
        return None
    leaves = build.leaves(whole)
    return Plan(rule.name, tuple(build.made), tuple(roots), (leaves,) * len(roots), ())


def joined_axes(rule: Rule) -> dict[str, int]:
    """Return for every starred variable of an ``each`` rule the axis along which members are joined."""
    axes: dict[str, int] = {}
    for term in subterms(rule.targets[0]):
        if isinstance(term, App):
            axis = dict(term.attrs).get("axis")
            for arg in term.args:
                if isinstance(arg, Var) and arg.starred and isinstance(axis, Literal):
                    axes[arg.name] = int(axis.value)  # type: ignore[arg-type]
    return axes


class _Reading:
    """Give the values of a rule's expressions under a match."""

    def __init__(self, bindings: Bindings, table: NodeTable) -> None:
        self.bindings, self.kinds = bindings, table.kinds

    def attribute(self, name: str) -> Any:
        return self.bindings[f"@{name}"]

    def type(self, name: str) -> Any:
        return self.kinds[self.bindings[name]].type

    def value(self, expr: Any) -> Any:
        return evaluate(expr, self.attribute, self.type)


class _Build:
    """Build right-hand sides over a graph; equal applications are one."""

    def __init__(self, bindings: Bindings, table: NodeTable, members: Sequence[Match] = ()) -> None:
        self.bindings, self.table, self.members = bindings, table, members
        self.reading = _Reading(bindings, table)
        self.made: list[Made] = []
        self._terms: dict[Term, int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def kind(self, ref: int) -> Kind:
        return self.made[~ref].kind if ref < 0 else self.table.kinds[ref]

    def term(self, term: Term) -> int:
        """Build a term; return its node, or ``~k`` for the k-th made."""
        if isinstance(term, Var):
            node: int = self.bindings[term.name]
            return node
        known = self._terms.get(term)
        if known is None:
            operands: list[int] = []
            for arg in term.args:
                if isinstance(arg, Var) and arg.starred:
                    operands += [m.bindings[arg.name] for m in self.members]
                else:
                    operands.append(self.term(arg))
            known = self._terms[term] = self.application(term.op, self.attributes(term), operands)
        return known

    def attributes(self, term: App) -> tuple[AttrValue, ...]:
        spec = spec_of(term.op)
        given: dict[str, Any] = {name: self.reading.value(expr) for name, expr in term.attrs}
        if term.row is not None:
            for attr in spec.attrs:
                row = f"#{term.row}.{attr.name}"
                if attr.name not in given and row in self.bindings:
                    given[attr.name] = self.bindings[row]
        return spec.pack(given)

    def application(self, op: str, attrs: tuple[AttrValue, ...], operands: Sequence[int]) -> int:
        kinds = [self.kind(ref) for ref in operands]
        result = spec_of(op).result_type([k.type for k in kinds], attrs)  # type: ignore[misc]
        kind = self.table.kind(op, attrs, result, kinds)
        key = (kind.symbol, tuple(operands))
        if key not in self._known:
            self.made.append(Made(kind, tuple(operands)))
            self._known[key] = ~(len(self.made) - 1)
        return self._known[key]

    def leaves(self, ref: int) -> frozenset[int]:
        """Return the graph's nodes that a term is built on."""
        found: set[int] = set()
        stack = [ref]
        while stack:
            ref = stack.pop()
            if ref < 0:
                stack += self.made[~ref].inputs
            else:
                found.add(ref)
        return frozenset(found)


def group_key(rule: Rule, match: Match, stars: Mapping[str, int], table: NodeTable) -> tuple[Any, ...]:
    """Return what the members of one group agree on.

    That is all a match binds but the starred variables, and the types of these off the joined axes.
    """
    shared = tuple((n, v) for n, v in sorted(match.bindings.items()) if n not in stars)
    kinds = []
    for name, axis in stars.items():
        kind: Any = table.kinds[match.bindings[name]].type
        shape = list(kind.shape)
        if -axis <= len(shape):
            shape[axis] = 0
        kinds.append((kind.dtype, tuple(shape)))
    return shared, tuple(kinds)
