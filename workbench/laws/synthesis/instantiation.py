"""Instances of laws in a grammar: attributes have the values of the grammar's forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.laws.matching import Bindings, Matched, compiled
from workbench.laws.synthesis.derivation import backwards
from workbench.laws.synthesis.grammar import Form, Grammar
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import RowAttr, attributes, evaluate, holds, spread, value
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    DimOf,
    Inverse,
    Literal,
    Rule,
    Term,
    Var,
    Vector,
    measured,
    names_in,
)


class _Values(Matched):
    """The values of attribute variables and of rows; the types of tensors are open."""

    def kind(self, name: str) -> TensorType:
        raise TypeMismatch(f"the type of {name} is open")


def grounded(rule: Rule, forms: Sequence[Form], sizes: Mapping[str, int]) -> list[Rule]:
    """Return the instances of a law of one source of which every operator on the left is a form of a grammar.

    Under the assignment ``sizes`` of numbers to extents the forms have their attributes.

    >>> from workbench.rules import parse_rule
    >>> from workbench.laws.synthesis import Grammar
    >>> grammar = Grammar.of("relu concat[axis=-1] concat[axis=-2]")
    >>> (law,) = parse_rule("law: concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))")
    >>> for instance in grounded(law, grammar.forms, grammar.sizes[0]):
    ...     print(instance)
    law: concat[axis=-1](relu(x), relu(y)) => relu(concat[axis=-1](x, y))
    law: concat[axis=-2](relu(x), relu(y)) => relu(concat[axis=-2](x, y))
    """
    known = [(form, form.values(sizes)) for form in forms]
    found: dict[Rule, None] = {}
    for source, values in _sources(rule.sources[0], known, {}):
        assert isinstance(source, App)
        try:
            given = [
                replace(c, left=_filled(c.left, values), right=_filled(c.right, values))
                for c in rule.conditions
            ]
            target = _target(rule.targets[0], values)
            allowed = all(measured(c) or _Values({}).holds(c) for c in given)
        except TypeMismatch:
            continue
        if allowed:
            conditions = tuple(c for c in given if measured(c))
            found.setdefault(replace(rule, sources=(source,), targets=(target,), conditions=conditions))
    return list(found)


def instances(rule: Rule, grammar: Grammar, types: Mapping[str, TensorType]) -> list[tuple[Term, Term]]:
    """Return both sides of the instances of a law of one source that are well-typed; ``types`` are its variables'."""
    found = []
    for one in grounded(rule, grammar.forms, grammar.sizes[0]):
        try:
            allowed = all(holds(c, _no_attribute, types.__getitem__) for c in one.conditions)
            (source, kind), (target, other) = _typed(one.sources[0], types), _typed(one.targets[0], types)
        except TypeMismatch:
            continue
        if allowed and kind == other and source != target:
            found.append((source, target))
    return found


def readable(laws: Sequence[Rule], grammar: Grammar) -> list[Rule]:
    """Return instances, read backwards, of those laws that cannot be read so in general.

    In an instance the attributes are values, so its right-hand side can be matched.
    """
    found = []
    for law in laws:
        if law.multi or backwards(law) is not None:
            continue
        backs = map(backwards, grounded(law, grammar.forms, grammar.sizes[0]))
        found += [replace(b, name=f"{b.name}-{n}") for n, b in enumerate(b for b in backs if b is not None)]
    return found


def _no_attribute(name: str) -> Any:
    raise TypeMismatch(f"the attribute {name} is open")


def _typed(term: Term, types: Mapping[str, TensorType]) -> tuple[Term, TensorType]:
    """Return a term with values for all attributes, and its type."""
    if isinstance(term, Var):
        return term, types[term.name]
    spec = spec_of(term.op)
    values = {name: evaluate(expr, _no_attribute, types.__getitem__) for name, expr in term.attrs}
    args = [_typed(a, types) for a in term.args]
    kind = spec.result_type([k for _, k in args], spec.pack(values))
    attrs = tuple((name, Literal(given)) for name, given in values.items())
    return App(term.op, tuple(a for a, _ in args), attrs), kind


def _sources(
    term: Term, forms: Sequence[tuple[Form, tuple[Any, ...]]], values: Bindings
) -> Iterator[tuple[Term, Bindings]]:
    """Yield the instances of a term of a left-hand side, with the values of its variables."""
    if isinstance(term, Var):
        yield term, values
        return
    pattern, names = compiled(term), spec_of(term.op).attr_names
    for form, given in forms:
        own = dict(values)
        if form.op != term.op or form.arity != len(term.args) or not pattern.agrees(given, own):
            continue
        rows: list[tuple[tuple[Term, ...], Bindings]] = [((), own)]
        for arg in term.args:
            rows = [((*args, one), new) for args, old in rows for one, new in _sources(arg, forms, old)]
        literals = tuple((name, Literal(value)) for name, value in zip(names, given, strict=True))
        for args, new in rows:
            yield App(term.op, args, literals), new


def _target(term: Term, values: Bindings) -> Term:
    """Return the instance of a term of a right-hand side; extents of tensors stay expressions."""
    if isinstance(term, Var):
        return term
    attrs: list[tuple[str, AttrExpr]] = []
    for attr, expr in attributes(term):
        if isinstance(expr, RowAttr):
            own = values.get(f"#{expr.row}.{expr.name}", attr.default)
            expr = None if own is None else Literal(own)
        if expr is None:
            raise TypeMismatch(f"{term.op} must have the attribute {attr.name}")
        filled = _filled(expr, values)
        attrs.append(
            (attr.name, Literal(spread(filled.value, attr)) if isinstance(filled, Literal) else filled)
        )
    return App(term.op, tuple(_target(a, values) for a in term.args), tuple(attrs))


def _filled(expr: Any, values: Bindings) -> Any:
    """Return an expression with values for its attribute variables, as a literal if it names no tensor."""
    if not any(kind == "tensor" for kind, _ in names_in(expr)):
        return Literal(value(expr, _Values(values)))
    if isinstance(expr, DimOf):
        return expr if isinstance(expr.axis, int) else DimOf(expr.var, values[f"@{expr.axis}"])
    if isinstance(expr, Arith):
        return replace(expr, left=_filled(expr.left, values), right=_filled(expr.right, values))
    if isinstance(expr, Vector):
        return Vector(tuple(_filled(item, values) for item in expr.items))
    if isinstance(expr, Inverse):
        return Inverse(_filled(expr.perm, values))
    return expr
