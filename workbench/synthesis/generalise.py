"""Laws from equations: attributes that were fixed while terms were enumerated become variables.

An equation gives several laws, the most general first; a verification tells which of them hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from workbench.ops import Trait, spec_of, with_trait
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    IntExpr,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    subterms,
    tensor_variables,
)
from workbench.synthesis.candidates import operators_in
from workbench.synthesis.enumeration import Equation
from workbench.synthesis.grammar import KINDS

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
_LETTERS: Final[Mapping[str, str]] = {
    "int": "abdefg",
    "perm": "pq",
    "act": "kl",
    "float": "st",
    "word": "uv",
    "span": "ij",
}
#: Letters for rows.
_ROWS: Final = "cd"
#: Letters for tensors, and for kernels of convolutions.
_TENSORS: Final = "xyzuvwrq"
_KERNELS: Final = "wvkl"


@dataclass(frozen=True, slots=True)
class Choice:
    """The attributes that become variables.

    ``rows`` of attributes do, but for those ``pinned``; ``axes`` and ``others`` do. An axis may be
    ``carried`` by a transposition. Variables for different axes may have to be ``different``.
    With ``spans``, positions along an axis become variables instead of extents of operands.
    """

    rows: bool = True
    pinned: frozenset[str] = frozenset()
    axes: bool = True
    others: bool = True
    carried: bool = True
    different: bool = False
    spans: bool = False


#: No attribute becomes a variable.
LITERAL: Final = Choice(False, frozenset(), False, False)


def oriented(equation: Equation) -> tuple[App, Term]:
    """Return the sides in the order of a rule: the left one binds all variables and is not the smaller one.

    Of two sides that could be the left one, the one with more operators is, then the one that is deeper.
    """
    return next(_orders(equation))


def _orders(equation: Equation) -> Iterator[tuple[App, Term]]:
    """Yield the orders of the sides in which the left one binds all variables, the preferred one first."""
    sides = sorted((equation.left, equation.right), key=lambda t: (operators_in(t), _depth(t)), reverse=True)
    if (operators_in(sides[0]), _depth(sides[0])) == (operators_in(sides[1]), _depth(sides[1])):
        sides = [equation.left, equation.right]
    for source, target in (sides, sides[::-1]):
        if isinstance(source, App) and {*tensor_variables(target)} <= {*tensor_variables(source)}:
            yield source, target


def _depth(term: Term) -> int:
    return 0 if isinstance(term, Var) else 1 + max((_depth(a) for a in term.args), default=0)


@dataclass(frozen=True, slots=True)
class Variants:
    """The laws of which an equation may be an instance, general ones first, and their variables' shapes."""

    laws: tuple[Rule, ...]
    shapes: Mapping[str, Sequence[str]]


def variants_of(
    equation: Equation, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int], name: str = "candidate"
) -> Variants:
    """Return the laws that an equation may be an instance of, the most general first, itself included.

    Args:
        equation: The equation.
        shapes: The symbolic shapes of the variables.
        sizes: The assignment of numbers to extents under which the attributes of the equation stand.
        name: The name of the laws.
    """
    found: dict[Rule, None] = {}
    linear = list(_linear(equation, shapes))
    every = {n: shape for one, known in linear for n, shape in known.items()} | dict(shapes)
    for choice in choices((equation.left, equation.right)):
        for one in [e for e, _ in linear] + [equation]:
            for source, target in _orders(one):
                for expressions in [{}] if choice.spans else _sized(source, target, every, sizes):
                    law = law_of(name, [source], [target], choice, expressions)
                    if law is not None:
                        found.setdefault(law)
        if len(found) >= MOST - 1:
            break
    source, target = oriented(equation)
    literal = law_of(name, [source], [target], LITERAL, {})
    listed = list(found)[: MOST - 1]
    if literal is not None and literal not in listed:
        listed.append(literal)
    return Variants(tuple(listed), every)


