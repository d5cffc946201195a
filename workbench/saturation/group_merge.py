"""Apply ``each`` rules: merge any number of operators that share an operand, at once.

The engine collects the members in a relation. This module groups them, builds the merged operator for each
whole group, and unites every member with its part. Multi-pattern rules merge pairs instead; a cascade of
pairs would go through exponentially many partial merges to reach the whole group.

A rewrite writes one operator in several forms: a convolution, the same with a scale in its kernel, the same
with a shift in its bias. These forms share operands and are therefore members of one group. Merged with one
another, they only compute the same thing twice; :func:`independent` keeps one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from workbench.ops import TensorType, Trait, TypeMismatch, spec_of
from workbench.rules.interpret import Bound, Numbers, read_term, value
from workbench.rules.pattern import App, Var, joined_axes, off_axis, parts
from workbench.saturation.compile import CompiledRule
from workbench.saturation.encoding import BIRTH_BASE, Constructor, column_sorts
from workbench.saturation.program import literal, vector
from workbench.saturation.state import Decoder, State

C = TypeVar("C", bound=Hashable)

#: The largest number of e-classes above a member that are looked at. The forms of an operator meet a few
#: operators above it; a member from which more can be reached is taken as read together with others.
REACH: Final = 64
#: The largest number of e-classes above a member that are tried as the one in which its forms meet.
MEETINGS: Final = 12


@dataclass(frozen=True, slots=True)
class Reader(Generic[C]):
    """An e-node that reads an e-class; if it ``selects``, its elements are elements of its operands."""

    eclass: C
    operands: tuple[C, ...]
    selects: bool = False


Readers = Mapping[C, Sequence[Reader[C]]]


def independent(members: Iterable[C], readers: Readers[C], outputs: Iterable[C]) -> list[C]:
    """Return the members of a group without those that need not be computed beside the rest.

    ``outputs`` are the e-classes of the graph's outputs. There are three kinds of such members:

    - A member that selects its elements from other members, say as their concat, is had from them.
    - If every way from a member to the outputs leads through others, then whoever takes these from the merged
      operator never reads that member.
    - If all ways from two members lead through an e-class, and no e-node on the way reads both, then an
      extraction needs at most one of them, as it takes one e-node of an e-class. The nearest is kept.
    """
    ends = frozenset(outputs)
    kept = dict.fromkeys(members)
    for own in tuple(kept):
        for reader in readers.get(own, ()):
            others = kept.keys() - {reader.eclass}
            if reader.selects and reader.eclass in kept and others.issuperset(reader.operands):
                del kept[reader.eclass]
    for own in tuple(kept):
        if _below(own, kept.keys() - {own}, readers, ends) is not None:
            del kept[own]
    meetings = {own: _meetings(own, kept.keys() - {own}, readers, ends) for own in kept}
    for meeting in dict.fromkeys(m for found in meetings.values() for m in found):
        forms = [own for own in kept if meeting in meetings[own]]
        forms.sort(key=lambda own: len(meetings[own][meeting]))
        for n, own in enumerate(forms):
            nearer = (meetings[f][meeting] for f in forms[:n] if f in kept)
            if any(not _together(meetings[own][meeting], ways, readers) for ways in nearer):
                del kept[own]
    return list(kept)


def _below(own: C, others: set[C], readers: Readers[C], ends: frozenset[C]) -> frozenset[C] | None:
    """Return the e-classes from one up to others; None if an output is reached, or too many e-classes."""
    seen = {own}
    above = [own]
    while above:
        value = above.pop()
        if value in ends or len(seen) > REACH:
            return None
        for reader in readers.get(value, ()):
            if reader.eclass not in seen and reader.eclass not in others:
                seen.add(reader.eclass)
                above.append(reader.eclass)
    return frozenset(seen)


def _meetings(own: C, others: set[C], readers: Readers[C], ends: frozenset[C]) -> dict[C, frozenset[C]]:
    """Return e-classes through which every way from one leads, each with the e-classes below it."""
    below = ((m, _below(own, {m, *others}, readers, ends)) for m in _nearest(own, readers))
    return {meeting: found for meeting, found in below if found is not None}


def _nearest(own: C, readers: Readers[C]) -> list[C]:
    """Return the nearest e-classes above one."""
    found = {own: None}
    fresh = [own]
    while fresh and len(found) <= MEETINGS:
        fresh = [r.eclass for value in fresh for r in readers.get(value, ()) if r.eclass not in found]
        found |= dict.fromkeys(fresh)
    return list(found)[1 : MEETINGS + 1]


def _together(first: frozenset[C], second: frozenset[C], readers: Readers[C]) -> bool:
    """Return whether an e-node reads one of some e-classes and another one of others."""
    return any(
        a != b and a in first and b in second
        for value in first
        for reader in readers.get(value, ())
        for a in reader.operands
        for b in reader.operands
    )


Value = Any  # the engine's value for an e-class


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row of the members' relation."""

    root: Value
    shared: tuple[Value, ...]
    starred: tuple[Value, ...]
    attrs: tuple[Any, ...]


