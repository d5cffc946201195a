"""Compiled rules: text for the engine, and the operators that they need and make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from workbench.ops import Attr
from workbench.rules.numbers import NUMBER, is_number
from workbench.rules.pattern import App, Rule, Term, Var, subterms
from workbench.saturation.encoding import Constructor

#: The constructor that stands for any tensor of one number.
A_NUMBER: Final = Constructor(NUMBER, 0)


@dataclass(frozen=True, slots=True)
class Member:
    """The relation that an ``each`` rule fills, one row per member.

    Its columns are the matched class, the shared and the starred tensor variables, and the columns of
    the attributes ``attrs``: (variable, or row variable and attribute; the attribute's declaration).
    """

    relation: str
    shared: tuple[str, ...]
    starred: tuple[str, ...]
    attrs: tuple[tuple[tuple[str, ...], Attr], ...]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as egglog text.

    ``ruleset`` is its own rule set; ``growth`` bounds the number of e-nodes that one match can add. For a
    rule of several roots, ``counting`` is a twin that only collects its matches in a relation, and
    ``member`` describes the relation that an ``each`` rule fills for the engine to apply.
    """

    rule: Rule
    number: int
    ruleset: str
    text: str
    growth: int
    needs: tuple[Constructor, ...]
    makes: tuple[Constructor, ...]
    counting: str = ""
    member: Member | None = None


def constructor(term: App) -> Constructor:
    """Return the constructor of a pattern's application."""
    return Constructor(term.op, len(term.args))


@dataclass(slots=True)
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
    """Return the constructors of terms."""
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
