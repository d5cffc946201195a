"""Name what a rule's text says more than once, so that the engine reads, checks and computes it once.

Type rules spell out every extent, so that an expression such as the height of a convolution's output stands
in many guards, in the types of what is made and in birth records. To egglog each occurrence is a call of its
own, to be type-checked, planned and computed for every match.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

#: An expression: a word, or an application with its arguments.
Expr = str | tuple["Expr", ...]

#: Functions that only compute: what they give may be named.
_COMPUTE: Final = frozenset({"vec-get", "vec-set", "vec-of", "+", "-", "*", "/", "%", "max", "min"})
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+')


def parse(text: str) -> list[Expr]:
    """Return the expressions of a text."""
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


def share(facts: Sequence[str], actions: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return facts and actions in which what is computed more than once is computed once.

    A name ``k0_``, ``k1_``, ... is given where the expression stands first, in a fact of its own or, if only
    actions have it, by ``let``: what guarded the expression before still stands before it.
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
            line = _named(expr, counts, names, lines, form)
            lines.append(show(line))
        shared.append(lines)
    return shared[0], shared[1]


def _count(expr: Expr, counts: Counter[Expr]) -> None:
    if isinstance(expr, str):
        return
    if expr[0] in _COMPUTE:
        counts[expr] += 1
        if counts[expr] > 1:  # what is inside is then shared with it
            return
    for part in expr[1:]:
        _count(part, counts)


def _named(expr: Expr, counts: Counter[Expr], names: dict[Expr, str], lines: list[str], form: str) -> Expr:
    """Return an expression with names for what is shared; add the lines that give them."""
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
