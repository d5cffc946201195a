"""Rename the variables of patterns in order of appearance, to compare patterns up to names."""

from __future__ import annotations

from collections.abc import Sequence
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

    def attribute(expr: Any) -> Any:
        if isinstance(expr, AttrVar):
            return AttrVar(name("attr", expr.name))
        if isinstance(expr, Vector):
            return Vector(tuple(attribute(i) for i in expr.items))
        if isinstance(expr, Arith):
            return Arith(expr.operator, attribute(expr.left), attribute(expr.right))
        if isinstance(expr, Inverse):
            return Inverse(attribute(expr.perm))
        if isinstance(expr, DimOf | RankOf | DtypeOf):
            return replace(expr, var=name("tensor", expr.var))
        return expr

    def rename(term: Term) -> Term:
        if isinstance(term, Var):
            return Var(name("tensor", term.name), term.starred)
        attrs = tuple((k, attribute(v)) for k, v in sorted(term.attrs, key=lambda kv: kv[0]))
        row = None if term.row is None else name("row", term.row)
        return App(term.op, tuple(rename(a) for a in term.args), attrs, row)

    renamed = tuple(rename(t) for t in terms)
    checks = frozenset(Compare(c.relation, attribute(c.left), attribute(c.right)) for c in conditions)
    return renamed, checks


def symmetric(rule: Rule) -> bool:
    """Return whether a rule has two sources and exchanging them is a renaming of its variables."""
    if len(rule.sources) != 2:
        return False
    forward = canonical(rule.sources, rule.conditions)
    return forward == canonical(rule.sources[::-1], rule.conditions)
