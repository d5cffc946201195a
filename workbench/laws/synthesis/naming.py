"""Names for laws, from their operators, and short names for their variables."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
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
    subterms,
    tensor_variables,
)


def proposed_name(source: App, target: Term) -> str:
    """Return a name that describes the effect of a law on its operators.

    >>> from workbench.rules.language import parse_term
    >>> proposed_name(parse_term("matmul(x, add(y, z))"), parse_term("add(matmul(x, y), matmul(x, z))"))
    'matmul-over-add'
    >>> proposed_name(parse_term("relu(relu(x))"), parse_term("relu(x)"))
    'relu-of-relu'
    """
    inner = [_word(t) for t in _inside(source)]
    outer = _word(source)
    if isinstance(target, Var):
        return _joined([outer, "of", *inner, "cancels"] if inner else [outer, "cancels"])
    left, right = _counts(source), _counts(target)
    if left == right and set(left) == {source.op}:
        return f"{outer}-{'commutes' if len(inner) == 0 else 'associates'}"
    if target.op in inner and source.op in [_word(t) for t in _inside(target)]:
        return _joined([outer, "over", _word(target)])
    first = [outer, "of", *dict.fromkeys(inner)] if inner else [outer]
    if set(right) <= set(left):
        return _joined(first if left != right else [*first, "reordered"])
    return _joined([*first, "as", *dict.fromkeys([_word(target), *map(_word, _inside(target))])])


def joint_name(law: Rule) -> str:
    """Return a name for a law that makes several terms parts of one.

    >>> from workbench.rules import parse_rule
    >>> (law,) = parse_rule("law: relu(x) ; relu(y) => relu(concat[axis=-1](x, y)) ; relu(y)")
    >>> joint_name(law)
    'relu-and-relu-as-relu-of-concat'
    """
    words = [_word(t) for t in reversed(list(subterms(law.targets[0]))) if isinstance(t, App)]
    return "-and-".join(map(_word, law.sources)) + "-as-" + "-of-".join(words[:2])


def unique_name(name: str, taken: Container[str]) -> str:
    """Return a name, followed by a number if it is taken already."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def _word(term: App) -> str:
    return term.op.replace("_", "-")


def _inside(term: App) -> list[App]:
    return [t for a in term.args for t in reversed(list(subterms(a))) if isinstance(t, App)]


def _counts(term: Term) -> Counter[str]:
    return Counter(t.op for t in subterms(term) if isinstance(t, App))


def _joined(words: list[str]) -> str:
    return "-".join(words)


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
