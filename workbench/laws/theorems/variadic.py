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

from collections.abc import Iterator, Mapping
from dataclasses import replace
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

#: The names of the first place of a member in the whole, and of the place after its last one, as attributes.
_BOUNDS: Final[tuple[tuple[str, AttrExpr], ...]] = (
    ("start", AttrVar("member start")), ("stop", AttrVar("member stop"))
)  # fmt: skip
#: What is wrong with members of which nothing is proved.
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
