"""What a rewrite rule is: patterns over operators, attribute expressions and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.face import Face
from workbench.ops import AttrValue


@dataclass(frozen=True, slots=True)
class Literal:
    """Stand for a fixed attribute value."""

    value: AttrValue


@dataclass(frozen=True, slots=True)
class AttrVar:
    """Stand for an attribute bound on the left-hand side: an integer, a whole tuple of them, a dtype."""

    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """Stand for a tuple of integer expressions, as in ``pads=(t, l, b, r)``."""

    items: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class DimOf:
    """Stand for the extent of a tensor variable's axis, counted from the last: ``dim(x, -1)``."""

    var: str
    axis: int


@dataclass(frozen=True, slots=True)
class RankOf:
    """Stand for a tensor variable's rank: ``rank(x)``."""

    var: str


@dataclass(frozen=True, slots=True)
class DtypeOf:
    """Stand for a tensor variable's element type, as the value of a dtype attribute: ``dtype(x)``."""

    var: str


@dataclass(frozen=True, slots=True)
class Arith:
    """Apply ``+ - * // % max min`` to integer expressions, or ``compose`` to two permutations."""

    operator: str
    left: IntExpr
    right: IntExpr


IntExpr = Literal | AttrVar | DimOf | RankOf | Arith
AttrExpr = IntExpr | Vector | DtypeOf


@dataclass(frozen=True, slots=True)
class Compare:
    """Require a relation between two integer expressions: ``= != < <= > >=``."""

    relation: str
    left: IntExpr
    right: IntExpr


@dataclass(frozen=True, slots=True)
class Var:
    """Stand for any tensor. In an ``each`` rule a starred variable differs from member to member."""

    name: str
    starred: bool = False


@dataclass(frozen=True, slots=True)
class App:
    """Apply an operator.

    ``attrs`` are the attributes named, in any order; ``row`` is a variable that stands for all the
    attributes not named (``conv2d[c, act=none](x, w)``). On a left-hand side without ``row`` the
    attributes not named must have their defaults; on a right-hand side they take them.
    """

    op: str
    args: tuple[Term, ...]
    attrs: tuple[tuple[str, AttrExpr], ...] = ()
    row: str | None = None


Term = Var | App


@dataclass(frozen=True, slots=True)
class Rule(Face):
    """Hold one law, read from left to right.

    One source and one target for a plain rule; several of each, sharing variables, for a
    multi-pattern rule: each source is replaced by the target in its place. With ``each`` the one
    source stands for any number k >= 2 of applications that agree on the unstarred variables and
    attributes; the target is ``slice[axis=a](merged)`` where a starred argument of the merged term
    stands for all members' operands, and member i is replaced by its own part along ``a``.

    ``constants`` are tensor variables that stand for weights only, ``running`` those that stand for what
    depends on an input, ``distinct`` pairs that stand for different tensors. That is no part of the law,
    which holds for any: it says where it is of use.
    """

    name: str
    sources: tuple[App, ...]
    targets: tuple[Term, ...]
    conditions: tuple[Compare, ...] = ()
    provenance: tuple[str, ...] = ()
    each: bool = False
    file: str = ""
    line: int = 0
    constants: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    distinct: tuple[tuple[str, str], ...] = ()

    @property
    def multi(self) -> bool:
        """Say whether the rule matches several roots at once."""
        return len(self.sources) > 1 or self.each

    @property
    def contextual(self) -> bool:
        """Say whether one root alone is rewritten and the others are context: they stay as they are."""
        pairs = zip(self.sources, self.targets, strict=True)
        return len(self.sources) > 1 and sum(s != t for s, t in pairs) == 1

    def __str__(self) -> str:
        from workbench.rules.language import format_rule

        return format_rule(self)


def subterms(term: Term) -> Iterator[Term]:
    """Yield a term and everything below it, operands first."""
    if isinstance(term, App):
        for arg in term.args:
            yield from subterms(arg)
    yield term


def tensor_variables(term: Term) -> list[str]:
    """Return the names of a term's tensor variables in order of appearance."""
    names: dict[str, None] = {}
    for sub in subterms(term):
        if isinstance(sub, Var):
            names.setdefault(sub.name)
    return list(names)


def names_in(expr: Any) -> Iterator[tuple[str, str]]:
    """Yield the variables of an attribute expression: ("attr" or "tensor", name)."""
    if isinstance(expr, AttrVar):
        yield "attr", expr.name
    elif isinstance(expr, Vector):
        for item in expr.items:
            yield from names_in(item)
    elif isinstance(expr, Arith):
        yield from names_in(expr.left)
        yield from names_in(expr.right)
    elif isinstance(expr, DimOf | RankOf | DtypeOf):
        yield "tensor", expr.var


def attribute_variables(term: Term) -> Iterator[tuple[str, str]]:
    """Yield the attribute, row and measured tensor variables of a term: (kind, name)."""
    for sub in subterms(term):
        if isinstance(sub, App):
            if sub.row is not None:
                yield "row", sub.row
            for _, expr in sub.attrs:
                yield from names_in(expr)


def measured(condition: Compare) -> list[str]:
    """Return the tensor variables whose extents or ranks a condition compares."""
    both = (*names_in(condition.left), *names_in(condition.right))
    return [name for kind, name in both if kind == "tensor"]