class Names:
    """Names ``(h_ n)`` of e-classes for use in program text."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.functions = state.functions
        self.decode = Decoder(state)
        self.handle: dict[Value, int] = {}
        for row in self.functions["h_"].rows:
            number = self.decode.integer(row.inputs[0])
            self.handle[row.output] = min(number, self.handle.get(row.output, number))
        self.types = {row.inputs[0]: self.decode.vector(row.output) for row in self.functions["ty_"].rows}

    def type(self, value: Value) -> TensorType:
        """Return the type of an e-class."""
        return self.state.encoding.type_of(self.types[value])

    def of(self, value: Value) -> int | None:
        """Return the handle of an e-class, naming it by one of its finite terms if necessary."""
        if value in self.handle:
            return self.handle[value]
        if value not in self.makers:
            return None
        constructor, row = self.makers[value]
        width = len(constructor.columns())
        operands = [self.of(v) for v in row.inputs[width:]]
        columns = [self._literal(*c) for c in zip(constructor.columns(), row.inputs[:width], strict=True)]
        text = " ".join(columns + [f"(h_ {n})" for n in operands])
        self.handle[value] = self.state.name(f"({constructor.name} {text})")
        return self.handle[value]

    def outputs(self) -> list[Value]:
        """Return the e-classes of the graph's outputs."""
        ids = frozenset(self.state.graph.output_ids)
        rows = [*self.functions["h_"].rows, *self.functions["ht_"].rows]
        return [row.output for row in rows if self.decode.integer(row.inputs[0]) in ids]

    @cached_property
    def readers(self) -> dict[Value, list[Reader[Value]]]:
        """Return the e-nodes that read an e-class."""
        found = defaultdict[Value, list[Reader[Value]]](list)
        for constructor in self.state.record.constructors:
            width = len(constructor.columns())
            selects = Trait.SELECTS in spec_of(constructor.op).traits
            for row in self.functions[constructor.name].rows if constructor.name in self.functions else ():
                reader = Reader(row.output, tuple(row.inputs[width:]), selects)
                for operand in dict.fromkeys(reader.operands):
                    found[operand].append(reader)
        return found

    @cached_property
    def makers(self) -> dict[Value, tuple[Constructor, Any]]:
        """Return for every e-class without a handle an e-node whose operands have, or can get, handles."""
        rows = [
            (constructor, row, row.inputs[len(constructor.columns()) :])
            for constructor in self.state.record.constructors
            # A constructor declared after the freeze, for an earlier group, has no rows here.
            if not constructor.many and constructor.op != "project" and constructor.name in self.functions
            for row in self.functions[constructor.name].rows
        ]
        makers: dict[Value, tuple[Constructor, Any]] = {}
        grown = True
        while grown:
            grown = False
            for constructor, row, operands in rows:
                known = row.output in self.handle or row.output in makers
                if not known and all(v in self.handle or v in makers for v in operands):
                    makers[row.output] = (constructor, row)
                    grown = True
        return makers

    def _literal(self, sort: str, value: Value) -> str:
        decoded: Any = self.decode.by_sort[sort](value)
        return vector(decoded) if sort == "VI" else literal(decoded)


