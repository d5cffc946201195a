"""Rules with ``each``: they hold for any number of members if they hold on one that is a slice of the whole.

The members of a starred variable are joined along an axis. Each is the slice of the joined tensor that begins
after the extents before it. So a rule holds if it holds with a slice ``[start, stop)`` of any tensor in place
of the member, and with that tensor in place of the joined members.

The bounds are the same for all starred variables and for the result, because :func:`bounds` are shown too:
the result of a member is at least as long as each of its starred operands, and the whole result is as long as
each joined tensor. The results are the parts of the whole, which the engine checks. So each is as long as its
operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from workbench.laws.theorems.axes import NotCovered
from workbench.rules.pattern import (
    App,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    Rule,
    Term,
    Var,
    joined_axes,
    starred,
)

#: The names of the first place of a member in the whole, and of the place after its last one.
START: Final = "member start"
STOP: Final = "member stop"


def of_one_member(rule: Rule) -> Rule:
    """Return the rule on one member, which is a slice of the whole; raise NotCovered for other rules."""
    axes = joined_axes(rule)
    target = rule.targets[0]
    if set(axes) != set(starred(rule)) or not isinstance(target, App) or target.op != "slice":
        raise NotCovered("members that are not joined along one axis each")
    source = _app(_with(rule.sources[0], {name: _part(Var(name), axis) for name, axis in axes.items()}, {}))
    whole = _whole(rule)
    return replace(
        rule,
        sources=(source,),
        targets=(replace(target, args=(whole,), attrs=(*target.attrs, *_BOUNDS)),),
        each=False,
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """A relation between an extent of a term's result and one of a variable, if the term has a type.

    The term is both sides of ``rule``, whose conditions hold. ``axis`` is that of the result.
    """

    rule: Rule
    axis: int
    relation: str
    extent: DimOf


def bounds(rule: Rule) -> list[Bound]:
    """Return the conditions on extents with which all starred variables of a rule have the same bounds."""
    axis = dict(_app(rule.targets[0]).attrs)["axis"]
    if not isinstance(axis, Literal) or not isinstance(axis.value, int):
        raise NotCovered("members that are not joined along one axis each")
    one = _app(_with(rule.sources[0], {name: Var(name) for name in joined_axes(rule)}, {}))
    whole = _app(_whole(rule))
    # The parts of two members or more: the whole is at least 2 long.
    several = tuple(Compare(">=", DimOf(name, a), Literal(2)) for name, a in joined_axes(rule).items())
    found = []
    for name, a in joined_axes(rule).items():
        found.append(Bound(_same(rule, one, ()), axis.value, ">=", DimOf(name, a)))
        found.append(Bound(_same(rule, whole, several), axis.value, "=", DimOf(name, a)))
    return found


_BOUNDS: Final[tuple[tuple[str, AttrExpr], ...]] = (("start", AttrVar(START)), ("stop", AttrVar(STOP)))


def _same(rule: Rule, term: App, conditions: tuple[Compare, ...]) -> Rule:
    return replace(rule, sources=(term,), targets=(term,), conditions=conditions, each=False)


def _part(var: Var, axis: int) -> Term:
    return App("slice", (var,), (("axis", Literal(axis)), *_BOUNDS))


def _whole(rule: Rule) -> Term:
    axes = joined_axes(rule)
    return _with(_app(rule.targets[0]).args[0], {}, {name: Var(name) for name in axes})


def _app(term: Term) -> App:
    if not isinstance(term, App):
        raise NotCovered("members that are not joined along one axis each")
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
