"""The pairs of operators that rules match: one operator, and another in the e-class of its operand.

A pattern of two operators matches nothing as long as no e-node of the one reads an e-class with an e-node of
the other. Most rules whose operators are all present never match for this reason. The pairs that an e-graph
has are read from its tables, which is cheaper than to load such rules and to search for their matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.rules.literals import is_number
from workbench.rules.pattern import App, Term, Var, subterms
from workbench.saturation.encoding import Constructor
from workbench.saturation.needs import constructor

if TYPE_CHECKING:
    from workbench.saturation.state import State

#: An operator, the place of one of its operands, and an operator in that operand's e-class.
Pair: TypeAlias = tuple[Constructor, int, Constructor]


def pairs_of(terms: Iterable[Term]) -> frozenset[Pair]:
    """Return pairs without which patterns match nothing; none for a term with a starred operand."""
    return frozenset(
        (constructor(term), place, constructor(arg))
        for whole in terms
        for term in subterms(whole)
        if isinstance(term, App) and not any(isinstance(a, Var) and a.starred for a in term.args)
        for place, arg in enumerate(term.args)
        if isinstance(arg, App) and not is_number(arg) and not is_number(term)
    )


def pairs_in(state: State, wanted: Iterable[Pair]) -> set[Pair]:
    """Return those of the wanted pairs that an e-graph has."""
    functions = state.functions
    rows: dict[Constructor, list[Any]] = {}
    results: dict[Constructor, set[Any]] = {}
    operands: dict[tuple[Constructor, int], set[Any]] = {}

    def table(of: Constructor) -> list[Any]:
        if of not in rows:
            rows[of] = functions[of.name].rows
        return rows[of]

    found: set[Pair] = set()
    for parent, place, child in wanted:
        if child not in results:
            results[child] = {row.output for row in table(child)}
        key = parent, place
        if key not in operands:
            column = len(parent.columns()) + place
            operands[key] = {row.inputs[column] for row in table(parent)}
        if not operands[key].isdisjoint(results[child]):
            found.add((parent, place, child))
    return found
