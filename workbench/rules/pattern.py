"""The parts of a rewrite rule: patterns over operators, attribute expressions and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from workbench.graph.text import format_attr
from workbench.ops import AttrValue, TensorType, Trait, spec_of
from workbench.run.display import Face


@dataclass(frozen=True, slots=True)
class Literal:
    """A fixed attribute value."""

    value: AttrValue


@dataclass(frozen=True, slots=True)
class AttrVar:
    """An attribute bound on the left-hand side: an integer, a whole tuple of integers, or a dtype."""

    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A tuple of integer expressions, as in ``pads=(t, l, b, r)``."""

    items: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class DimOf:
    """The extent of a tensor variable's axis, counted from the last: ``dim(x, -1)``.

    An axis may also be an attribute variable: ``dim(x, a)``.
    """

    var: str
    axis: int | str


@dataclass(frozen=True, slots=True)
class RankOf:
    """The rank of a tensor variable: ``rank(x)``."""

    var: str


@dataclass(frozen=True, slots=True)
class DtypeOf:
    """The element type of a tensor variable, as the value of a dtype attribute: ``dtype(x)``."""

    var: str


@dataclass(frozen=True, slots=True)
class Arith:
    """An operation ``+ - * // % max min`` on integer expressions, or one with a permutation.

    ``compose`` of two permutations is the permutation that first applies the left one. ``axis`` of a
    permutation and an axis, written ``p[a]``, is the operand's axis that a transposition brings there, both
    from the last.
    """

    operator: str
    left: IntExpr
    right: IntExpr


@dataclass(frozen=True, slots=True)
class Inverse:
    """The permutation that undoes another: ``inverse(p)``."""

    perm: IntExpr


IntExpr = Literal | AttrVar | DimOf | RankOf | DtypeOf | Arith | Inverse
AttrExpr = IntExpr | Vector


@dataclass(frozen=True, slots=True)
class Compare:
    """A relation between two integer expressions, ``= != < <= > >=``, or between two element types.

    One element type is at most another if every number of it is one of the other, without rounding.
    """

    relation: str
    left: IntExpr
    right: IntExpr

    @property
    def of_dtypes(self) -> bool:
        """Return whether it compares element types."""
        return isinstance(self.left, DtypeOf) or isinstance(self.right, DtypeOf)

    @property
    def fault(self) -> str:
        """Return the fault if an element type is compared with something else, otherwise an empty text."""
        sides = (self.left, self.right)
        if not any(_names_dtype(side) for side in sides):
            return ""
        whole = all(isinstance(side, DtypeOf | AttrVar | Literal) for side in sides)
        if not whole or any(isinstance(x, Literal) and not isinstance(x.value, str) for x in sides):
            return "an element type dtype(x) compares with another, with an attribute or with a name"
        return "" if self.relation in ("=", "!=", "<=", ">=") else "element types compare by = != <= >="


def _names_dtype(expr: IntExpr) -> bool:
    if isinstance(expr, Arith):
        return _names_dtype(expr.left) or _names_dtype(expr.right)
    return isinstance(expr, DtypeOf) or (isinstance(expr, Literal) and isinstance(expr.value, str))


@dataclass(frozen=True, slots=True)
class Var:
    """Any tensor. In an ``each`` rule a starred variable differs from member to member."""

    name: str
    starred: bool = False


@dataclass(frozen=True, slots=True)
class App:
    """An application of an operator.

    ``attrs`` are the attributes named, in any order. ``row`` is a variable for all attributes that are not
    named (``conv2d[c, act=none](x, w)``). Without ``row``, on a left-hand side the attributes that are not
    named must have their defaults, and on a right-hand side they get them.
    """

    op: str
    args: tuple[Term, ...]
    attrs: tuple[tuple[str, AttrExpr], ...] = ()
    row: str | None = None


Term = Var | App


