"""The coordinates of a rule's instances, and the values of each that no menu has.

A menu is small, because an instance has many numbers. A wrong law may hold for every number in it and fail at
the next one. One number outside the menu is cheap if all others are small. A coordinate is therefore fixed
alone: at both sides of every literal that the rule compares it with, and at some large values.

Kinds of coordinates: ``attr`` (an attribute variable), ``row`` (an attribute of a row), ``dim``, ``rank`` and
``dtype`` (of a tensor variable), ``members`` (of an ``each`` rule).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from workbench.laws.verification.instances.typings import AXES, TRUTH, WHOLE, Coordinate, Menu
from workbench.ops import Attr, Trait, with_trait
from workbench.rules import pattern
from workbench.rules.interpret import RowAttr, attributes

if TYPE_CHECKING:
    from workbench.laws.verification.instances.spaces import Instance

#: Attributes that are sizes: unknowns, as extents are.
SIZES: Final = frozenset({"pads", "extra", "kernel", "start", "stop", "size", "channels"})
#: The number of members of an ``each`` rule.
MEMBERS: Final[Coordinate] = ("members", "", "")

#: Values of attributes by name; an attribute of several integers takes tuples.
_NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    "strides": (3, 4, 5, 7),
    "dilations": (3, 4, 5, 7),
    "groups": (4, 5, 7, 8),
    "count": (4, 5, 7),
    "block": (3, 4),
    "times": (4, 5),
    "kernel": (4, 5, 7, 11),
    "pads": (3, 5, 9),
    "extra": (2, 3),
    "step": (3, 4, 5, 7),
    "start": (6, 9, 1000),
    "stop": (7, 11, 1025),
    "size": (7, 12),
    "channels": (5, 7, 8),
}

_EXTENTS: Final = (6, 9, 17)
#: Largest extent that is tried, beyond every extent that stands for all extents in a proof.
LONG: Final = 1031
_RANKS: Final = (5, 6)
_MEMBERS: Final = (4, 5, 7)


@dataclass(frozen=True, slots=True)
class Corner:
    """Coordinates at given values, and how many instances are evaluated there; with ``spread`` most broadcast."""

    fixed: tuple[tuple[Coordinate, Any], ...]
    instances: int
    spread: bool = False

    @property
    def rank(self) -> int:
        """Return the largest rank that is given, or that an axis beyond the usual ones needs, else 0."""
        given = [value for (kind, _, _), value in self.fixed if kind == "rank"]
        numbers = (v for _, value in self.fixed for v in (value if isinstance(value, tuple) else (value,)))
        needed = [-v for v in numbers if isinstance(v, int) and v < -AXES]
        return max((*given, *needed), default=0)

    @property
    def broadcasts(self) -> bool:
        """Return whether an axis has extent 1 here, so that it may broadcast."""
        return any(kind == "dim" and value == 1 for (kind, _, _), value in self.fixed)

    def within(self, menu: Menu) -> Menu:
        """Return a menu that leads to instances at this corner."""
        ranks, axes = (self.rank,) if self.rank else menu.ranks, max(AXES, self.rank)
        return replace(menu, fixed=self.fixed, spread=self.spread, axes=axes, ranks=ranks)


#: Number of instances at an unusual value, with a broadcast axis, next to a literal, and of a case that
#: is not proved.
UNUSUAL, SPREAD, BESIDE, OPEN = 1, 3, 12, 12
#: Number of instances of each choice of more axes than menus have.
RANKED: Final = 2
_BROADCASTS: Final = with_trait(Trait.BROADCASTS)


def _corner(coordinate: Coordinate, value: Any, instances: int = UNUSUAL) -> Corner:
    return Corner(((coordinate, value),), instances)


def coordinate_of(variable: str | RowAttr) -> Coordinate:
    """Return the coordinate of an attribute."""
    return ("attr", variable, "") if isinstance(variable, str) else ("row", variable.row, variable.name)


def attribute_coordinates(rule: pattern.Rule) -> dict[Coordinate, Attr]:
    """Return the attributes that the left-hand side of a rule binds, each with its declaration."""
    found: dict[Coordinate, Attr] = {}
    for term in pattern.applications(*rule.sources):
        for attr, expr in attributes(term):
            if isinstance(expr, RowAttr):
                found.setdefault(coordinate_of(expr), attr)
            elif isinstance(expr, pattern.AttrVar):
                found.setdefault(coordinate_of(expr.name), attr)
            elif isinstance(expr, pattern.Vector):
                one = Attr(attr.name, "extent" if attr.kind == "shape" else "int")
                for item in expr.items:
                    if isinstance(item, pattern.AttrVar):
                        found.setdefault(coordinate_of(item.name), one)
    return found


def unbounded(attr: Attr) -> tuple[float, ...]:
    """Return the default of an attribute if it is infinite: a rule that binds the attribute meets it, too."""
    return (attr.default,) if isinstance(attr.default, float) and math.isinf(attr.default) else ()


def tensors(rule: pattern.Rule) -> list[str]:
    """Return the names of a rule's tensor variables; of a starred one, that of its first member."""
    found = (t for t in pattern.subterms(*rule.sources) if isinstance(t, pattern.Var))
    return list(dict.fromkeys(f"{t.name}_0" if t.starred else t.name for t in found))


