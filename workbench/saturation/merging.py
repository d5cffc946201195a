"""Apply ``each`` rules: merge any number of operators that share an operand, at once.

The engine collects the members in a relation; here they are grouped, the merged operator is built for
each whole group, and every member is united with its part. Pairs are what multi-pattern rules are for;
a cascade of them would pass through exponentially many partial merges to reach the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.expressions import evaluate
from workbench.rules.pattern import App, Literal, Term, Var
from workbench.saturation.compile import CompiledRule
from workbench.saturation.encoding import BIRTH_BASE, Constructor, column_sorts, literal, vector
from workbench.saturation.snapshot import Decoder

if TYPE_CHECKING:
    from workbench.saturation.engine import Engine, Plan, _Tally

Value = Any  # the engine's name of an e-class


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Hold one row of the members' relation."""

    root: Value
    shared: tuple[Value, ...]
    starred: tuple[Value, ...]
    attrs: tuple[Any, ...]


class _Names:
    """Give e-classes names that program text can use: ``(h_ n)``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.functions = engine.egraph.freeze().functions
        self.decode = Decoder(engine)
        self.handle: dict[Value, int] = {}
        for row in self.functions["h_"].rows:
            number = self.decode.integer(row.inputs[0])
            known = self.handle.get(row.output)
            self.handle[row.output] = number if known is None else min(known, number)
        self.types: dict[Value, tuple[int, ...]] = {}
        for row in self.functions["ty_"].rows:
            self.types[row.inputs[0]] = self.decode.vector(row.output)
        self._makers: dict[Value, tuple[Constructor, Any]] | None = None

    def type(self, value: Value) -> TensorType:
        """Return the type of an e-class."""
        return self.engine.program.encoding.type_of(self.types[value])

    def of(self, value: Value) -> int | None:
        """Return the handle of an e-class, naming it through a finite term of its if need be."""
        if value in self.handle:
            return self.handle[value]
        if self._makers is None:
            self._makers = self._finite()
        if value not in self._makers:
            return None
        constructor, row = self._makers[value]
        width = len(constructor.columns())
        operands = [self.of(v) for v in row.inputs[width:]]
        columns = [
            self._literal(sort, v) for sort, v in zip(constructor.columns(), row.inputs[:width], strict=True)
        ]
        text = " ".join(columns + [f"(h_ {n})" for n in operands])
        self.handle[value] = add_handle(self.engine, f"({constructor.name} {text})")
        return self.handle[value]

    def _finite(self) -> dict[Value, tuple[Constructor, Any]]:
        """Return for every e-class without a handle an e-node that has one once its operands have theirs."""
        rows = [
            (constructor, row, row.inputs[len(constructor.columns()) :])
            for constructor in self.engine.constructors
            # One declared after the freeze, for a group merged before this one, has no rows in it.
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


def add_handle(engine: Engine, expression: str) -> int:
    """Name an expression."""
    number = engine.handles
    engine.handles += 1
    engine.run(f"(set (h_ {number}) {expression})")
    return number


def collect(engine: Engine, rule: CompiledRule) -> tuple[int, list[_Candidate]]:
    """Run the collecting query of an ``each`` rule; return its new matches and all members."""
    member = rule.member
    assert member is not None
    (output,) = engine.run(f"(run {rule.ruleset} 1)")
    matches = sum(output.report.num_matches_per_rule.values())
    rows = engine.egraph.freeze().functions[member.relation].rows
    first, second = 1 + len(member.shared), 1 + len(member.shared) + len(member.starred)
    return matches, [
        _Candidate(
            r.inputs[0],
            tuple(r.inputs[1:first]),
            tuple(r.inputs[first:second]),
            tuple(r.inputs[second:]),
        )
        for r in rows
    ]


def merge_members(
    engine: Engine,
    rule: CompiledRule,
    plan: Plan,
    tally: _Tally,
    collected: tuple[int, list[_Candidate]] | None = None,
) -> None:
    """Merge every whole group of members that a rule has collected, of those the engine is to look at."""
    matches, rows = collected or collect(engine, rule)
    if engine.among is not None:
        rows = [r for r in rows if engine.among.issuperset((r.root, *r.shared, *r.starred))]
    groups: dict[tuple[Any, ...], dict[Value, _Candidate]] = {}
    for row in rows:
        groups.setdefault((row.shared, row.attrs), {}).setdefault(row.root, row)
    if matches:
        tally.note(rule.number, matches, 0.0)
    if not any(len(g) > 1 for g in groups.values()):
        return
    names = _Names(engine)
    merged = {value for value, n in names.handle.items() if n in engine.made_by_merge}
    for members in groups.values():
        rows = [m for m in members.values() if not merged.intersection(m.starred)]
        for part in _alike(rule, rows, names):
            tally.changed |= _merge(engine, rule, plan, part, names)


def _star_axis(rule: CompiledRule) -> dict[str, int]:
    """Return for every starred variable the axis along which its members are joined."""
    axes: dict[str, int] = {}

    def walk(term: Term) -> None:
        if isinstance(term, App):
            for arg in term.args:
                if isinstance(arg, Var) and arg.starred:
                    axis = dict(term.attrs).get("axis")
                    if isinstance(axis, Literal) and isinstance(axis.value, int):
                        axes[arg.name] = axis.value
                walk(arg)

    walk(rule.rule.targets[0])
    return axes


def _alike(rule: CompiledRule, rows: list[_Candidate], names: _Names) -> list[list[_Candidate]]:
    """Split members into those whose operands agree off the joined axes; keep two and more."""
    assert rule.member is not None
    axes = _star_axis(rule)
    rank = names.engine.program.encoding.rank
    parts: dict[tuple[Any, ...], list[_Candidate]] = {}
    for row in rows:
        key = []
        for name, value in zip(rule.member.starred, row.starred, strict=True):
            vec = list(names.types[value])
            vec[rank + 2 + axes[name]] = 0
            key.append(tuple(vec))
        parts.setdefault(tuple(key), []).append(row)
    return [p for p in parts.values() if len(p) > 1]


def _merge(engine: Engine, rule: CompiledRule, plan: Plan, rows: list[_Candidate], names: _Names) -> bool:
    """Build the merged operator of one group and unite every member with its part."""
    handles = [(names.of(r.root), r) for r in rows]
    ordered = sorted(((n, r) for n, r in handles if n is not None), key=lambda pair: pair[0])
    rows = [r for _, r in ordered]
    key = (rule.number, tuple(n for n, _ in ordered))
    if len(rows) < 2 or key in engine.merged:
        return False
    build = _Build(engine, rule, plan, rows, names)
    target = rule.rule.targets[0]
    assert isinstance(target, App), target
    axis = build.attribute(dict(target.attrs)["axis"])
    try:
        whole, kind = build.term(target.args[0])
        parts = []
        start = 0
        for row in rows:
            expected = names.type(row.root)
            extent = expected.shape[axis]
            attrs = spec_of("slice").pack({"axis": axis, "start": start, "stop": start + extent})
            if spec_of("slice").result_type([kind], attrs) != expected:
                return False
            parts.append(attrs)
            start += extent
        if start != kind.shape[axis]:
            return False
    except TypeMismatch:
        return False
    lines = build.lines
    for (number, row), attrs in zip(ordered, parts, strict=True):
        part = build.insert("slice", attrs, [whole], names.type(row.root))
        lines.append(f"(union (h_ {number}) (h_ {part}))")
    engine.merged.add(key)
    engine.made_by_merge.update(build.joined)
    for constructor in build.constructors:
        engine.declare(constructor)
    for at in range(0, len(lines), 12):  # parsing a long text is quadratic, a call costs too
        engine.run("\n".join(lines[at : at + 12]))
    return True


class _Build:
    """Write the target of an ``each`` rule for concrete members."""

    def __init__(
        self,
        engine: Engine,
        rule: CompiledRule,
        plan: Plan,
        rows: list[_Candidate],
        names: _Names,
    ) -> None:
        assert rule.member is not None
        self.engine, self.rule, self.rows, self.names = engine, rule, rows, names
        self.birth = plan.step * BIRTH_BASE + rule.number
        self.lines: list[str] = []
        self.joined: list[int] = []
        self.constructors: list[Constructor] = []
        self.tensors = dict(zip(rule.member.shared, rows[0].shared, strict=True))
        self.given: dict[tuple[str, ...], Any] = {}
        decode = names.decode
        at = 0
        for name, attr in rule.member.attrs:
            sorts = column_sorts(attr)
            raw = rows[0].attrs[at : at + len(sorts)]
            at += len(sorts)
            decoded = [decode.by_sort[s](v) for s, v in zip(sorts, raw, strict=True)]
            (self.given[name],) = _decode_one(engine, attr, decoded)

    def attribute(self, expr: Any) -> Any:
        """Return the value of an attribute expression."""
        return evaluate(
            expr, lambda name: self.given[(name,)], lambda var: self.names.type(self.tensors[var])
        )

    def term(self, term: Term) -> tuple[int, TensorType]:
        """Insert a term; return its handle and type."""
        if isinstance(term, Var):
            value = self.tensors[term.name]
            number = self.names.of(value)
            if number is None:
                raise TypeMismatch(f"no finite term names {term.name}")
            return number, self.names.type(value)
        assert self.rule.member is not None
        operands: list[tuple[int, TensorType]] = []
        starred = False
        for arg in term.args:
            if isinstance(arg, Var) and arg.starred:
                starred = True
                column = self.rule.member.starred.index(arg.name)
                for row in self.rows:
                    number = self.names.of(row.starred[column])
                    if number is None:
                        raise TypeMismatch(f"no finite term names {arg.name}")
                    operands.append((number, self.names.type(row.starred[column])))
            else:
                operands.append(self.term(arg))
        spec = spec_of(term.op)
        attrs = {name: self.attribute(expr) for name, expr in term.attrs}
        if term.row is not None:
            for (row_name, *rest), value in self.given.items():
                if row_name == term.row and rest and rest[0] not in attrs:
                    attrs[rest[0]] = value
        packed = spec.pack(attrs)
        kind = spec.result_type([k for _, k in operands], packed)
        number = self.insert(term.op, packed, [n for n, _ in operands], kind)
        if starred:
            self.joined.append(number)
        return number, kind

    def insert(self, op: str, attrs: tuple[Any, ...], operands: list[int], kind: TensorType) -> int:
        """Write the commands that insert an e-node; return its handle."""
        encoding = self.engine.program.encoding
        constructor = Constructor(op, len(operands))
        self.constructors.append(constructor)
        columns = encoding.attr_literals(op, attrs, kind.dtype)
        text = " ".join(columns + [f"(h_ {n})" for n in operands])
        number = self.engine.handles
        self.engine.handles += 1
        self.lines += [
            f"(set (h_ {number}) ({constructor.name} {text}))",
            f"(set (ty_ (h_ {number})) {vector(encoding.type_vector(kind))})",
            f"(set ({constructor.born} {text}) {self.birth})",
        ]
        return number


def _decode_one(engine: Engine, attr: Any, columns: list[Any]) -> tuple[Any]:
    """Decode the columns of one attribute."""
    from workbench.ops import ACTIVATIONS
    from workbench.ops.types import DTYPE_NAMES

    encoding = engine.program.encoding
    if attr.kind == "ints":
        return (tuple(columns),)
    if attr.kind in ("perm", "axes", "shape"):
        return (encoding.value_of(attr, columns[0]),)
    if attr.kind == "act":
        return (ACTIVATIONS[columns[0]],)
    if attr.kind == "dtype":
        return (DTYPE_NAMES[columns[0]],)
    return (columns[0],)
