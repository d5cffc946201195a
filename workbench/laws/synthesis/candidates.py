"""Candidates for laws: equations up to renaming, without instances of smaller ones, general ones first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from workbench.laws.synthesis.enumeration import Enumeration, Equation
from workbench.rules.pattern import App, Term, Var, applications, canonical, format_term, tensor_variables


def operators_in(*terms: Term) -> int:
    """Return the number of operators in terms, each place counted."""
    return sum(1 for _ in applications(*terms))


def key_of(equation: Equation) -> str:
    """Return a text that equations share exactly if they are renamings, with sides exchanged or not."""
    sides = ((equation.left, equation.right), (equation.right, equation.left))
    return min(" = ".join(map(format_term, canonical(pair)[0])) for pair in sides)


def generality(equation: Equation) -> tuple[int, int, int, str]:
    """Return the order of candidates: few operators first, then many variables, then few kinds of them."""
    both = equation.left, equation.right
    operators = {(t.op, t.attrs) for t in applications(*both)}
    text = format_term(equation.left) + format_term(equation.right)
    return operators_in(*both), -len(tensor_variables(*both)), len(operators), text


def candidates(enumeration: Enumeration, equations: Iterable[Equation]) -> list[Equation]:
    """Return the equations that are neither renamings of earlier ones nor instances of smaller true ones."""
    found: dict[str, Equation] = {}
    for equation in equations:
        if not is_instance(enumeration, equation):
            found.setdefault(key_of(equation), equation)
    return sorted(found.values(), key=generality)


def is_instance(enumeration: Enumeration, equation: Equation) -> bool:
    """Return whether a smaller true equation has this one as an instance.

    The largest terms that appear on both sides are replaced by variables that the equation does not have. If
    the two sides are then still in one class, the law is the smaller one.
    """
    shared = _shared(equation)
    inner = _shared(equation, sides=False)
    return any(_still_equal(enumeration, equation, terms) for terms in (shared, inner) if terms)


def _still_equal(enumeration: Enumeration, equation: Equation, shared: Sequence[Term]) -> bool:
    """Return whether an equation stays true if terms that both sides have become variables."""
    used = {*tensor_variables(equation.left, equation.right)}
    renamed: dict[Term, Var] = {}
    for term in shared:
        number = enumeration.class_of(term)
        if number is None:
            return False
        free = enumeration.with_types(enumeration.types_of(number))
        name = next((n for n in free if n not in used), None)
        if name is None:
            continue
        used.add(name)
        renamed[term] = Var(name)
    if not renamed:
        return False
    left = enumeration.class_of(_replaced(equation.left, renamed))
    right = enumeration.class_of(_replaced(equation.right, renamed))
    return left is not None and left == right


def _shared(equation: Equation, *, sides: bool = True) -> list[Term]:
    """Return the largest terms that both sides have, in order of appearance; with or without whole sides."""
    right = {*applications(equation.right)}
    if not sides:
        right -= {equation.left, equation.right}
    return list(dict.fromkeys(_largest(equation.left, right)))


def _largest(term: Term, among: set[App]) -> Iterator[Term]:
    if term in among:
        yield term
    elif isinstance(term, App):
        for arg in term.args:
            yield from _largest(arg, among)


def _replaced(term: Term, by: Mapping[Term, Var]) -> Term:
    if term in by:
        return by[term]
    if isinstance(term, Var):
        return term
    return App(term.op, tuple(_replaced(a, by) for a in term.args), term.attrs, term.row)