@lru_cache(maxsize=1024)
def axes_of(rule: pattern.Rule) -> int:
    """Return the number of axes that instances of a rule need: the usual ones, or those that it lists."""
    found = [AXES]
    for term in pattern.applications(*rule.sources, *rule.targets):
        for attr, expr in attributes(term):
            match expr:
                case pattern.Literal(tuple(items)) | pattern.Vector(items) if attr.kind in ("perm", "shape"):
                    found.append(len(items))
                case pattern.Literal(int(axis)) if attr.name == "axis":
                    found.append(-axis)
    return max(found)


# -- large and unusual values -----------------------------------------------------------------------
def wild(rule: pattern.Rule) -> list[Corner]:
    """Return unusual values of every coordinate of a rule, one coordinate at a time."""
    found: list[Corner] = []
    for coordinate, attr in attribute_coordinates(rule).items():
        found += [_corner(coordinate, value) for value in _of_attribute(attr)]
    for name in tensors(rule):
        for axis in (-1, -2, -3, -4):
            values = (*_EXTENTS, LONG) if axis == -1 else _EXTENTS
            found += [_corner(("dim", name, axis), value) for value in values]
        found += [_corner(("rank", name, ""), rank) for rank in _RANKS]
        found += [_corner(("dtype", name, ""), kind) for kind in (WHOLE, TRUTH)]
    if rule.each:
        found += [_corner(MEMBERS, number) for number in _MEMBERS]
    return found


def of_more_axes(rule: pattern.Rule) -> list[Corner]:
    """Return larger ranks than those of the menus for every tensor, with the axes that only they have."""
    axes = [(c, a) for c, a in attribute_coordinates(rule).items() if a.name in ("axis", "axes")]
    found: list[Corner] = []
    for rank in _RANKS:
        first: list[tuple[Coordinate, Any]] = [(c, (-rank,) if a.kind == "axes" else -rank) for c, a in axes]
        for name in tensors(rule):
            given: tuple[Coordinate, Any] = (("rank", name, ""), rank)
            found += [Corner((given, axis), RANKED) for axis in first] or [Corner((given,), RANKED)]
    return found


def _of_attribute(attr: Attr) -> tuple[Any, ...]:
    numbers = _NUMBERS.get(attr.name)
    if numbers is not None and attr.kind == "ints":
        rest = 0 if attr.name in ("pads", "extra") else 1
        places = range(attr.length)
        alone = [tuple(n if i == k else rest for i in places) for k, n in zip(places, numbers, strict=False)]
        return (*alone, (numbers[-1],) * attr.length)
    if numbers is not None:
        return numbers
    if attr.name == "eps":
        return (1e-5, 1e-3, 2.0)
    if attr.kind == "float":
        return () if attr.tried else (1e-3, 3.0, -7.0, 100.0)
    return {"extent": (7, 12), "axes": ((-4,), (-3, -1), (-4, -3))}.get(attr.kind, ())


def spread_axes(rule: pattern.Rule) -> list[Corner]:
    """Return extents of 1 for every axis of every operand of an operator that broadcasts, on either side."""
    terms = (t for t in pattern.applications(*rule.sources, *rule.targets) if t.op in _BROADCASTS)
    operands = (arg for t in terms for arg in t.args if isinstance(arg, pattern.Var) and not arg.starred)
    names = dict.fromkeys(arg.name for arg in operands)
    axes = (-1, -2, -3, -4)
    return [Corner(((("dim", n, axis), 1),), SPREAD, spread=True) for axis in axes for n in names]