#: The parts of a run for which a rule may be meant: the whole run (``any``), or one of the others. Rules of
#: ``movement`` run before operators are merged, because a merge makes a slice for every member, which would
#: move the members apart again. Rules of ``last`` run when the others have nothing left to do.
PHASES: Final = ("any", "movement", "last")


@dataclass(frozen=True, slots=True)
class Rule(Face):
    """One law, read from left to right.

    A plain rule has one source and one target. A multi-pattern rule has several of each, which share
    variables: each source is replaced by the target in the same position. If ``each``, the one source
    matches any number k >= 2 of applications that agree on the unstarred variables and attributes. The
    target is ``slice[axis=a](merged)``, where a starred argument of the merged term means the operands of
    all members, and member i is replaced by its own part along ``a``.

    ``phase`` is one of :data:`PHASES`.

    ``constants`` are tensor variables that match only weights, ``running`` those that match only values that
    depend on an input, and ``distinct`` pairs that match only different tensors. They are not part of the
    law, which holds for any tensors; they restrict the rule to cases in which it is useful. A term that a
    ``final`` rule has rewritten stays, but no rule matches it again: the new form is better in every way.
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
    phase: str = "any"
    final: bool = False

    @property
    def multi(self) -> bool:
        """Return whether the rule matches several roots at once."""
        return len(self.sources) > 1 or self.each

    @property
    def contextual(self) -> bool:
        """Return whether one root alone is rewritten and the others, which only give context, stay."""
        pairs = zip(self.sources, self.targets, strict=True)
        return len(self.sources) > 1 and sum(s != t for s, t in pairs) == 1

    def __str__(self) -> str:
        return format_rule(self)

    def __repr__(self) -> str:
        return f"Rule {self}"


def subterms(*terms: Term) -> Iterator[Term]:
    """Yield terms and all terms inside them, operands first."""
    for term in terms:
        if isinstance(term, App):
            yield from subterms(*term.args)
        yield term


def applications(*terms: Term) -> Iterator[App]:
    """Yield the applications among terms and inside them, operands first."""
    return (t for t in subterms(*terms) if isinstance(t, App))


def operators_of(rule: Rule) -> frozenset[str]:
    """Return the names of the operators of both sides of a rule."""
    return frozenset(t.op for t in applications(*rule.sources, *rule.targets))


def tensor_variables(*terms: Term) -> list[str]:
    """Return the names of the tensor variables of terms in order of appearance."""
    return list(dict.fromkeys(t.name for t in subterms(*terms) if isinstance(t, Var)))


def names_in(*exprs: AttrExpr | Compare) -> Iterator[tuple[str, str]]:
    """Yield the variables of attribute expressions and conditions: ("attr" or "tensor", name)."""
    for expr in exprs:
        if isinstance(expr, AttrVar):
            yield "attr", expr.name
        elif isinstance(expr, Vector):
            yield from names_in(*expr.items)
        elif isinstance(expr, Arith | Compare):
            yield from names_in(expr.left, expr.right)
        elif isinstance(expr, Inverse):
            yield from names_in(expr.perm)
        elif isinstance(expr, DimOf | RankOf | DtypeOf):
            yield "tensor", expr.var
            if isinstance(expr, DimOf) and isinstance(expr.axis, str):
                yield "attr", expr.axis


def rebuilt(expr: object, part: Callable[[Any], Any]) -> object:
    """Return an expression or a condition with a function's results in place of its parts."""
    if isinstance(expr, Vector):
        return Vector(tuple(map(part, expr.items)))
    if isinstance(expr, Arith | Compare):
        return replace(expr, left=part(expr.left), right=part(expr.right))
    return Inverse(part(expr.perm)) if isinstance(expr, Inverse) else expr


def attribute_variables(*terms: Term) -> Iterator[tuple[str, str]]:
    """Yield the attribute, row and measured tensor variables of terms: (kind, name)."""
    for term in applications(*terms):
        if term.row is not None:
            yield "row", term.row
        yield from names_in(*(expr for _, expr in term.attrs))


