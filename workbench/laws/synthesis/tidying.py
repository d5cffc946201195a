"""Names of the variables of laws: short ones, in order of appearance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from workbench.laws.synthesis.grammar import KINDS
from workbench.rules.pattern import (
    App,
    Arith,
    Compare,
    DimOf,
    DtypeOf,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    tensor_variables,
)

#: Letters for tensors, and for kernels of convolutions.
_TENSORS: Final = "xyzuvwrq"
_KERNELS: Final = "wvkl"


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
        names[old] = next(n for n in fresh_names(letters) if n not in names.values())
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


def fresh_names(letters: str) -> Iterator[str]:
    """Yield names without end: the letters, then the letters with a number."""
    yield from letters
    for number in itertools.count(2):
        yield from (f"{letter}{number}" for letter in letters)
