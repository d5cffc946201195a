"""Laws from equations: attributes that were fixed while terms were enumerated become variables.

An equation gives several laws, the most general first; a verification shows which of them hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from workbench.laws.matching import depth
from workbench.laws.synthesis.enumeration import Equation, operators_in
from workbench.laws.synthesis.naming import fresh_names
from workbench.ops import Trait, spec_of, with_trait
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    IntExpr,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    applications,
    subterms,
    tensor_variables,
)

#: An operator with at least this many attributes gets one variable for all of them.
ROW: Final = 3
#: Kinds of attributes that a variable may stand for.
VARIABLE: Final = ("int", "perm", "act", "float", "word")
#: Attributes that are positions along an axis, or the step between them.
SPAN: Final = ("start", "stop", "step")
#: The most laws tried for one equation.
MOST: Final = 24
#: The most ways in which occurrences of variables on the two sides are paired.
PAIRINGS: Final = 6
#: Letters for attribute variables by kind; the first free one is taken.
_LETTERS: Final[Mapping[str, str]] = {"int": "abdefg", "perm": "pq", "act": "kl", "float": "st", "word": "uv"}
#: Letters for extents in shapes.
_EXTENTS: Final = "nmhvijk"
#: Letters for rows.
_ROWS: Final = "cd"


@dataclass(frozen=True, slots=True)
class Choice:
    """The attributes that become variables.

    ``rows`` of attributes do, but for those ``pinned``; ``axes``, ``shapes`` and ``others`` do. An axis may
    be ``carried`` by a transposition. ``relation`` is the condition on variables for different axes, if any.
    With ``spans``, all positions along an axis become one row instead of extents of operands.
    """

    rows: bool = True
    pinned: frozenset[str] = frozenset()
    axes: bool = True
    others: bool = True
    shapes: bool = True
    carried: bool = True
    relation: str = ""
    spans: bool = False


#: No attribute becomes a variable.
LITERAL: Final = Choice(False, frozenset(), False, False, False)


def oriented(equation: Equation) -> tuple[App, Term]:
    """Return the sides in the order of a rule: the left one binds all variables and is not the smaller one.

    Of two sides that could be the left one, the one with more operators is, then the one that is deeper.
    """
    return next(_orders(equation))


def _orders(equation: Equation) -> Iterator[tuple[App, Term]]:
    """Yield the orders of the sides in which the left one binds all variables, the preferred one first."""
    sides = sorted((equation.left, equation.right), key=lambda t: (operators_in(t), depth(t)), reverse=True)
    for source, target in (sides, sides[::-1]):
        if isinstance(source, App) and {*tensor_variables(target)} <= {*tensor_variables(source)}:
            yield source, target


@dataclass(frozen=True, slots=True)
class Variants:
    """The laws of which an equation may be an instance, general ones first, and their variables' shapes.

    The equation itself is among them, the last one if it has rows; none is, if neither side binds all
    variables. A law may need conditions of its own: ``guards``. ``pins`` are the attributes of rows;
    ``pinned`` makes the law in which some of them keep their values.
    """

    laws: tuple[Rule, ...]
    shapes: Mapping[str, Sequence[str]]
    guards: Mapping[Rule, tuple[Compare, ...]] = field(default_factory=dict)
    pins: tuple[str, ...] = ()
    pinned: Callable[[frozenset[str]], Rule | None] = lambda kept: None


def variants_of(
    equation: Equation, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Variants:
    """Return the laws of which an equation under ``sizes`` may be an instance, the most general first."""
    if next(_orders(equation), None) is None:
        return Variants((), shapes)  # each side has a variable that the other one lacks
    found: dict[Rule, tuple[Compare, ...]] = {}
    linear = list(_linear(equation, shapes))
    every = {n: shape for one, known in linear for n, shape in known.items()} | dict(shapes)
    for choice in choices((equation.left, equation.right)):
        for one in [e for e, _ in linear] + [equation]:
            made = [
                law_and_guards([source], [target], choice, expressions, every, sizes)
                for source, target in _orders(one)
                for expressions in ([{}] if choice.spans else _sized(source, target, every, sizes))
            ]
            # Of both orders of the sides, the one in which more attributes are variables comes first.
            for law, guards, _ in sorted(made, key=lambda one: one[2]):
                if law is not None:
                    found.setdefault(law, guards)
        if len(found) >= MOST - 1:
            break
    source, target = oriented(linear[0][0] if linear else equation)

    def pinned(kept: frozenset[str]) -> Rule | None:
        return law_and_guards([source], [target], Choice(pinned=kept, axes=False), {})[0]

    own, other = oriented(equation)
    literal = law_and_guards([own], [other], LITERAL, {})[0]
    assert literal is not None
    listed = list(found)[: MOST - 1]
    if literal not in listed:
        listed.append(literal)
    rows = tuple(_row_attributes((equation.left, equation.right)))
    return Variants(tuple(listed), every, found, rows, pinned)


def _linear(
    equation: Equation, shapes: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Equation, dict[str, Sequence[str]]]]:
    """Yield the equation with a variable for every occurrence, for each pairing of those on both sides.

    A grammar of few variables thus gives laws of many. With more than :data:`PAIRINGS` pairings there is none.
    """
    left, right = _occurrences(equation.left), _occurrences(equation.right)
    if sorted(left) != sorted(right) or len({*left}) == len(left):
        return
    names = list(dict.fromkeys(left))
    places = [[i for i, v in enumerate(right) if v == name] for name in names]
    if math.prod(math.factorial(len(p)) for p in places) > PAIRINGS:
        return
    fresh = [f"{v}_{left[:i].count(v)}" for i, v in enumerate(left)]
    known = {new: shapes[old] for new, old in zip(fresh, left, strict=True)}
    for orders in itertools.product(*(itertools.permutations(p) for p in places)):
        again = [""] * len(right)
        for name, order in zip(names, orders, strict=True):
            own = [new for new, old in zip(fresh, left, strict=True) if old == name]
            for place, new in zip(order, own, strict=True):
                again[place] = new
        sides = _renamed(equation.left, iter(fresh)), _renamed(equation.right, iter(again))
        yield Equation(*sides, equation.size), known


def repeats(law: Rule) -> bool:
    """Return whether both sides of a law repeat a variable.

    >>> from workbench.rules import parse_rule
    >>> laws = "add(x, x) => mul(x, x)", "relu(relu(x)) => relu(x)"
    >>> [repeats(parse_rule(f"law: {text}")[0]) for text in laws]
    [True, False]
    """
    sides = map(_occurrences, (law.sources[0], law.targets[0]))
    return all(len({*names}) < len(names) for names in sides)


def _occurrences(term: Term) -> list[str]:
    return [t.name for t in subterms(term) if isinstance(t, Var)]


def _renamed(term: Term, names: Iterator[str]) -> Term:
    if isinstance(term, Var):
        return Var(next(names))
    return App(term.op, tuple(_renamed(a, names) for a in term.args), term.attrs, term.row)


def _row_attributes(sides: Sequence[Term]) -> dict[str, str]:
    """Return the attributes that one variable may stand for, each with its kind."""
    terms = filter(_has_row, applications(*sides))
    return {a.name: a.kind for t in terms for a in spec_of(t.op).attrs}


def _has_row(term: App) -> bool:
    names = spec_of(term.op).attr_names
    return len(names) >= ROW and bool(term.attrs) and "axis" not in names


def choices(sides: Sequence[Term]) -> Iterator[Choice]:
    """Yield the choices, the most general first: all attributes vary, then some are kept."""
    spans = any(n in SPAN for t in applications(*sides) for n, _ in t.attrs)
    for joined in (True, False) if spans else (False,):
        for relation in ("", "!=", "<"):
            yield Choice(spans=joined, relation=relation)
    for name, kind in _row_attributes(sides).items():
        if kind in ("act", "int", "word"):
            yield Choice(pinned=frozenset((name,)))
    yield Choice(carried=False)
    yield Choice(others=False)
    yield Choice(axes=False)
    yield Choice(axes=False, others=False)


# -- sizes ------------------------------------------------------------------------------------------
#: By the place of an application in its side and the name of an attribute: the expression for a size.
Sizes = dict[tuple[App, str], IntExpr]


def _sized(
    source: App, target: Term, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[Sizes]:
    """Yield expressions for positions along an axis: extents of variables, or sums of two of them."""
    extents = list(extents_of(tensor_variables(source, target), shapes, sizes))

    def expressions(value: int, axis: int) -> list[IntExpr | None]:
        known = [(n, d) for n, d in extents if d.axis == axis]
        pairs = [*itertools.combinations(known, 2), *((k, k) for k in known)]
        double = (Arith("+", a, b) for (n, a), (m, b) in pairs if n + m == value)
        return [*(e for n, e in known if n == value), *double, None]

    options: dict[tuple[App, str], list[IntExpr | None]] = {}
    for term in applications(source, target):
        given = {n: e.value for n, e in term.attrs if isinstance(e, Literal)}
        axis = given.get("axis")
        for name in SPAN[:2]:
            value = given.get(name)
            if isinstance(value, int) and isinstance(axis, int) and value > 0:
                options[term, name] = expressions(value, axis)
    for chosen in itertools.islice(itertools.product(*options.values()), 8):
        yield {place: expr for place, expr in zip(options, chosen, strict=True) if expr is not None}


# -- the law ----------------------------------------------------------------------------------------
def law_and_guards(
    sources: Sequence[App],
    targets: Sequence[Term],
    choice: Choice,
    sizes: Sizes,
    shapes: Mapping[str, Sequence[str]] = MappingProxyType({}),
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Rule | None, tuple[Compare, ...], int]:
    """Return the law of a choice, or None if the choice makes no difference, and conditions it may need.

    The law has no name yet: it is called ``candidate``. The third part is the number of attributes that stay
    fixed because the left-hand side does not bind them.

    Args:
        sources: The left-hand side, with numbers as attributes.
        targets: The right-hand side.
        choice: Which attributes become variables.
        sizes: The expressions for positions along an axis.
        shapes: The names of the variables' extents, by variable: with them, and with ``numbers``, those in the
            attribute ``shape`` of an operator become extents of variables.
        numbers: The extents, by name.
    """
    variables = [v for v in tensor_variables(*sources) if v in shapes]
    naming = _Naming(choice, sizes, list(extents_of(variables, shapes, numbers)))
    left = [naming.term(s, bind=True) for s in sources]
    right = tuple(naming.term(t, bind=False) for t in targets)
    if choice.relation and not naming.different():
        return None, (), 0
    conditions = [*naming.conditions, *(naming.different() if choice.relation else ())]
    law = Rule("candidate", tuple(s for s in left if isinstance(s, App)), right, tuple(conditions))
    if not naming.items:
        return law, (), naming.fixed
    extents = list(extents_of(tensor_variables(*law.sources), shapes, numbers))
    guards = (*bound_extents(naming.items, extents), *ranks(law, shapes))
    return law, guards, naming.fixed


class _Naming:
    """The variables of one law: one for each value of an attribute, or row of values of an operator."""

    def __init__(self, choice: Choice, sizes: Sizes, extents: Sequence[tuple[int, IntExpr]] = ()) -> None:
        self.choice, self.sizes, self.extents = choice, sizes, extents
        #: Variables in shapes, each with its number in the equation.
        self.items: dict[str, int] = {}
        #: Attributes that would be variables if the left-hand side bound them.
        self.fixed = 0
        self.rows: dict[Any, str] = {}
        self.values: dict[tuple[str, Any], str] = {}
        self.conditions: list[Compare] = []

    def term(self, term: Term, *, bind: bool) -> Term:
        """Return a term with variables; on the left-hand side new ones may appear."""
        if isinstance(term, Var):
            return term
        args = tuple(self.term(a, bind=bind) for a in term.args)
        spans = self.choice.spans and set(SPAN) <= set(spec_of(term.op).attr_names)
        if spans or (self.choice.rows and _has_row(term)):
            return self._with_row(term, args, bind)
        return App(term.op, args, tuple((n, self._value(term, n, e, bind)) for n, e in term.attrs))

    def _with_row(self, term: App, args: tuple[Term, ...], bind: bool) -> App:
        spec = spec_of(term.op)
        values = spec.unpack(spec.pack({n: e.value for n, e in term.attrs if isinstance(e, Literal)}))
        names = [n for n in spec.attr_names if n in self.choice.pinned or n == "axis"]
        kept = tuple((n, self._value(term, n, Literal(values[n]), bind)) for n in names)
        key = (term.op, tuple(v for n, v in values.items() if n not in names))
        if not key[1]:
            return App(term.op, args, kept)
        row = self._name(self.rows, key, _ROWS, bind)
        if row is None:
            return App(term.op, args, term.attrs)
        return App(term.op, args, kept, row)

    def _value(self, term: App, name: str, expr: AttrExpr, bind: bool) -> AttrExpr:
        if not isinstance(expr, Literal) or name in self.choice.pinned:
            return expr
        kind = next(a.kind for a in spec_of(term.op).attrs if a.name == name)
        if kind == "shape":
            return self._shape(expr, bind) if self.choice.shapes else expr
        size = self.sizes.get((term, name))
        if size is not None:
            size = self._at_axis(size, term, bind)
            if not bind:
                return size
            variable = self._name(self.values, (name, str(size)), _LETTERS["int"], bind)
            assert variable is not None
            condition = Compare("=", AttrVar(variable), size)
            if condition not in self.conditions:
                self.conditions.append(condition)
            return AttrVar(variable)
        wanted = self.choice.axes if name == "axis" else self.choice.others
        new = (kind, expr.value) not in self.values
        if new and not bind and wanted and self.choice.carried and kind == "int":
            carried = self._carried(expr.value)
            if carried is not None:
                return carried
        if not wanted or kind not in VARIABLE or name in SPAN:
            return expr
        variable = self._name(self.values, (kind, expr.value), _LETTERS[kind], bind)
        return expr if variable is None else AttrVar(variable)

    def _shape(self, expr: Literal, bind: bool) -> AttrExpr:
        """Return a shape in which numbers above 1 are variables, or expressions of known variables."""
        found: list[IntExpr] = []
        assert isinstance(expr.value, tuple)
        for value in expr.value:
            if bind and value > 1:
                name = self._name(self.values, ("extent", value), _EXTENTS, bind)
                assert name is not None
                self.items[name] = value
                found.append(AttrVar(name))
                continue
            bound = [(v, AttrVar(n)) for (_, v), n in self.values.items() if isinstance(v, int) and v > 0]
            item = Literal(1) if value == 1 else expression(value, [*bound, *self.extents])
            if item is None:
                self.fixed += 1
                return expr
            found.append(item)
        return Vector(tuple(found))

    def different(self) -> list[Compare]:
        """Return the conditions that variables for different axes are related as these axes are."""
        axes = sorted(
            (v, n) for (kind, v), n in self.values.items() if kind == "int" and isinstance(v, int) and v < 0
        )
        names = [AttrVar(name) for _, name in axes]
        return [Compare(self.choice.relation, x, y) for x, y in itertools.combinations(names, 2)]

    def _carried(self, axis: Any) -> IntExpr | None:
        """Return this axis as the one that a transposition brings to a bound axis, or None."""
        perms, numbers = ([k for k in self.values if k[0] == kind] for kind in ("perm", "int"))
        for p, a in itertools.product(perms, numbers):
            perm, bound = p[1], a[1]
            if bound != axis and -len(perm) <= bound < 0 and perm[bound] - len(perm) == axis:
                return Arith("axis", AttrVar(self.values[p]), AttrVar(self.values[a]))
        return None

    def _at_axis(self, size: IntExpr, term: App, bind: bool) -> IntExpr:
        """Return an extent along the axis variable of its term, if the term's axis is one."""
        given = dict(term.attrs)["axis"]
        axis = self._value(term, "axis", given, bind)
        if isinstance(size, DimOf):
            along = Literal(size.axis) == given
            return DimOf(size.var, axis.name) if along and isinstance(axis, AttrVar) else size
        assert isinstance(size, Arith)
        return Arith(size.operator, *(self._at_axis(side, term, bind) for side in (size.left, size.right)))

    def _name(self, known: dict[Any, str], key: Any, letters: str, bind: bool) -> str | None:
        if key not in known:
            if not bind:
                self.fixed += 1
                return None
            taken = {*self.rows.values(), *self.values.values()}
            known[key] = next(n for n in fresh_names(letters) if n not in taken)
        return known[key]