def _linear(
    equation: Equation, shapes: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Equation, dict[str, Sequence[str]]]]:
    """Yield the equation with more variables: occurrences of one are told apart, alike on both sides.

    A grammar of few variables thus gives laws of many. Each pairing of the occurrences on the two sides is
    one such equation; with more than :data:`PAIRINGS` there is none.
    """
    left, right = list(_occurrences(equation.left)), list(_occurrences(equation.right))
    if sorted(left) != sorted(right) or len({*left}) == len(left):
        return
    names = list(dict.fromkeys(left))
    places = [[i for i, v in enumerate(right) if v == name] for name in names]
    if math.prod(math.factorial(len(p)) for p in places) > PAIRINGS:
        return
    fresh = [f"{v}_{left[:i].count(v)}" for i, v in enumerate(left)]
    known = {new: shapes[old] for new, old in zip(fresh, left, strict=True)}
    for orders in itertools.product(*(itertools.permutations(p) for p in places)):
        renamed = [""] * len(right)
        for name, order in zip(names, orders, strict=True):
            own = [new for new, old in zip(fresh, left, strict=True) if old == name]
            for place, new in zip(order, own, strict=True):
                renamed[place] = new
        sides = _renamed(equation.left, iter(fresh)), _renamed(equation.right, iter(renamed))
        yield Equation(*sides, equation.size), known


def repeats(law: Rule) -> bool:
    """Return whether both sides of a law repeat a variable.

    >>> from workbench.rules import parse_rule
    >>> laws = "add(x, x) => mul(x, x)", "relu(relu(x)) => relu(x)"
    >>> [repeats(parse_rule(f"law: {text}")[0]) for text in laws]
    [True, False]
    """
    sides = [list(_occurrences(t)) for t in (law.sources[0], law.targets[0])]
    return all(len({*names}) < len(names) for names in sides)


def _occurrences(term: Term) -> Iterator[str]:
    if isinstance(term, Var):
        yield term.name
    else:
        for arg in term.args:
            yield from _occurrences(arg)


def _renamed(term: Term, names: Iterator[str]) -> Term:
    if isinstance(term, Var):
        return Var(next(names))
    return App(term.op, tuple(_renamed(a, names) for a in term.args), term.attrs, term.row)


def tidied(rule: Rule, shapes: Mapping[str, Sequence[str]]) -> Rule:
    """Return a law with short names for its variables, in order of appearance: w, v, … for kernels.

    >>> from workbench.rules import parse_rule
    >>> (rule,) = parse_rule("sum: add(x_0, add(x_1, x_2)) => add(add(x_0, x_1), x_2)")
    >>> print(tidied(rule, {}))
    sum: add(x, add(y, z)) => add(add(x, y), z)
    """
    kernel = tuple(KINDS["kernel"][0].split())
    names: dict[str, str] = {}
    for old in dict.fromkeys(v for t in (*rule.sources, *rule.targets) for v in tensor_variables(t)):
        letters = _KERNELS if tuple(shapes.get(old, ())) == kernel else _TENSORS
        names[old] = next(n for n in _names(letters) if n not in names.values())
    return rename_tensors(rule, names)


