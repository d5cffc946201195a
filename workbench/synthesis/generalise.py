"""Laws from equations: attributes that were fixed while terms were enumerated become variables.

An equation gives several laws, the most general first; a verification tells which of them hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.ops import spec_of
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    IntExpr,
    Literal,
    Rule,
    Term,
    Var,
    subterms,
    tensor_variables,
)
from workbench.synthesis.candidates import operators_in
from workbench.synthesis.enumeration import Equation

#: An operator with at least this many attributes gets one variable for all of them.
ROW: Final = 3
#: Kinds of attributes that a variable may stand for.
VARIABLE: Final = ("int", "perm", "act", "float", "word")
#: The most laws tried for one equation.
MOST: Final = 12
#: Letters for attribute variables by kind; the first free one is taken.
_LETTERS: Final[Mapping[str, str]] = {"int": "abdefg", "perm": "pq", "act": "kl", "float": "st", "word": "uv"}
#: Letters for rows.
_ROWS: Final = "cd"


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is generalised: which rows keep which attributes, whether axes and other values
    vary, and whether an axis may be the one that a transposition brings there."""

    rows: bool = True
    pinned: frozenset[str] = frozenset()
    axes: bool = True
    others: bool = True
    carried: bool = True


def oriented(equation: Equation) -> tuple[App, Term]:
    """Return the sides in the order of a rule: the left one binds all variables and is not the smaller one.

    Of two sides that could be the left one, the one with more operators is, then the one that is deeper.
    """

    def sort(term: Term) -> tuple[int, int]:
        return operators_in(term), _depth(term)

    left, right = equation.left, equation.right
    names = {*tensor_variables(left)}, {*tensor_variables(right)}
    swap = sort(right) > sort(left)
    if not names[0] >= names[1] or isinstance(left, Var):
        swap = True
    elif not names[1] >= names[0] or isinstance(right, Var):
        swap = False
    source, target = (right, left) if swap else (left, right)
    assert isinstance(source, App)
    return source, target


def _depth(term: Term) -> int:
    return 0 if isinstance(term, Var) else 1 + max((_depth(a) for a in term.args), default=0)


def laws_of(
    equation: Equation, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int], name: str
) -> list[Rule]:
    """Return the laws that an equation may be an instance of, the most general first, itself last.

    Args:
        equation: The equation.
        shapes: The symbolic shapes of the variables.
        sizes: The assignment of numbers to extents under which the attributes of the equation stand.
        name: The name of the laws.
    """
    source, target = oriented(equation)
    found: dict[Rule, None] = {}
    for choice in _choices((source, target)):
        for source_sizes in _sized(source, target, shapes, sizes):
            law = _law(name, source, target, choice, source_sizes)
            if law is not None:
                found.setdefault(law)
        if len(found) >= MOST - 1:
            break
    literal = _law(name, source, target, _Choice(False, frozenset(), False, False), {})
    listed = list(found)[: MOST - 1]
    return listed if literal is None or literal in found else [*listed, literal]


def _choices(sides: Sequence[Term]) -> Iterator[_Choice]:
    """Yield the choices, the most general first: all attributes vary, then some names and numbers are kept."""
    attrs = {
        a.name: a.kind
        for side in sides
        for t in subterms(side)
        if isinstance(t, App) and len(spec_of(t.op).attrs) >= ROW and t.attrs
        for a in spec_of(t.op).attrs
    }
    yield _Choice()
    acts = frozenset(n for n, kind in attrs.items() if kind == "act")
    pinned = [acts, *(acts | {n} for n in attrs if n not in acts)] if attrs else []
    for kept in pinned:
        yield _Choice(pinned=kept)
    yield _Choice(carried=False)
    yield _Choice(others=False)
    yield _Choice(axes=False)
    if attrs:
        yield _Choice(rows=False)
    yield _Choice(axes=False, others=False)


# -- sizes ------------------------------------------------------------------------------------------
#: By the place of an application in its side and the name of an attribute: the expression for a size.
_Sizes = dict[tuple[App, str], IntExpr]


def _sized(
    source: App, target: Term, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[_Sizes]:
    """Yield expressions for positions along an axis: extents of variables, or sums of two of them."""
    places: list[tuple[App, str, int, int]] = []
    for side in (source, target):
        for term in subterms(side):
            if isinstance(term, App):
                given = {n: e.value for n, e in term.attrs if isinstance(e, Literal)}
                axis = given.get("axis")
                for attr in spec_of(term.op).attrs:
                    value = given.get(attr.name)
                    if attr.name in ("start", "stop") and isinstance(value, int) and value > 0:
                        if isinstance(axis, int):
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
def _law(name: str, source: App, target: Term, choice: _Choice, sizes: _Sizes) -> Rule | None:
    """Return the law of a choice, or None if its left-hand side does not bind all variables."""
    naming = _Naming(choice, sizes)
    left = naming.term(source, bind=True)
    right = naming.term(target, bind=False)
    assert isinstance(left, App)
    if not naming.bound:
        return None
    return Rule(name, (left,), (right,), tuple(naming.conditions))


class _Naming:
    """The variables of one law: one for each value of an attribute, or row of values of an operator."""

    def __init__(self, choice: _Choice, sizes: _Sizes) -> None:
        self.choice, self.sizes = choice, sizes
        self.rows: dict[Any, str] = {}
        self.values: dict[tuple[str, Any], str] = {}
        self.conditions: list[Compare] = []
        self.bound = True

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

    def _with_row(
        self, term: App, args: tuple[Term, ...], given: Mapping[str, AttrExpr], bind: bool
    ) -> App:
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
        if not bind and wanted and self.choice.carried and kind == "int" and (kind, expr.value) not in self.values:
            carried = self._carried(expr.value)
            if carried is not None:
                return carried
        if not wanted or kind not in VARIABLE or name in ("start", "stop", "step"):
            return expr
        variable = self._name(self.values, (kind, expr.value), _LETTERS[kind], bind)
        return expr if variable is None else AttrVar(variable)

    def _carried(self, axis: Any) -> IntExpr | None:
        """Return the axis that a transposition of the left-hand side brings to a bound axis, if it is this one."""
        for kind, perm in self.values:
            if kind != "perm":
                continue
            for other, bound in self.values:
                if other == "int" and bound != axis and -len(perm) <= bound < 0:
                    if perm[bound] - len(perm) == axis:
                        p, a = self.values[kind, perm], self.values[other, bound]
                        return Arith("axis", AttrVar(p), AttrVar(a))
        return None

    def _at_axis(self, size: IntExpr, term: App, bind: bool) -> IntExpr:
        """Return an extent along the axis variable of its term, if the term's axis is one."""
        axis = self._value(term, "axis", dict(term.attrs)["axis"], bind)
        if isinstance(size, DimOf):
            return DimOf(size.var, axis.name) if isinstance(axis, AttrVar) else size
        assert isinstance(size, Arith)
        return Arith(size.operator, self._at_axis(size.left, term, bind), self._at_axis(size.right, term, bind))

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


