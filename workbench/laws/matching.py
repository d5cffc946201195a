"""Match a pattern in a graph: the left-hand side of a rule, compiled once, against one node after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.ops import AttrValue
from workbench.rules.interpret import Numbers, RowAttr, attributes, nearest_decimal, number_key, number_of
from workbench.rules.pattern import App, AttrVar, Literal, Rule, Term, Var, Vector, unbinding, ungiven

#: Bound names: tensor variables by name, attributes as ``@name``, attributes of a row as ``#row.name``.
Bindings = dict[str, Any]


class Applied(Protocol):
    """A node of a graph: an operator with attributes in declared order."""

    @property
    def op(self) -> str:
        """Return the operator."""

    @property
    def attrs(self) -> tuple[Any, ...]:
        """Return the attributes."""


#: The operands of every node.
Operands = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """An application in a pattern, with its attributes by their position in the operator's spec.

    ``fixed`` are (position, value), ``bound`` (position, name), ``vectors`` (position, entries): an entry is
    a name, a value, or None if it is open. ``number`` is the application itself if it is of numbers alone.
    """

    op: str
    arity: int
    fixed: tuple[tuple[int, Any], ...]
    bound: tuple[tuple[int, str], ...]
    vectors: tuple[tuple[int, tuple[Any, ...]], ...]
    args: tuple[str | Application, ...]
    number: App | None = None

    def names(self) -> Iterator[str]:
        """Yield the names that a match binds, in order of appearance, repeats included."""
        yield from (name for _, name in self.bound)
        yield from (e for _, entries in self.vectors for e in entries if isinstance(e, str))
        for arg in self.args:
            yield from (arg,) if isinstance(arg, str) else arg.names()

    def agrees(self, attrs: Sequence[Any], bindings: Bindings) -> bool:
        """Return whether a node's attributes are those of the pattern; bind the names among them."""
        for place, value in self.fixed:
            if attrs[place] != value:
                return False
        for place, name in self.bound:
            if bindings.setdefault(name, attrs[place]) != attrs[place]:
                return False
        for place, entries in self.vectors:
            values: Any = attrs[place]
            if len(values) != len(entries):
                return False
            for entry, value in zip(entries, values, strict=True):
                wanted = bindings.setdefault(entry, value) if isinstance(entry, str) else entry
                if wanted is not None and wanted != value:
                    return False
        return True


def compiled(term: App, number: Callable[[App], bool] = lambda term: False) -> Application:
    """Return a term in the form in which it is matched; attributes that a rule computes are left open.

    ``number`` says which applications are numbers, which are kept as they are.
    """
    if number(term):
        return Application(term.op, 0, (), (), (), (), term)
    fixed: list[tuple[int, Any]] = []
    bound: list[tuple[int, str]] = []
    vectors: list[tuple[int, tuple[Any, ...]]] = []
    for place, (attr, expr) in enumerate(attributes(term)):
        if isinstance(expr, RowAttr):
            bound.append((place, f"#{expr.row}.{expr.name}"))
        elif isinstance(expr, AttrVar):
            bound.append((place, f"@{expr.name}"))
        elif isinstance(expr, Literal):
            fixed.append((place, attr.check(expr.value, term.op)))
        elif isinstance(expr, Vector):
            vectors.append((place, tuple(map(_entry, expr.items))))
    args = tuple(a.name if isinstance(a, Var) else compiled(a, number) for a in term.args)
    return Application(term.op, len(args), tuple(fixed), tuple(bound), tuple(vectors), args)


def _entry(item: object) -> Any:
    if isinstance(item, AttrVar):
        return f"@{item.name}"
    return item.value if isinstance(item, Literal) else None


class Matcher:
    """A matcher of one left-hand side.

    ``op`` is the operator of its root, ``depth`` the number of nested operators, ``names`` the names that a
    match binds.
    """

    def __init__(self, rule: Rule, term: App) -> None:
        wrong = unbinding(term) or ungiven((term,))
        if wrong:
            raise ValueError(f"rule {rule.name}: {wrong}")
        self._top = compiled(term)
        self.op, self.depth = term.op, depth(term)
        self.names = tuple(dict.fromkeys(self._top.names()))

    def bind(
        self, node: int, nodes: Sequence[Applied], operands: Operands
    ) -> tuple[Bindings, tuple[int, ...]] | None:
        """Return the bindings of the match whose root is ``node``, and the nodes below it; or None."""
        bindings: Bindings = {}
        inner: list[int] = []
        if not _walk(self._top, node, nodes, operands, bindings, inner):
            return None
        return bindings, tuple(inner[1:])