def collect(state: State, rule: CompiledRule) -> tuple[int, list[Candidate]]:
    """Run the collecting query of an ``each`` rule; return the number of new matches and all members."""
    member = rule.member
    assert member is not None
    (output,) = state.run(f"(run {rule.ruleset} 1)")
    matches = sum(output.report.num_matches_per_rule.values())
    first = 1 + len(member.shared)
    second = first + len(member.starred)
    rows = (tuple(row.inputs) for row in state.functions[member.relation].rows)
    return matches, [Candidate(of[0], of[1:first], of[first:second], of[second:]) for of in rows]


def merge_members(
    state: State, rule: CompiledRule, step: int, rows: Sequence[Candidate], among: frozenset[Value] | None
) -> bool:
    """Merge every whole group of members; return whether the e-graph has changed.

    Args:
        state: The e-graph.
        rule: An ``each`` rule.
        step: The number of the iteration, the birth of the e-nodes made.
        rows: The members that the rule has collected.
        among: The e-classes to which members and their operands are restricted, or None.
    """
    if among is not None:
        rows = [r for r in rows if among.issuperset((r.root, *r.shared, *r.starred))]
    groups: dict[tuple[Any, ...], dict[Value, Candidate]] = {}
    for row in rows:
        groups.setdefault((row.shared, row.attrs), {}).setdefault(row.root, row)
    if not any(len(g) > 1 for g in groups.values()):
        return False
    names = Names(state)
    merged = {value for value, n in names.handle.items() if n in state.record.made_by_merge}
    changed = False
    outputs = names.outputs()
    for members in groups.values():
        own = [m for m in members.values() if not merged.intersection(m.starred)]
        for part in _alike(rule, own, names):
            kept = independent([member.root for member in part], names.readers, outputs)
            if len(kept) > 1:
                alike = [member for member in part if member.root in kept]
                changed |= _merge(rule, step, alike, names, among or frozenset())
    return changed


def _alike(rule: CompiledRule, rows: list[Candidate], names: Names) -> list[list[Candidate]]:
    """Split members into those whose operands agree except along the joined axes; drop single members."""
    assert rule.member is not None
    axes = joined_axes(rule.rule)
    groups: dict[tuple[Any, ...], list[Candidate]] = {}
    for row in rows:
        operands = zip(rule.member.starred, row.starred, strict=True)
        key = tuple(off_axis(names.type(value), axes[name]) for name, value in operands)
        groups.setdefault(key, []).append(row)
    return [g for g in groups.values() if len(g) > 1]


def _merge(
    rule: CompiledRule, step: int, rows: list[Candidate], names: Names, among: frozenset[Value]
) -> bool:
    """Build the merged operator of a group, members read alike as neighbours, and unite each with its part."""

    def place(pair: tuple[int, Candidate]) -> tuple[list[tuple[bool, int]], int]:
        number, row = pair
        readers = (r for r in names.readers.get(row.root, ()) if r.eclass in among)
        return sorted({(r.selects, len(r.operands)) for r in readers}), number

    ordered = sorted(((n, r) for r in rows if (n := names.of(r.root)) is not None), key=place)
    rows = [r for _, r in ordered]
    key = (rule.number, tuple(n for n, _ in ordered))
    state = names.state
    if len(rows) < 2 or key in state.record.merged:
        return False
    build = _Build(rule, step, rows, names)
    merged = rule.rule.targets[0]
    assert isinstance(merged, App), merged
    axis = value(dict(merged.attrs)["axis"], build)
    try:
        whole, kind = read_term(merged.args[0], build)
        kinds = [names.type(row.root) for row in rows]
        slices = [spec_of("slice").pack(given) for given in parts(kinds, axis)]
        if sum(k.shape[axis] for k in kinds) != kind.shape[axis] or kinds != [
            spec_of("slice").result_type([kind], attrs) for attrs in slices
        ]:
            return False
    except TypeMismatch:
        return False
    lines = build.lines
    for (number, _), own, attrs in zip(ordered, kinds, slices, strict=True):
        part = build.insert("slice", attrs, [whole], own)
        lines.append(f"(union (h_ {number}) (h_ {part}))")
    state.record.merged.add(key)
    state.record.made_by_merge.update(build.joined)
    for constructor in build.constructors:
        state.declare(constructor)
    for at in range(0, len(lines), 12):  # parsing a long text is quadratic, but every call has a cost too
        state.run("\n".join(lines[at : at + 12]))
    return True