# -- the decisions of an instance -------------------------------------------------------------------
def decisions_of(instance: Instance) -> tuple[tuple[Coordinate, Any], ...]:
    """Return the coordinates of an instance that are alternatives, not sizes, and its axes of extent 1."""
    found: dict[Coordinate, Any] = {}
    for coordinate, attr in attribute_coordinates(instance.rule).items():
        kind, name, at = coordinate
        value = instance.rows[name].get(str(at)) if kind == "row" else instance.attrs.get(name)
        if value is not None and attr.name not in SIZES and attr.kind not in ("extent", "shape", "dtype"):
            found[coordinate] = value
    for name in tensors(instance.rule):
        shape = instance.types[name].shape
        found["rank", name, ""] = len(shape)
        # Generic extents are large: an axis of extent 1 was decided to be one.
        found |= {("dim", name, axis): 1 for axis in range(-len(shape), 0) if shape[axis] == 1}
    if instance.rule.each:
        found[MEMBERS] = instance.members
    return tuple(found.items())


# -- values next to literals -------------------------------------------------------------------------
def beside_literals(rule: pattern.Rule) -> list[Corner]:
    """Return for every coordinate that the rule compares with a literal the values below, at and above it.

    A comparison is a condition, a division, a remainder, a maximum or a minimum; a sum with a literal counts
    too, because it may be a part of one.
    """
    kinds = attribute_coordinates(rule)
    found: dict[Corner, None] = {}
    for expr in _expressions(rule):
        values = (p.value for p in _parts(expr) if isinstance(p, pattern.Literal))
        literals = sorted({v for v in values if isinstance(v, int | float)})
        for coordinate in dict.fromkeys(c for c in map(_named, _parts(expr)) if c is not None):
            for literal in literals:
                for value in _around(literal, kinds.get(coordinate)):
                    found.setdefault(_corner(coordinate, value, BESIDE))
    return list(found)


def _expressions(rule: pattern.Rule) -> Iterator[Any]:
    """Yield the conditions of a rule, and the arithmetic in the attributes of its right-hand side."""
    for condition in rule.conditions:
        plain = isinstance(condition.left, pattern.DimOf | pattern.RankOf) and isinstance(
            condition.right, pattern.Literal
        )
        if not (condition.relation == "=" and plain):  # an equation leaves no other value
            yield condition
    for term in pattern.applications(*rule.targets):
        for _, expr in term.attrs:
            items = expr.items if isinstance(expr, pattern.Vector) else (expr,)
            yield from (e for e in items if isinstance(e, pattern.Arith))


def _parts(expr: Any) -> Iterator[Any]:
    yield expr
    if isinstance(expr, pattern.Arith | pattern.Compare):
        yield from _parts(expr.left)
        yield from _parts(expr.right)
    elif isinstance(expr, pattern.Vector):
        for item in expr.items:
            yield from _parts(item)


def _named(part: Any) -> Coordinate | None:
    match part:
        case pattern.AttrVar(name):
            return coordinate_of(name)
        case pattern.DimOf(var, int(axis)):
            return "dim", var, axis
        case pattern.RankOf(var):
            return "rank", var, ""
    return None


def _around(literal: int | float, attr: Attr | None) -> tuple[Any, ...]:
    """Return values below, at and above a literal, and a large one, as an attribute takes them."""
    if attr is not None and attr.kind not in ("int", "ints", "float", "extent"):
        return ()
    if isinstance(literal, float) or (attr is not None and attr.kind == "float"):
        step = abs(literal) / 2 or 0.5
        return (literal - step, float(literal), literal + step, literal * 8 + 1)
    values = (literal - 1, literal, literal + 1, 2 * literal + 3)
    if attr is not None and attr.kind == "ints":
        return tuple((v,) * attr.length for v in values if v >= 0)
    if attr is not None and attr.kind == "int" and literal < 0:
        # Compared with a negative number: an axis, which counts from the last, or a start before the first.
        return tuple(sorted({*values, 2 * literal - 1, 0, 1}))
    return tuple(v for v in values if v >= 0)
