"""Match the left-hand sides of rules in one graph, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.ops import spec_of
from workbench.rules.pattern import App, AttrExpr, AttrVar, Literal, Rule, Term, Var, Vector, subterms
from workbench.search.nodes import Kind

#: What a pattern binds: tensor variables by name, attributes as ``@name``, those of a row as ``#row.name``.
Bindings = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Hold where a pattern matches: the node it ends in, the nodes matched below, what it binds.

    ``plans`` keeps what was made of it, by rule and the matches that go with it.
    """

    root: int
    inner: tuple[int, ...]
    bindings: Bindings
    plans: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Application:
    """Hold an application of a pattern, its attributes by their place in the operator's spec."""

    op: str
    arity: int
    fixed: tuple[tuple[int, Any], ...]
    bound: tuple[tuple[int, str], ...]
    vectors: tuple[tuple[int, tuple[Any, ...]], ...]
    args: tuple[str | _Application, ...]


class Source:
    """Match one left-hand side.

    ``op`` is the operator it ends in, ``depth`` how many operators stand above each other, ``names``
    what a match binds.
    """

    def __init__(self, rule: Rule, term: App) -> None:
        self._rule = rule
        self._names: dict[str, None] = {}
        self._top = self._compiled(term)
        self.op, self.depth = term.op, _depth(term)
        self.names = tuple(self._names)

    def match(self, node: int, kinds: Sequence[Kind], inputs: Mapping[int, tuple[int, ...]]) -> Match | None:
        """Return the match that ends in a node, if there is one."""
        bindings: Bindings = {}
        inner: list[int] = []
        if not _walk(self._top, node, kinds, inputs, bindings, inner):
            return None
        return Match(node, tuple(inner[1:]), bindings)

    def _compiled(self, term: App) -> _Application:
        given = dict(term.attrs)
        spec = spec_of(term.op)
        fixed: list[tuple[int, Any]] = []
        bound: list[tuple[int, str]] = []
        vectors: list[tuple[int, tuple[Any, ...]]] = []
        for place, attr in enumerate(spec.attrs):
            if attr.name not in given and term.row is not None:
                bound.append((place, self._named(f"#{term.row}.{attr.name}")))
                continue
            expr: AttrExpr | None = given.get(attr.name)
            if expr is None:
                if attr.default is None:
                    raise ValueError(f"rule {self._rule.name}: {attr.name} has no default; name it")
                expr = Literal(attr.default)
            if isinstance(expr, Literal):
                fixed.append((place, attr.check(expr.value, term.op)))
            elif isinstance(expr, AttrVar):
                bound.append((place, self._named(f"@{expr.name}")))
            elif isinstance(expr, Vector):
                vectors.append((place, tuple(self._entry(item) for item in expr.items)))
            else:
                raise ValueError(
                    f"rule {self._rule.name}: {attr.name} on the left-hand side is a value or a variable"
                )
        args = tuple(self._named(a.name) if isinstance(a, Var) else self._compiled(a) for a in term.args)
        return _Application(term.op, len(args), tuple(fixed), tuple(bound), tuple(vectors), args)

    def _entry(self, item: Any) -> Any:
        if isinstance(item, AttrVar):
            return self._named(f"@{item.name}")
        if isinstance(item, Literal):
            return item.value
        raise ValueError(f"rule {self._rule.name}: an entry on the left-hand side is a value or a variable")

    def _named(self, name: str) -> str:
        self._names[name] = None
        return name


def _depth(term: Term) -> int:
    return 1 + max((_depth(a) for a in term.args), default=0) if isinstance(term, App) else 0


def _walk(
    term: _Application,
    node: int,
    kinds: Sequence[Kind],
    inputs: Mapping[int, tuple[int, ...]],
    bindings: Bindings,
    inner: list[int],
) -> bool:
    kind, operands = kinds[node], inputs[node]
    if kind.op != term.op or len(operands) != term.arity:
        return False
    attrs = kind.attrs
    for place, value in term.fixed:
        if attrs[place] != value:
            return False
    for place, name in term.bound:
        if bindings.setdefault(name, attrs[place]) != attrs[place]:
            return False
    for place, entries in term.vectors:
        values: Any = attrs[place]
        if len(values) != len(entries):
            return False
        for entry, value in zip(entries, values, strict=True):
            wanted = bindings.setdefault(entry, value) if isinstance(entry, str) else entry
            if wanted != value:
                return False
    inner.append(node)
    for arg, operand in zip(term.args, operands, strict=True):
        if isinstance(arg, str):
            if bindings.setdefault(arg, operand) != operand:
                return False
        elif not _walk(arg, operand, kinds, inputs, bindings, inner):
            return False
    return True


def starred(rule: Rule) -> tuple[str, ...]:
    """Return the starred variables of an ``each`` rule."""
    found = (t.name for t in subterms(rule.sources[0]) if isinstance(t, Var) and t.starred)
    return tuple(dict.fromkeys(found))
