"""The search for chains: which theorems rewrite both sides of a rule to one term."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.entailment import Facts, Unavailable
from workbench.laws.theorems.goals import statements
from workbench.laws.theorems.links import Chain, Link, NoLink, Tree
from workbench.rules.pattern import App, Rule

#: The number of terms that are rewritten from one side of a rule, and the number of links from it.
MOST: Final = 60
LONGEST: Final = 4


@dataclass(frozen=True, slots=True)
class _Law:
    theorem: Rule
    backwards: bool

    @property
    def before(self) -> Any:
        """Return the side that a term must match."""
        return (self.theorem.targets if self.backwards else self.theorem.sources)[0]

    @property
    def after(self) -> Any:
        """Return the other side."""
        return (self.theorem.sources if self.backwards else self.theorem.targets)[0]


def find_chain(rule: Rule, theorems: Mapping[str, Rule], seconds: float) -> list[Any] | None:
    """Return the links of a proof by chain, for the checker, or None if none is found.

    Args:
        rule: The rule.
        theorems: The rules that links may use, by name.
        seconds: The limit on the time.
    """
    end = time.perf_counter() + seconds
    if rule.each:
        return None
    try:
        # Of a case whose facts contradict each other anything is true, so it shows no links.
        made = ((s, Facts(s.facts)) for s in statements(rule))
        statement, facts = next(((s, f) for s, f in made if not f.absurd()), (None, Facts()))
        if statement is None:
            return None
        case = Chain.of(rule, statement, facts)
        laws = _by_operator(rule, theorems.values())
        found = [_meeting(case, *pair, laws, end) for pair in case.pairs]
    except (NotCovered, Unavailable):
        return None
    if any(links is None for links in found):
        return None
    return [[[[n, int(b), list(p)] for n, b, p in side] for side in links or ()] for links in found]


def _by_operator(rule: Rule, theorems: Any) -> dict[str, list[_Law]]:
    """Return by the operator that they rewrite the laws that say something of the rule's operators alone."""
    known = {t.op for pair in (rule.sources, rule.targets) for t in pair if isinstance(t, App)}
    known |= set(_operators((*rule.sources, *rule.targets)))
    found: dict[str, list[_Law]] = {}
    for theorem in theorems:
        if theorem.name == rule.name or theorem.each or len(theorem.sources) != 1:
            continue
        for backwards in (False, True):
            law = _Law(theorem, backwards)
            if isinstance(law.before, App) and set(_operators((law.before, law.after))) <= known:
                found.setdefault(law.before.op, []).append(law)
    return found


def _operators(terms: Sequence[Any]) -> Iterator[str]:
    for term in terms:
        if isinstance(term, App):
            yield term.op
            yield from _operators(term.args)


Reached = dict[str, tuple[Tree, tuple[Link, ...]]]


def _meeting(
    case: Chain, left: Tree, right: Tree, laws: Mapping[str, Sequence[_Law]], end: float
) -> tuple[tuple[Link, ...], tuple[Link, ...]] | None:
    """Return the links from both sides to one term, breadth first in turns."""
    reached: list[Reached] = [{left.text: (left, ())}, {right.text: (right, ())}]
    fronts = [[left.text], [right.text]]
    for _ in range(LONGEST):
        for own, other in ((0, 1), (1, 0)):
            new = []
            for text in fronts[own]:
                tree, links = reached[own][text]
                for after, link in _after(case, tree, laws, end):
                    if after.text in reached[own]:
                        continue
                    reached[own][after.text] = (after, (*links, link))
                    new.append(after.text)
                    met = _met(case, after, reached[other])
                    if met is not None:
                        both = ((*links, link), met)
                        return both if own == 0 else (both[1], both[0])
                    if len(reached[own]) > MOST:
                        break
            fronts[own] = new
    return None


def _met(case: Chain, tree: Tree, others: Reached) -> tuple[Link, ...] | None:
    if tree.text in others:
        return others[tree.text][1]
    return next((links for other, links in others.values() if case.alike(tree, other)), None)


def _after(
    case: Chain, tree: Tree, laws: Mapping[str, Sequence[_Law]], end: float
) -> Iterator[tuple[Tree, Link]]:
    for place, part in tree.parts():
        for law in laws.get(part.op, ()):
            if time.perf_counter() > end:
                return
            try:
                after = case.linked(tree, law.theorem, law.backwards, place)
            except NoLink:
                continue
            yield after, (law.theorem.name, law.backwards, place)
