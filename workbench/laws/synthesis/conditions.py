"""Extents in laws: those that are numbers in an equation become extents of operands, or conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from workbench.ops import Trait, with_trait
from workbench.rules.pattern import (
    App,
    Arith,
    AttrVar,
    Compare,
    DimOf,
    IntExpr,
    Literal,
    RankOf,
    Rule,
    Term,
    subterms,
    tensor_variables,
)


def extents_of(
    names: Sequence[str], shapes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Iterator[tuple[int, DimOf]]:
    """Yield the extents of variables as numbers, each with its expression.

    Args:
        names: The variables.
        shapes: Their symbolic shapes.
        sizes: The assignment of numbers to symbols.
    """
    for name in names:
        for axis in range(-len(shapes[name]), 0):
            symbol = shapes[name][axis]
            yield (int(symbol) if symbol.isdigit() else sizes[symbol]), DimOf(name, axis)


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
    """Return the conditions that extents are numbers if the grammar has numbers there, and numbers scalars.

    Args:
        law: A law over variables of an equation.
        shapes: The symbolic shapes of the variables.
    """
    scalars = [Compare("=", RankOf(v), Literal(0)) for v in _variables(law.sources) if not shapes[v]]
    numbers = (
        Compare("=", DimOf(name, axis), Literal(int(shapes[name][axis])))
        for name in _variables(law.sources)
        for axis in range(-len(shapes[name]), 0)
        if shapes[name][axis].isdigit()
    )
    return (*scalars, *numbers)


def ranks(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that the operands of a law have the ranks that they have in the grammar."""
    return tuple(Compare("=", RankOf(name), Literal(len(shapes[name]))) for name in _variables(law.sources))


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
    known = list(extents_of(_variables(law.sources), shapes, sizes))
    found = []
    for name, value in items.items():
        expr = next((e for n, e in known if n == value), None)
        if expr is not None:
            found.append(Compare("=", AttrVar(name), expr))
    return tuple(found)


def same_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that operands of one shape have equal extents, so that none broadcasts.

    Args:
        law: A law over variables of an equation.
        shapes: The symbolic shapes of the variables.
    """
    broadcasting = with_trait(Trait.BROADCASTS)
    found: dict[Compare, None] = {}
    for side in (*law.sources, *law.targets):
        for term in subterms(side):
            if isinstance(term, App) and term.op in broadcasting:
                names = sorted({v for a in term.args for v in tensor_variables(a)})
                for x, y in itertools.combinations(names, 2):
                    if shapes[x] == shapes[y]:
                        for axis in range(-len(shapes[x]), 0):
                            found.setdefault(Compare("=", DimOf(x, axis), DimOf(y, axis)))
    return tuple(found)


def equal_extents(law: Rule, shapes: Mapping[str, Sequence[str]]) -> tuple[Compare, ...]:
    """Return the conditions that extents with one symbol in the variables' shapes are equal."""
    places: dict[str, list[DimOf]] = {}
    for name in _variables(law.sources):
        for axis in range(-len(shapes[name]), 0):
            places.setdefault(shapes[name][axis], []).append(DimOf(name, axis))
    pairs = (pair for known in places.values() for pair in itertools.combinations(known, 2))
    return tuple(Compare("=", a, b) for a, b in pairs)


def _variables(terms: Sequence[Term]) -> list[str]:
    return list(dict.fromkeys(v for t in terms for v in tensor_variables(t)))