# -- extents ------------------------------------------------------------------------------------------
# Those that are numbers in an equation become extents of operands, or conditions.
def _places(names: Iterable[str], shapes: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, DimOf]]:
    """Yield the extents of variables, each with its symbol."""
    return ((shapes[n][axis], DimOf(n, axis)) for n in names for axis in range(-len(shapes[n]), 0))


def extents_of(
    names: Sequence[str], shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[tuple[int, DimOf]]:
    """Yield the extents of variables as numbers, by their symbols' ``sizes``, each with its expression."""
    for symbol, extent in _places(names, shapes):
        yield (int(symbol) if symbol.isdigit() else sizes[symbol]), extent


def expression(value: int, known: Sequence[tuple[int, IntExpr]]) -> IntExpr | None:
    """Return an expression for a number: a known one, 1, or a product or quotient of two known ones.

    >>> from workbench.rules.pattern import AttrVar, DimOf
    >>> known = [(2, AttrVar("g")), (3, DimOf("x", -1)), (12, DimOf("x", -2))]
    >>> [str(expression(n, known) is not None) for n in (3, 1, 6, 4, 5)]
    ['True', 'True', 'True', 'True', 'False']
    """
    for number, expr in known:
        if number == value:
            return expr
    if value == 1:
        return Literal(1)
    for (n, a), (m, b) in itertools.combinations(known, 2):
        if n * m == value:
            return Arith("*", a, b)
    for (n, a), (m, b) in itertools.permutations(known, 2):
        if m > 1 and n == value * m:
            return Arith("//", a, b)
    return None


def fixed_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents are numbers if the grammar has numbers there, and numbers scalars."""
    names = tensor_variables(*law.sources)
    scalars = [Compare("=", RankOf(v), Literal(0)) for v in names if not shapes[v]]
    numbers = (Compare("=", d, Literal(int(s))) for s, d in _places(names, shapes) if s.isdigit())
    return (*scalars, *numbers)


def ranks(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that the operands of a law have the ranks that they have in the grammar."""
    names = tensor_variables(*law.sources)
    return tuple(Compare("=", RankOf(name), Literal(len(shapes[name]))) for name in names)


def bound_extents(items: Mapping[str, int], extents: Sequence[tuple[int, DimOf]]) -> tuple[Compare, ...]:
    """Return the conditions that variables in shapes are extents of operands, each with its number in the equation."""
    first = dict(reversed(extents))
    return tuple(Compare("=", AttrVar(name), first[n]) for name, n in items.items() if n in first)


def same_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that operands of one shape have equal extents, so that none broadcasts."""
    broadcasting = with_trait(Trait.BROADCASTS)
    terms = (t for t in applications(*law.sources, *law.targets) if t.op in broadcasting)
    found = (
        Compare("=", DimOf(x, axis), DimOf(y, axis))
        for term in terms
        for x, y in itertools.combinations(sorted(tensor_variables(*term.args)), 2)
        if shapes[x] == shapes[y]
        for axis in range(-len(shapes[x]), 0)
    )
    return tuple(dict.fromkeys(found))


def equal_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents with one symbol in the variables' shapes are equal."""
    alike: dict[str, list[DimOf]] = {}
    for symbol, extent in _places(tensor_variables(*law.sources), shapes):
        alike.setdefault(symbol, []).append(extent)
    pairs = (pair for known in alike.values() for pair in itertools.combinations(known, 2))
    return tuple(Compare("=", a, b) for a, b in pairs)