def unbinding(source: Term) -> str:
    """Return the fault in the attributes of a left-hand side; empty if each is matched or bound."""
    for term in applications(source):
        for name, expr in term.attrs:
            for item in expr.items if isinstance(expr, Vector) else (expr,):
                if not isinstance(item, Literal | AttrVar):
                    return (
                        f"on the left-hand side an attribute must be a value or a variable, got {name}="
                        f"{format_expr(expr)} (try a condition)"
                    )
    return ""


def ungiven(terms: Sequence[Term]) -> str:
    """Return the fault of terms that leave out an attribute without a default; empty if none does."""
    for term in applications(*terms):
        if term.row is None:
            given = dict(term.attrs)
            for attr in spec_of(term.op).attrs:
                if attr.default is None and attr.name not in given:
                    return f"{term.op} needs {attr.name} (try {term.op}[{attr.name}=...])"
    return ""


def measured(condition: Compare) -> list[str]:
    """Return the tensor variables whose extents or ranks a condition compares."""
    return [name for kind, name in names_in(condition) if kind == "tensor"]


# -- writing --------------------------------------------------------------------------------------
_STRENGTH: Final = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def format_expr(expr: AttrExpr, strength: int = 0) -> str:
    """Return an attribute expression as text."""
    if isinstance(expr, Literal):
        return format_attr(expr.value)
    if isinstance(expr, AttrVar):
        return expr.name
    if isinstance(expr, DimOf):
        return f"dim({expr.var}, {expr.axis})"
    if isinstance(expr, RankOf):
        return f"rank({expr.var})"
    if isinstance(expr, DtypeOf):
        return f"dtype({expr.var})"
    if isinstance(expr, Vector):
        return "(" + ", ".join(format_expr(i) for i in expr.items) + ")"
    if isinstance(expr, Inverse):
        return f"inverse({format_expr(expr.perm)})"
    if expr.operator == "axis":
        return f"{format_expr(expr.left)}[{format_expr(expr.right)}]"
    if expr.operator not in _STRENGTH:
        return f"{expr.operator}({format_expr(expr.left)}, {format_expr(expr.right)})"
    own = _STRENGTH[expr.operator]
    text = f"{format_expr(expr.left, own)} {expr.operator} {format_expr(expr.right, own + 1)}"
    return f"({text})" if own < strength else text


def format_term(term: Term) -> str:
    """Return a term as text."""
    if isinstance(term, Var):
        return term.name + "*" * term.starred
    if Trait.NUMBER in spec_of(term.op).traits:
        given = dict(term.attrs)
        value, dtype = given.get("value"), given.get("dtype")
        if isinstance(value, Literal) and (dtype is None or isinstance(dtype, DtypeOf)):
            found = float(value.value)  # type: ignore[arg-type]
            return str(int(found)) if found.is_integer() and abs(found) < 1e15 else str(found)
    inside = [f"{name}={format_expr(expr)}" for name, expr in term.attrs]
    if term.row is not None:
        inside.append(term.row)
    attrs = f"[{', '.join(inside)}]" if inside else ""
    return f"{term.op}{attrs}({', '.join(map(format_term, term.args))})"


def format_condition(condition: Compare) -> str:
    """Return a condition as text."""
    return f"{format_expr(condition.left)} {condition.relation} {format_expr(condition.right)}"


def format_rule(rule: Rule) -> str:
    """Return a rule as a line that :func:`~workbench.rules.language.parse_rule` reads back."""
    law = " => ".join(" ; ".join(map(format_term, side)) for side in (rule.sources, rule.targets))
    restrictions = [format_condition(c) for c in rule.conditions]
    restrictions += [f"constant({name})" for name in rule.constants]
    restrictions += [f"running({name})" for name in rule.running]
    restrictions += [f"distinct({a}, {b})" for a, b in rule.distinct]
    restrictions += ["final"] * rule.final
    if restrictions:
        law += " where " + ", ".join(restrictions)
    each = "each " if rule.each else ""
    origin = f"  @ {', '.join(rule.provenance)}" if rule.provenance else ""
    return f"{rule.name}: {each}{law}{origin}"