class _Build(Bound, Numbers):
    """The algebra that writes an ``each`` rule's target for its members; a tensor is an e-class's handle and type."""

    def __init__(self, rule: CompiledRule, step: int, rows: list[Candidate], names: Names) -> None:
        assert rule.member is not None
        self.names, self.member, self.candidates = names, rule.member, rows
        self.birth = step * BIRTH_BASE + rule.number
        self.lines: list[str] = []
        self.joined: list[int] = []
        self.constructors: list[Constructor] = []
        self.tensors = dict(zip(rule.member.shared, rows[0].shared, strict=True))
        self.attrs: dict[str, Any] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        columns = iter(rows[0].attrs)
        for (name, *of_row), attr in rule.member.attrs:
            decoded = [names.decode.by_sort[s](next(columns)) for s in column_sorts(attr)]
            found = names.state.encoding.decode_attr(attr, decoded)
            if of_row:
                self.rows.setdefault(name, {})[of_row[0]] = found
            else:
                self.attrs[name] = found

    def kind(self, name: str) -> TensorType:
        """Return the type of a tensor variable."""
        return self.names.type(self.tensors[name])

    def variable(self, name: str) -> tuple[int, TensorType]:
        """Return the handle and the type of a variable that all members share."""
        return self._named(name, self.tensors[name])

    def starred(self, name: str) -> list[tuple[int, TensorType]]:
        """Return the handle and the type of a starred variable in every member."""
        column = self.member.starred.index(name)
        return [self._named(name, row.starred[column]) for row in self.candidates]

    def _named(self, name: str, value: Value) -> tuple[int, TensorType]:
        number = self.names.of(value)
        if number is None:
            raise TypeMismatch(f"no finite term names {name}")
        return number, self.names.type(value)

    def apply(
        self, term: App, operands: list[tuple[int, TensorType]], attrs: dict[str, Any]
    ) -> tuple[int, TensorType]:
        """Insert an application; return its handle and type."""
        spec = spec_of(term.op)
        packed = spec.pack(attrs)
        kind = spec.result_type([k for _, k in operands], packed)
        number = self.insert(term.op, packed, [n for n, _ in operands], kind)
        if any(isinstance(arg, Var) and arg.starred for arg in term.args):
            self.joined.append(number)
        return number, kind

    def insert(self, op: str, attrs: tuple[Any, ...], operands: list[int], kind: TensorType) -> int:
        """Write the commands that insert an e-node; return its handle."""
        encoding = self.names.state.encoding
        constructor = Constructor(op, len(operands))
        self.constructors.append(constructor)
        columns = encoding.attr_literals(op, attrs, kind.dtype)
        text = " ".join(columns + [f"(h_ {n})" for n in operands])
        number = self.names.state.new_handle()
        self.lines += [
            f"(set (h_ {number}) ({constructor.name} {text}))",
            f"(set (ty_ (h_ {number})) {vector(encoding.type_vector(kind))})",
            f"(set ({constructor.born} {text}) {self.birth})",
        ]
        return number
