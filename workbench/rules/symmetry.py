"""Rename the variables of patterns in order of appearance, to compare patterns up to names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from workbench.rules.pattern import (
    App,
    Arith,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    Inverse,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
)


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
        if isinstance(expr, Vector):
            return Vector(tuple(attribute(i) for i in expr.items))
        if isinstance(expr, Arith | Compare):
            return replace(expr, left=attribute(expr.left), right=attribute(expr.right))
        if isinstance(expr, Inverse):
            return Inverse(attribute(expr.perm))
        if isinstance(expr, DimOf | RankOf | DtypeOf):
            return replace(expr, var=name("tensor", expr.var))
        return expr

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
