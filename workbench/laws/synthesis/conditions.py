"""Extents in laws: those that are numbers in an equation become extents of operands, or conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from workbench.ops import Trait, with_trait
from workbench.rules.pattern import (
    Arith,
    AttrVar,
    Compare,
    DimOf,
    IntExpr,
    Literal,
    RankOf,
    Rule,
    applications,
    tensor_variables,
)


def _places(names: Iterable[str], shapes: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, DimOf]]:
    """Yield the extents of variables, each with its symbol."""
    return ((shapes[n][axis], DimOf(n, axis)) for n in names for axis in range(-len(shapes[n]), 0))


def extents_of(
    names: Sequence[str], shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[tuple[int, DimOf]]:
    """Yield the extents of variables as numbers, by their symbols' ``sizes``, each with its expression."""
    for symbol, extent in _places(names, shapes):
        yield (int(symbol) if symbol.isdigit() else sizes[symbol]), extent


def expression(value: int, known: Sequence[tuple[int, IntExpr]]) -> IntExpr | None:
    """Return an expression for a number: a known one, 1, or a product or quotient of two known ones.

    >>> from workbench.rules.pattern import AttrVar, DimOf
    >>> known = [(2, AttrVar("g")), (3, DimOf("x", -1)), (12, DimOf("x", -2))]
    >>> [str(expression(n, known) is not None) for n in (3, 1, 6, 4, 5)]
    ['True', 'True', 'True', 'True', 'False']
    """
    for number, expr in known:
        if number == value:
            return expr
    if value == 1:
        return Literal(1)
    for (n, a), (m, b) in itertools.combinations(known, 2):
        if n * m == value:
            return Arith("*", a, b)
    for (n, a), (m, b) in itertools.permutations(known, 2):
        if m > 1 and n == value * m:
            return Arith("//", a, b)
    return None


def fixed_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents are numbers if the grammar has numbers there, and numbers scalars."""
    names = tensor_variables(*law.sources)
    scalars = [Compare("=", RankOf(v), Literal(0)) for v in names if not shapes[v]]
    numbers = (Compare("=", d, Literal(int(s))) for s, d in _places(names, shapes) if s.isdigit())
    return (*scalars, *numbers)


def ranks(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that the operands of a law have the ranks that they have in the grammar."""
    names = tensor_variables(*law.sources)
    return tuple(Compare("=", RankOf(name), Literal(len(shapes[name]))) for name in names)


def bound_extents(
    items: Mapping[str, int], law: Rule, shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> tuple[Compare, ...]:
    """Return the conditions that variables in shapes are extents of operands.

    Args:
        items: The variables, with the number that each stands for in the equation.
        law: The law.
        shapes: The symbolic shapes of the operands.
        sizes: The assignment of numbers to symbols.
    """
    extents = list(extents_of(tensor_variables(*law.sources), shapes, sizes))
    first = dict(reversed(extents))
    return tuple(Compare("=", AttrVar(name), first[n]) for name, n in items.items() if n in first)


def same_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that operands of one shape have equal extents, so that none broadcasts."""
    broadcasting = with_trait(Trait.BROADCASTS)
    found: dict[Compare, None] = {}
    for term in applications(*law.sources, *law.targets):
        if term.op in broadcasting:
            for x, y in itertools.combinations(sorted(tensor_variables(*term.args)), 2):
                if shapes[x] == shapes[y]:
                    for axis in range(-len(shapes[x]), 0):
                        found.setdefault(Compare("=", DimOf(x, axis), DimOf(y, axis)))
    return tuple(found)


def equal_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents with one symbol in the variables' shapes are equal."""
    alike: dict[str, list[DimOf]] = {}
    for symbol, extent in _places(tensor_variables(*law.sources), shapes):
        alike.setdefault(symbol, []).append(extent)
    pairs = (pair for known in alike.values() for pair in itertools.combinations(known, 2))
    return tuple(Compare("=", a, b) for a, b in pairs)
