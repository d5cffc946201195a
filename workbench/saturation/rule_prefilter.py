"""The rules that cannot match yet: known from operators, and from pairs of operators that read one another.

A pattern of two operators matches nothing as long as no e-node of the one reads an e-class with an e-node of
the other. Most rules whose operators are all present never match for this reason. The pairs that an e-graph
has are read from its tables, which is cheaper than to load such rules and to search for their matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.rules.interpret import NUMBER, is_number
from workbench.rules.pattern import App, Term, Var, applications
from workbench.saturation.encoding import Constructor
from workbench.support.orders import postorder

if TYPE_CHECKING:
    from workbench.saturation.compile import CompiledRule
    from workbench.saturation.state import State

#: The constructor that stands for any tensor of one number.
A_NUMBER: Final = Constructor(NUMBER, 0)


def constructor(term: App) -> Constructor:
    """Return the constructor of a pattern's application."""
    return Constructor(term.op, len(term.args))


def needed(terms: Iterable[Term]) -> tuple[Constructor, ...]:
    """Return the constructors without which patterns match nothing; any term of numbers is one number."""
    read = postorder(terms, lambda t: t.args if isinstance(t, App) and not is_number(t) else ())
    return tuple(sorted({A_NUMBER if is_number(t) else constructor(t) for t in read if isinstance(t, App)}))


def made(terms: Iterable[Term]) -> tuple[Constructor, ...]:
    """Return the constructors of which terms are made."""
    return tuple(sorted({*map(constructor, applications(*terms))}))


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
                built = applications(r.rule.targets[0])
                available.update(constructor(t) for t in built if not _joins(t))


def _joins(term: App) -> bool:
    return any(isinstance(arg, Var) and arg.starred for arg in term.args)


#: An operator, the place of one of its operands, and an operator in that operand's e-class.
Pair: TypeAlias = tuple[Constructor, int, Constructor]


def pairs_of(terms: Iterable[Term]) -> frozenset[Pair]:
    """Return pairs without which patterns match nothing; none for a term with a starred operand."""
    return frozenset(
        (constructor(term), place, constructor(arg))
        for term in applications(*terms)
        if not _joins(term)
        for place, arg in enumerate(term.args)
        if isinstance(arg, App) and not is_number(arg) and not is_number(term)
    )


def pairs_in(state: State, wanted: Iterable[Pair]) -> set[Pair]:
    """Return those of the wanted pairs that an e-graph has."""
    functions = state.functions

    @cache
    def table(of: Constructor) -> list[Any]:
        return functions[of.name].rows

    @cache
    def results(child: Constructor) -> set[Any]:
        return {row.output for row in table(child)}

    @cache
    def operands(parent: Constructor, place: int) -> set[Any]:
        column = len(parent.columns()) + place
        return {row.inputs[column] for row in table(parent)}

    return {pair for pair in wanted if not operands(*pair[:2]).isdisjoint(results(pair[2]))}
