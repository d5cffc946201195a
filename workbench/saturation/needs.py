"""The operators that rules need and make, which show the rules that can ever match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from workbench.rules.literals import NUMBER, is_number
from workbench.rules.pattern import App, Term, Var, subterms
from workbench.saturation.encoding import Constructor

if TYPE_CHECKING:
    from workbench.saturation.compile import CompiledRule

#: The constructor that stands for any tensor of one number.
A_NUMBER: Final = Constructor(NUMBER, 0)


def constructor(term: App) -> Constructor:
    """Return the constructor of a pattern's application."""
    return Constructor(term.op, len(term.args))


def needed(terms: Iterable[Term]) -> tuple[Constructor, ...]:
    """Return the constructors without which patterns match nothing; any term of numbers is one number."""
    found: set[Constructor] = set()
    stack = list(terms)
    while stack:
        term = stack.pop()
        if isinstance(term, App):
            found.add(A_NUMBER if is_number(term) else constructor(term))
            stack += () if is_number(term) else term.args
    return tuple(sorted(found))


def made(terms: Iterable[Term]) -> tuple[Constructor, ...]:
    """Return the constructors of which terms are made."""
    return tuple(sorted({constructor(t) for term in terms for t in subterms(term) if isinstance(t, App)}))


def usable(rules: Sequence[CompiledRule], present: Iterable[Constructor]) -> list[CompiledRule]:
    """Return the rules that can ever match in a graph of these constructors, in order."""
    available = set(present)
    chosen: set[int] = set()
    while True:
        more = [r for r in rules if r.number not in chosen and all(n in available for n in r.needs)]
        if not more:
            return [r for r in rules if r.number in chosen]
        for r in more:
            chosen.add(r.number)
            available.update(r.makes)
            if r.member is not None:
                # A merge of k members joins k operands at once.
                available.update(
                    Constructor(t.op, len(t.args))
                    for t in subterms(r.rule.targets[0])
                    if isinstance(t, App) and not any(isinstance(a, Var) and a.starred for a in t.args)
                )