def rename_tensors(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Return a rule with other names for its tensor variables."""

    def expression(expr: object) -> Any:
        if isinstance(expr, DimOf | RankOf | DtypeOf):
            return replace(expr, var=names.get(expr.var, expr.var))
        if isinstance(expr, Arith):
            return Arith(expr.operator, expression(expr.left), expression(expr.right))
        if isinstance(expr, Vector):
            return Vector(tuple(map(expression, expr.items)))
        return expr

    def term(old: Term) -> Term:
        if isinstance(old, Var):
            return replace(old, name=names.get(old.name, old.name))
        attrs = tuple((n, expression(e)) for n, e in old.attrs)
        return App(old.op, tuple(map(term, old.args)), attrs, old.row)

    sources = tuple(s for s in map(term, rule.sources) if isinstance(s, App))
    conditions = tuple(Compare(c.relation, expression(c.left), expression(c.right)) for c in rule.conditions)
    return replace(rule, sources=sources, targets=tuple(map(term, rule.targets)), conditions=conditions)


def same_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that operands of one shape have equal extents, so that none broadcasts.

    Args:
        law: A law over variables of an equation.
        shapes: The symbolic shapes of the variables.
    """
    broadcasting = with_trait(Trait.BROADCASTS)
    found: dict[Compare, None] = {}
    for side in (*law.sources, *law.targets):
        for term in subterms(side):
            if isinstance(term, App) and term.op in broadcasting:
                names = sorted({v for a in term.args for v in tensor_variables(a)})
                for x, y in itertools.combinations(names, 2):
                    if shapes[x] == shapes[y]:
                        for axis in range(-len(shapes[x]), 0):
                            found.setdefault(Compare("=", DimOf(x, axis), DimOf(y, axis)))
    return tuple(found)


def equal_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents with one symbol in the variables' shapes are equal."""
    names = list(dict.fromkeys(v for s in law.sources for v in tensor_variables(s)))
    places: dict[str, list[DimOf]] = {}
    for name in names:
        for axis in range(-len(shapes[name]), 0):
            places.setdefault(shapes[name][axis], []).append(DimOf(name, axis))
    pairs = (pair for known in places.values() for pair in itertools.combinations(known, 2))
    return tuple(Compare("=", a, b) for a, b in pairs)


def choices(sides: Sequence[Term]) -> Iterator[Choice]:
    """Yield the choices, the most general first: all attributes vary, then some are kept."""
    attrs = {
        a.name: a.kind
        for side in sides
        for t in subterms(side)
        if isinstance(t, App) and len(spec_of(t.op).attrs) >= ROW and t.attrs
        for a in spec_of(t.op).attrs
    }
    if any(n in SPAN for s in sides for t in subterms(s) if isinstance(t, App) for n, _ in t.attrs):
        yield Choice(spans=True)
    yield Choice()
    yield Choice(different=True)
    single = [n for n, kind in attrs.items() if kind in ("act", "int")]
    for count in range(1, len(single) + 1):
        for kept in itertools.combinations(single, count):
            yield Choice(pinned=frozenset(kept))
    yield Choice(carried=False)
    yield Choice(others=False)
    yield Choice(axes=False)
    if attrs:
        yield Choice(rows=False)
    yield Choice(axes=False, others=False)


# -- sizes ------------------------------------------------------------------------------------------
#: By the place of an application in its side and the name of an attribute: the expression for a size.
Sizes = dict[tuple[App, str], IntExpr]


def _sized(
    source: App, target: Term, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[Sizes]:
    """Yield expressions for positions along an axis: extents of variables, or sums of two of them."""
    places: list[tuple[App, str, int, int]] = []
    for side in (source, target):
        for term in subterms(side):
            if isinstance(term, App):
                given = {n: e.value for n, e in term.attrs if isinstance(e, Literal)}
                axis = given.get("axis")
                for attr in spec_of(term.op).attrs:
                    value = given.get(attr.name)
                    if not isinstance(value, int) or not isinstance(axis, int):
                        continue
                    if attr.name in ("start", "stop") and value > 0:
                        places.append((term, attr.name, value, axis))
    places = list(dict.fromkeys(places))
    if not places:
        yield {}
        return
    names = list(dict.fromkeys([*tensor_variables(source), *tensor_variables(target)]))
    options = [_extents(value, axis, names, shapes, sizes) for _, _, value, axis in places]
    for chosen in itertools.islice(itertools.product(*options), 8):
        yield {
            (term, attr): expr
            for (term, attr, _, _), expr in zip(places, chosen, strict=True)
            if expr is not None
        }


def _extents(
    value: int, axis: int, names: Sequence[str], shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> list[IntExpr | None]:
    known: list[tuple[int, IntExpr]] = []
    for name in names:
        shape = shapes[name]
        if -axis <= len(shape):
            symbol = shape[axis]
            known.append((int(symbol) if symbol.isdigit() else sizes[symbol], DimOf(name, axis)))
    single: list[IntExpr | None] = [e for n, e in known if n == value]
    pairs = [*itertools.combinations(known, 2), *((k, k) for k in known)]
    double: list[IntExpr | None] = [Arith("+", a, b) for (n, a), (m, b) in pairs if n + m == value]
    return [*single, *double, None]


# -- the law ----------------------------------------------------------------------------------------
def law_of(
    name: str, sources: Sequence[App], targets: Sequence[Term], choice: Choice, sizes: Sizes
) -> Rule | None:
    """Return the law of a choice, or None if the choice makes no difference."""
    naming = _Naming(choice, sizes)
    left = [naming.term(s, bind=True) for s in sources]
    right = tuple(naming.term(t, bind=False) for t in targets)
    if choice.different and not naming.different():
        return None
    conditions = [*naming.conditions, *(naming.different() if choice.different else ())]
    return Rule(name, tuple(s for s in left if isinstance(s, App)), right, tuple(conditions))


class _Naming:
    """The variables of one law: one for each value of an attribute, or row of values of an operator."""

    def __init__(self, choice: Choice, sizes: Sizes) -> None:
        self.choice, self.sizes = choice, sizes
        self.rows: dict[Any, str] = {}
        self.values: dict[tuple[str, Any], str] = {}
        self.conditions: list[Compare] = []

    def term(self, term: Term, *, bind: bool) -> Term:
        """Return a term with variables; on the left-hand side new ones may appear."""
        if isinstance(term, Var):
            return term
        args = tuple(self.term(a, bind=bind) for a in term.args)
        spec = spec_of(term.op)
        given = dict(term.attrs)
        if self.choice.rows and len(spec.attrs) >= ROW and given and "axis" not in given:
            return self._with_row(term, args, given, bind)
        return App(term.op, args, tuple((n, self._value(term, n, e, bind)) for n, e in term.attrs))

    def _with_row(self, term: App, args: tuple[Term, ...], given: Mapping[str, AttrExpr], bind: bool) -> App:
        spec = spec_of(term.op)
        values = spec.unpack(spec.pack({n: e.value for n, e in given.items() if isinstance(e, Literal)}))
        kept = tuple((n, Literal(values[n])) for n in spec.attr_names if n in self.choice.pinned)
        key = (term.op, tuple(v for n, v in values.items() if n not in self.choice.pinned))
        row = self._name(self.rows, key, _ROWS, bind)
        if row is None:
            return App(term.op, args, term.attrs)
        return App(term.op, args, kept, row)

    def _value(self, term: App, name: str, expr: AttrExpr, bind: bool) -> AttrExpr:
        if not isinstance(expr, Literal):
            return expr
        kind = next(a.kind for a in spec_of(term.op).attrs if a.name == name)
        if self.choice.spans and name in SPAN:
            position = self._name(self.values, (name, expr.value), _LETTERS["span"], bind)
            return expr if position is None else AttrVar(position)
        size = self.sizes.get((term, name))
        if size is not None:
            size = self._at_axis(size, term, bind)
            if not bind:
                return size
            key = (name, str(size))
            variable = self._name(self.values, key, _LETTERS["int"], bind)
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

    def different(self) -> list[Compare]:
        """Return the conditions that variables for different axes differ."""
        axes = [name for (kind, _), name in self.values.items() if kind == "int"]
        return [Compare("!=", AttrVar(x), AttrVar(y)) for x, y in itertools.combinations(axes, 2)]

    def _carried(self, axis: Any) -> IntExpr | None:
        """Return this axis as the one that a transposition brings to a bound axis, or None."""
        for kind, perm in self.values:
            if kind != "perm":
                continue
            for other, bound in self.values:
                known = other == "int" and bound != axis and -len(perm) <= bound < 0
                if known and perm[bound] - len(perm) == axis:
                    p, a = self.values[kind, perm], self.values[other, bound]
                    return Arith("axis", AttrVar(p), AttrVar(a))
        return None

    def _at_axis(self, size: IntExpr, term: App, bind: bool) -> IntExpr:
        """Return an extent along the axis variable of its term, if the term's axis is one."""
        axis = self._value(term, "axis", dict(term.attrs)["axis"], bind)
        if isinstance(size, DimOf):
            along = Literal(size.axis) == dict(term.attrs)["axis"]
            return DimOf(size.var, axis.name) if along and isinstance(axis, AttrVar) else size
        assert isinstance(size, Arith)
        return Arith(
            size.operator, self._at_axis(size.left, term, bind), self._at_axis(size.right, term, bind)
        )

    def _name(self, known: dict[Any, str], key: Any, letters: str, bind: bool) -> str | None:
        if key not in known:
            if not bind:
                return None
            taken = {*self.rows.values(), *self.values.values()}
            known[key] = next(n for n in _names(letters) if n not in taken)
        return known[key]


def _names(letters: str) -> Iterator[str]:
    yield from letters
    for number in itertools.count(2):
        yield from (f"{letter}{number}" for letter in letters)