def depth(term: Term) -> int:
    """Return the number of nested operators of a term."""
    return 1 + max(map(depth, term.args), default=0) if isinstance(term, App) else 0


def _walk(
    term: Application,
    node: int,
    nodes: Sequence[Applied],
    operands: Operands,
    bindings: Bindings,
    inner: list[int],
) -> bool:
    applied, inputs = nodes[node], operands[node]
    if applied.op != term.op or len(inputs) != term.arity:
        return False
    if not term.agrees(applied.attrs, bindings):
        return False
    inner.append(node)
    for arg, operand in zip(term.args, inputs, strict=True):
        if isinstance(arg, str):
            if bindings.setdefault(arg, operand) != operand:
                return False
        elif not _walk(arg, operand, nodes, operands, bindings, inner):
            return False
    return True


class Search:
    """A search for matches among sets of equal terms; a subclass has the terms.

    ``patience`` is the number of terms that may still be compared; after that nothing matches. ``numbers`` are the sets
    of terms whose elements are all one number.
    """

    patience = 0
    numbers: Mapping[int, float]

    def _terms(self, place: int, op: str) -> Sequence[int]:
        """Return the terms of an operator in a set of equal terms."""
        raise NotImplementedError

    def _term(self, term: int) -> tuple[Sequence[Any], Sequence[int]]:
        """Return the attributes of a term, and its operands."""
        raise NotImplementedError

    def _find(self, term: int) -> int:
        """Return the set of terms that are equal to a term, or to those of a set."""
        return term

    def matches(
        self, pattern: Application, place: int, bindings: Bindings
    ) -> Iterator[tuple[Bindings, tuple[int, ...]]]:
        """Yield the bindings with which a pattern matches a set of equal terms, and the terms on the way."""
        if pattern.number is not None:
            yield from self._number(pattern.number, place, bindings)
            return
        for term in self._terms(place, pattern.op):
            yield from self.match(pattern, term, bindings)

    def match(
        self, pattern: Application, term: int, bindings: Bindings
    ) -> Iterator[tuple[Bindings, tuple[int, ...]]]:
        """Yield the bindings with which a pattern matches a term, and the terms on the way."""
        self.patience -= 1
        if self.patience < 0:
            return
        attrs, operands = self._term(term)
        if len(operands) == pattern.arity and pattern.agrees(attrs, bound := dict(bindings)):
            yield from self._operands(pattern.args, operands, bound, (term,))

    def _operands(
        self,
        patterns: Sequence[str | Application],
        operands: Sequence[int],
        bindings: Bindings,
        used: tuple[int, ...],
    ) -> Iterator[tuple[Bindings, tuple[int, ...]]]:
        if not patterns:
            yield bindings, used
            return
        pattern, place = patterns[0], self._find(operands[0])
        if isinstance(pattern, Application):
            for bound, more in self.matches(pattern, place, bindings):
                yield from self._operands(patterns[1:], operands[1:], bound, (*used, *more))
        elif pattern not in bindings:
            yield from self._operands(patterns[1:], operands[1:], {**bindings, pattern: place}, used)
        elif self._find(bindings[pattern]) == place:
            yield from self._operands(patterns[1:], operands[1:], bindings, used)

    def _number(
        self, term: App, place: int, bindings: Bindings
    ) -> Iterator[tuple[Bindings, tuple[int, ...]]]:
        known = self.numbers.get(place)
        if known is None:
            return
        found, given = dict(bindings), dict(term.attrs).get("value")
        if isinstance(given, AttrVar) and found.setdefault(f"@{given.name}", known) != known:
            return
        try:
            number = number_of(term, found)
        except (ValueError, TypeError, AssertionError, KeyError):
            return
        if nearest_decimal(number) == nearest_decimal(known):
            # The tensor that the number stands for is bound too, so that the left-hand side can be read again.
            yield {**found, number_key(term): place}, ()


class Matched(Numbers):
    """The algebra of the attributes that a match binds; a subclass gives the types of tensors."""

    def __init__(self, bindings: Mapping[str, Any]) -> None:
        self.bindings = bindings

    def attribute(self, name: str) -> AttrValue:
        return self.bindings[f"@{name}"]

    def of_row(self, row: str, name: str) -> AttrValue | None:
        return self.bindings.get(f"#{row}.{name}")
