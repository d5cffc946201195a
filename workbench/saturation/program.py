"""The syntax of the engine's program: literals, rules, and the names in them.

Type rules spell out every extent. An expression such as the height of a convolution's output therefore
appears in many guards, in the types of new terms and in birth records. For egglog each occurrence is a
separate call, which is type-checked, planned, and computed for every match: :func:`share` names it once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: An expression: a word, or an application with its arguments.
Expr = str | tuple["Expr", ...]

#: Functions without side effects, whose results may be named.
_COMPUTE: Final = frozenset({"vec-get", "vec-set", "vec-of", "+", "-", "*", "/", "%", "max", "min"})
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+')


def literal(value: int | float | str) -> str:
    """Return an egglog literal."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if math.isnan(value):
            return "NaN"
        text = repr(value)
        return text if any(c in text for c in ".e") else text + ".0"
    return str(value)


def vector(items: Iterable[object]) -> str:
    """Return the egglog expression of a vector of integers."""
    return "(vec-of " + " ".join(map(str, items)) + ")"


@dataclass(frozen=True, slots=True)
class EgglogRule:
    """A rule in a rule set of its own, as program text, and the relation with ``columns`` that it fills, if any."""

    ruleset: str
    name: str
    facts: tuple[str, ...]
    actions: tuple[str, ...]
    relation: str = ""
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        relation = f"(relation {self.relation} ({' '.join(self.columns)}))\n" if self.relation else ""
        return (
            f"{relation}(ruleset {self.ruleset})\n(rule ({' '.join(self.facts)})\n"
            f"      ({' '.join(self.actions)})\n      :ruleset {self.ruleset} :name {literal(self.name)})"
        )


def parse(text: str) -> list[Expr]:
    """Return the expressions in a text."""
    stack: list[list[Expr]] = [[]]
    for word in _WORD.findall(text):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0]


def show(expr: Expr) -> str:
    """Return an expression as text."""
    return expr if isinstance(expr, str) else f"({' '.join(map(show, expr))})"


def share(facts: Sequence[str], actions: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return facts and actions in which repeated computations are computed once.

    A name ``k0_``, ``k1_``, … is introduced just before the first use of an expression: by a separate fact,
    or by ``let`` if the expression occurs only in actions. Facts that guarded the expression therefore still
    precede it.
    """
    both = [parse(" ".join(facts)), parse(" ".join(actions))]
    counts: Counter[Expr] = Counter()
    for expr in (e for part in both for e in part):
        _count(expr, counts)
    names: dict[Expr, str] = {}
    shared: list[list[str]] = []
    for part, form in zip(both, ("=", "let"), strict=True):
        lines: list[str] = []
        for expr in part:
            lines.append(show(_named(expr, counts, names, lines, form)))
        shared.append(lines)
    return tuple(shared[0]), tuple(shared[1])


def _count(expr: Expr, counts: Counter[Expr]) -> None:
    if isinstance(expr, str):
        return
    if expr[0] in _COMPUTE:
        counts[expr] += 1
        if counts[expr] > 1:  # its parts are shared together with it
            return
    for part in expr[1:]:
        _count(part, counts)


def _named(expr: Expr, counts: Counter[Expr], names: dict[Expr, str], lines: list[str], form: str) -> Expr:
    """Return an expression with names for shared parts; append the lines that define the names."""
    if isinstance(expr, str):
        return expr
    if expr in names:
        return names[expr]
    inside = (expr[0], *(_named(part, counts, names, lines, form) for part in expr[1:]))
    if counts[expr] < 2:
        return inside
    name = names[expr] = f"k{len(names)}_"
    lines.append(show((form, name, inside)))
    return name


#: Tables and rule sets; every name in a program ends with an underscore, which is left out here.
_OWN: Final = frozenset(
    {
        "h", "ht", "ty", "clock", "runs", "constant", "uniform", "stamp", "tick", "depends", "duplicates",
        "lost", "found", "loops", "whole", "some", "pivot", "fill", "part",
    }
)  # fmt: skip
#: Terms that a rule matches or makes, shared computations, combined rule sets, and operators.
_NUMBERED: Final = re.compile(r"[kntlu]\d+|e[a-h]|group\d+|\w+_n\d+(_t)?")
#: Types, attributes, renamed variables, and the rule sets and relations of a rule.
_PREFIXED: Final = re.compile(r"(s|a|v|rs|count|members)_.*")


def identifier(name: str) -> str:
    """Return an egglog identifier for a rule's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()) + "_"


def named(variable: str) -> str:
    """Return the name of a tensor variable in the program's text, which nothing else in it has.

    >>> named("x"), named("s_x")
    ('x_', 'v_s_x_')
    """
    taken = variable in _OWN or _NUMBERED.fullmatch(variable) or _PREFIXED.fullmatch(variable)
    return f"v_{variable}_" if taken else f"{variable}_"
