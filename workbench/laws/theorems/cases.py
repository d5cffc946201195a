"""The cases of a rule in a proof: how the axes that it binds may coincide with others, and one member for any number.

An axis that a rule binds may be one of those that have a number, or another one.

Rules with ``each`` hold for any number of members if they hold on one that is a slice of the whole. The members of a
starred variable are joined along an axis. Each is the slice of the joined tensor that begins after the extents before
it. So a rule holds if it holds with a slice ``[start, stop)`` of any tensor in place of the member, and with that
tensor in place of the joined members.

The bounds are the same for all starred variables and for the result, because :func:`bounds` are shown too:
the result of a member is at least as long as each of its starred operands, and the whole result is as long as
each joined tensor. The results are the parts of the whole, which the engine checks. So each is as long as its
operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final

from workbench.laws.theorems.axes import REST, Key, NotCovered
from workbench.laws.theorems.symbolic_typing import Axis
from workbench.ops import Trait, spec_of
from workbench.rules.interpret import RowAttr, attributes
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    applications,
    joined_axes,
    starred,
)
from workbench.symbolic.integers import sym


def literal_axes(rule: Rule) -> int:
    """Return the largest number of an axis, counted from the last, that a rule or its operators name."""
    found = [0]
    for term in applications(*rule.sources, *rule.targets):
        spec = spec_of(term.op)
        if Trait.FOUR_AXES in spec.traits or "bn_" in term.op or term.op in _FOUR:
            found.append(4)
        elif Trait.PRODUCT in spec.traits or "pads" in spec.attr_names or term.op == "eye":
            found.append(2)
        for attr, expr in attributes(term):
            items = expr.items if isinstance(expr, Vector) else (expr,)
            for item in items:
                if isinstance(item, Literal):
                    values = item.value if isinstance(item.value, tuple) else (item.value,)
                    if (attr.kind == "int" and attr.name == "axis") or attr.kind == "axes":
                        found += [-int(v) for v in values]
                    if attr.kind in ("perm", "shape"):
                        found.append(len(values))
            if attr.kind == "shape" and isinstance(expr, Vector):
                found.append(len(items))
            found.append(_axes_in(expr))
    for c in rule.conditions:
        sides = (c.left, c.right)
        found += map(_axes_in, sides)
        if any(isinstance(e, RankOf) for e in sides):
            found += [e.value for e in sides if isinstance(e, Literal) and isinstance(e.value, int)]
    return max(found)


_FOUR: Final = ("maxpool", "avgpool", "batchnorm")


def _axes_in(expr: Any) -> int:
    """Return the largest number of an axis whose extent an expression reads, counted from the last."""
    if isinstance(expr, DimOf):
        return -expr.axis if isinstance(expr.axis, int) else 0
    if isinstance(expr, Arith):
        return max(_axes_in(expr.left), _axes_in(expr.right))
    return max(map(_axes_in, expr.items), default=0) if isinstance(expr, Vector) else 0


def bound_axes(rule: Rule) -> tuple[list[str], list[str]]:
    """Return the names of axes and of permutations that a rule binds."""
    axes: dict[str, None] = {}
    perms: dict[str, None] = {}
    for term in applications(*rule.sources):
        for attr, expr in attributes(term):
            text = expr.name if isinstance(expr, AttrVar) else None
            if isinstance(expr, RowAttr):
                text = f"{expr.row}.{expr.name}"
            if attr.kind == "axes" and isinstance(expr, Vector):
                axes.update((item.name, None) for item in expr.items if isinstance(item, AttrVar))
            if text is not None and attr.kind == "int" and attr.name == "axis":
                axes.setdefault(text)
            if text is not None and attr.kind == "perm":
                perms.setdefault(text)
    return list(axes), list(perms)


def fixed_images(rule: Rule) -> dict[Key, Key]:
    """Return the images of axes under permutations that the conditions of a rule give: ``p[-1] = -1``."""
    found: dict[Key, Key] = {}
    for c in rule.conditions:
        axis, image = c.left, c.right
        if not (c.relation == "=" and isinstance(axis, Arith) and axis.operator == "axis"):
            continue
        perm, place = axis.left, axis.right
        if isinstance(perm, AttrVar) and isinstance(place, Literal) and isinstance(image, Literal):
            found[perm.name, place.value] = image.value
            found[perm.name + "-", image.value] = place.value
    return found


def identities(rule: Rule) -> frozenset[str]:
    """Return the permutations that leave every axis in its place, by ``compose(p, p) = p``."""
    equations = [(c.left, c.right) for c in rule.conditions if c.relation == "="]
    return frozenset(
        once.name
        for sides in equations
        for twice, once in (sides, sides[::-1])
        if isinstance(once, AttrVar) and twice == Arith("compose", once, once)
    )


#: A case of a rule: a name, its axes, the number of those that have a number, and all keys.
Case = tuple[str, dict[str, Any], int, tuple[Key, ...]]


def cases(rule: Rule) -> Iterator[Case]:
    """Yield the cases of a rule."""
    axes, perms = bound_axes(rule)
    literal = literal_axes(rule)
    options = [*range(-1, -literal - 1, -1)]
    for choice in product([*options, *axes], repeat=len(axes)):
        # An axis without a number has the name of the first variable that is the same axis.
        if any(
            isinstance(c, str) and (axes.index(c) > k or choice[axes.index(c)] != c)
            for k, c in enumerate(choice)
        ):
            continue
        named = sorted({c for c in choice if isinstance(c, str)})
        keys: list[Key] = [*options, *named, REST]
        for p in perms:
            keys += [(p, k) for k in named]
        for p in perms:
            keys += [(p + "-", k) for k in keys if not (isinstance(k, tuple) and k[0] == p)]
        found = dict(zip(axes, choice, strict=True))
        name = ", ".join(f"{a} = {c if isinstance(c, int) else 'axis ' + c}" for a, c in found.items())
        places = {a: c if isinstance(c, int) else Axis(c, sym(f"place {c}")) for a, c in found.items()}
        yield name or "all types", places, literal, tuple(keys)


# -- rules on any number of members ----------------------------------------------------------------------
#: The names of the first place of a member in the whole, and of the place after its last one, as attributes.
_BOUNDS: Final[tuple[tuple[str, AttrExpr], ...]] = (
    ("start", AttrVar("member start")), ("stop", AttrVar("member stop"))
)  # fmt: skip
#: The objection to members of which nothing is proved.
NOT_JOINED: Final = "members that are not joined along one axis each"


def of_one_member(rule: Rule) -> Rule:
    """Return the rule on one member, which is a slice of the whole; raise NotCovered for other rules."""
    axes = joined_axes(rule)
    target = rule.targets[0]
    if set(axes) != set(starred(rule)) or not isinstance(target, App) or target.op != "slice":
        raise NotCovered(NOT_JOINED)
    parts = {n: App("slice", (Var(n),), (("axis", Literal(a)), *_BOUNDS)) for n, a in axes.items()}
    source = _app(_with(rule.sources[0], parts, {}))
    part = replace(target, args=(_whole(rule),), attrs=(*target.attrs, *_BOUNDS))
    return replace(rule, sources=(source,), targets=(part,), each=False)


def bounds(rule: Rule) -> Iterator[tuple[Rule, int, str, DimOf]]:
    """Yield the conditions on extents with which all starred variables of a rule have the same bounds.

    Each is a relation between the extent of a term's result along an axis and one of a variable, if the term has a
    type. The term is both sides of the rule that is yielded, whose conditions hold.
    """
    axis = dict(_app(rule.targets[0]).attrs)["axis"]
    if not isinstance(axis, Literal) or not isinstance(axis.value, int):
        raise NotCovered(NOT_JOINED)
    joined = joined_axes(rule)
    one, whole = _app(_with(rule.sources[0], {name: Var(name) for name in joined}, {})), _app(_whole(rule))
    # The parts of two members or more: the whole is at least 2 long.
    several = tuple(Compare(">=", DimOf(name, a), Literal(2)) for name, a in joined.items())
    for name, a in joined.items():
        for term, relation, conditions in ((one, ">=", ()), (whole, "=", several)):
            of_term = replace(rule, sources=(term,), targets=(term,), conditions=conditions, each=False)
            yield of_term, axis.value, relation, DimOf(name, a)


def _whole(rule: Rule) -> Term:
    return _with(_app(rule.targets[0]).args[0], {}, {name: Var(name) for name in joined_axes(rule)})


def _app(term: Term) -> App:
    if not isinstance(term, App):
        raise NotCovered(NOT_JOINED)
    return term


def _with(term: Term, members: Mapping[str, Term], joined: Mapping[str, Term]) -> Term:
    """Return a term with something else in place of members, and of their concatenation."""
    if isinstance(term, Var):
        if term.starred and term.name not in members:
            raise NotCovered("members that are not joined by a concatenation")
        return members[term.name] if term.starred else term
    only = term.args[0] if term.op == "concat" and len(term.args) == 1 else None
    if isinstance(only, Var) and only.name in joined:
        return joined[only.name]
    return replace(term, args=tuple(_with(a, members, joined) for a in term.args))