def starred(rule: Rule) -> tuple[str, ...]:
    """Return the starred variables of an ``each`` rule."""
    found = (t.name for t in subterms(*rule.sources) if isinstance(t, Var) and t.starred)
    return tuple(dict.fromkeys(found))


def joined_axes(rule: Rule) -> dict[str, int]:
    """Return for every starred variable of an ``each`` rule the axis along which its members are joined."""
    axes: dict[str, int] = {}
    for term in applications(rule.targets[0]):
        axis = dict(term.attrs).get("axis")
        for arg in term.args:
            if isinstance(arg, Var) and arg.starred and isinstance(axis, Literal):
                axes[arg.name] = int(axis.value)  # type: ignore[arg-type]
    return axes


def off_axis(kind: TensorType, axis: int) -> tuple[str, tuple[int, ...]]:
    """Return a type up to its extent along an axis: members that are joined along it agree on the rest."""
    shape = list(kind.shape)
    if -axis <= len(shape):
        shape[axis] = 0
    return kind.dtype, tuple(shape)


def parts(kinds: Iterable[TensorType], axis: int) -> list[dict[str, int]]:
    """Return the attributes of the slices that cut members, in order, out of the merged result."""
    found: list[dict[str, int]] = []
    start = 0
    for kind in kinds:
        stop = start + kind.shape[axis]
        found.append({"axis": axis, "start": start, "stop": stop})
        start = stop
    return found


# -- renaming -------------------------------------------------------------------------------------
def canonical(
    terms: Sequence[Term], conditions: Sequence[Compare] = ()
) -> tuple[tuple[Term, ...], frozenset[Compare]]:
    """Return terms and conditions with variables renamed in order of appearance in the terms.

    Two patterns are renamings of each other exactly when their canonical forms are equal.
    """
    names: dict[tuple[str, str], str] = {}

    def name(kind: str, old: str) -> str:
        return names.setdefault((kind, old), f"{kind}{sum(k == kind for k, _ in names)}")

    found, checks = renamed(list(map(_in_order, terms)), conditions, name)
    return found, frozenset(checks)


def _in_order(term: Term) -> Term:
    """Return a term whose attributes are in the order of their names."""
    if isinstance(term, Var):
        return term
    attrs = tuple(sorted(term.attrs, key=lambda named: named[0]))
    return replace(term, args=tuple(map(_in_order, term.args)), attrs=attrs)


def renamed(
    terms: Sequence[Term], conditions: Sequence[Compare], name: Callable[[str, str], str]
) -> tuple[tuple[Term, ...], tuple[Compare, ...]]:
    """Return terms and conditions in which a variable has the name that ``name`` gives to its kind and old name."""

    def attribute(expr: Any) -> Any:
        if isinstance(expr, AttrVar):
            return AttrVar(name("attr", expr.name))
        if isinstance(expr, DimOf | RankOf | DtypeOf):
            return replace(expr, var=name("tensor", expr.var))
        return rebuilt(expr, attribute)

    def rename(term: Term) -> Term:
        if isinstance(term, Var):
            return Var(name("tensor", term.name), term.starred)
        attrs = tuple((k, attribute(v)) for k, v in term.attrs)
        row = None if term.row is None else name("row", term.row)
        return App(term.op, tuple(map(rename, term.args)), attrs, row)

    return tuple(map(rename, terms)), tuple(map(attribute, conditions))


def symmetric(rule: Rule) -> bool:
    """Return whether a rule has two sources and exchanging them is a renaming of its variables."""
    if len(rule.sources) != 2:
        return False
    forward = canonical(rule.sources, rule.conditions)
    return forward == canonical(rule.sources[::-1], rule.conditions)
