"""Comprehensions on numbers: the element that a definition gives, to compare with an operator's semantics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from workbench.laws.theorems.definitions import ELEMENT, PI, Call, Tensor
from workbench.laws.theorems.goals import DEFINITIONS
from workbench.laws.theorems.symbolic_typing import Reading
from workbench.laws.theorems.terms import Factor, Term, Value, factor, one, restart
from workbench.ops import OpSpec
from workbench.symbolic.integers import Cond, Int, num, replaced, replaced_in, single, symbols

FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "exp": math.exp,
    "reciprocal": lambda x: 1 / x,
    "sqrt": math.sqrt,
    "pow": lambda x, y: x**y,
    "max": max,
    "min": min,
    "abs": abs,
    "tanh": math.tanh,
    "erf": math.erf,
    "log": math.log,
    "cos": math.cos,
    "sin": math.sin,
    "select": lambda condition, x, y: x if condition else y,
    "is_nan": math.isnan,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}

#: Number of axes of a tensor of which elements are computed.
AXES: Final = 6

#: The value of a read of a tensor: ``(the tensor's name, the index) -> a number``.
Reads = Callable[[str, Sequence[int]], float]


def element(value: Value, reads: Reads, more: Mapping[str, Callable[..., float]]) -> float:
    """Return the number that a value without free symbols is.

    Args:
        value: The value.
        reads: The elements of tensors.
        more: Functions besides :data:`FUNCTIONS`.
    """
    return sum(_term(t, reads, more) for t in value)


def _term(t: Term, reads: Reads, more: Mapping[str, Callable[..., float]]) -> float:
    total = 0.0
    for by in assignments(t.variables, t.guards):
        part = float(t.coef)
        for f in t.factors:
            part *= _factor(f, by, reads, more)
        total += part
    return total


def _factor(
    f: Factor, by: Mapping[str, Int], reads: Reads, more: Mapping[str, Callable[..., float]]
) -> float:
    if f.head == "read":
        index = [_place(replaced(i, by), reads) for i in f.args[1:]]
        return more[f.args[0]](*index) if f.args[0] in more else reads(f.args[0], index)
    if f.head in ("int", "over"):
        n = _number(replaced(f.args[0], by))
        return float(n) if f.head == "int" else 1 / n
    if f.head == "param":
        return math.pi if one(f) == PI else reads(f.args[0], ())
    if f.head == "fn":
        values = [element(_put(v, by), reads, more) for v in f.args[1:]]
        return (more.get(f.args[0]) or FUNCTIONS[f.args[0]])(*values)
    names, guards, inner = f.args
    places = assignments(names, [replaced_in(g, by) for g in guards])
    return max((element(_put(inner, {**by, **p}), reads, more) for p in places), default=-math.inf)


def _put(value: Value, by: Mapping[str, Int]) -> Value:
    """Return a value with numbers for symbols; its terms keep their form."""
    made = []
    for t in value:
        own = {n: x for n, x in by.items() if n not in t.variables}
        guards = tuple(replaced_in(g, own) for g in t.guards)
        made.append(Term(t.coef, t.variables, guards, tuple(_put_factor(f, own) for f in t.factors)))
    return tuple(made)


def _put_factor(f: Factor, by: Mapping[str, Int]) -> Factor:
    if f.head == "read":
        return factor("read", f.args[0], *(replaced(i, by) for i in f.args[1:]))
    if f.head in ("int", "over"):
        return factor(f.head, replaced(f.args[0], by))
    if f.head == "fn":
        return Factor("fn", (f.args[0], *(_put(v, by) for v in f.args[1:])), "")
    if f.head == "top":
        names, guards, inner = f.args
        own = {n: x for n, x in by.items() if n not in names}
        return Factor("top", (names, tuple(replaced_in(g, own) for g in guards), _put(inner, own)), "")
    return f


def _place(x: Int, reads: Reads) -> int:
    """Return the number that an index is; it may be an element of a tensor of places."""
    atom = single(x)
    if atom is None or not atom.head.startswith(ELEMENT):
        return _number(x)
    *index, extent = (_number(i) for i in atom.args)
    found = int(reads(atom.head.removeprefix(ELEMENT), index))
    return found + extent if found < 0 else found


def _number(x: Int) -> int:
    found = x.value
    if found is None:
        raise ValueError(f"an integer must be a number, got {x}")
    return found


def assignments(names: Sequence[str], guards: Sequence[Cond]) -> Iterator[dict[str, Int]]:
    """Yield the numbers for variables with which guards hold; every variable must have bounds."""
    for values in product(*(range(*_bounds(n, guards)) for n in names)):
        by = {n: num(v) for n, v in zip(names, values, strict=True)}
        if all(replaced_in(g, by).head == "true" for g in guards):
            yield by


def _bounds(name: str, guards: Sequence[Cond]) -> tuple[int, int]:
    low, high = 0, 0
    for g in guards:
        if g.head in ("ge", "eq") and symbols(g) == {name}:
            found = dict(g.args[0].terms)
            slope = next(c for m, c in found.items() if m)
            if len(found) <= 2 and slope in (1, -1) and g.head == "ge":
                low, high = (max(low, -found.get((), 0)), high) if slope == 1 else (low, found.get((), 0) + 1)
    return low, high


def elements(
    spec: OpSpec,
    operands: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
    places: Sequence[tuple[int, ...]],
    more: Mapping[str, Callable[..., float]],
) -> tuple[tuple[int, ...], list[float]]:
    """Return the shape of an operator's result by its type rule, and elements of it by its definition.

    Args:
        spec: The operator.
        operands: The operands.
        attrs: All attributes.
        places: The places of the elements.
        more: Functions that the definition leaves open.
    """
    keys = tuple(range(-1, -AXES - 1, -1))
    types = Reading(keys, AXES)
    tensors = []
    for n, x in enumerate(operands):
        kind = types.explicit(str(x.dtype), x.shape)
        tensors.append(Tensor(kind, _reader(f"x{n}", keys)))
    assert spec.infer is not None, spec.name
    kind = spec.infer(types, [t.kind for t in tensors], attrs)
    shape = tuple(_number(kind.dim(k)) for k in range(-_number(kind.rank), 0))
    call = Call(tensors, attrs, kind, types)

    def reads(name: str, index: Sequence[int]) -> float:
        x = operands[int(name[1:])]
        return float(x[tuple(index[k] for k in range(x.ndim - 1, -1, -1))])

    found = []
    for at in places:
        restart()
        value = DEFINITIONS[spec.name](call, _indexed(at))
        found.append(element(value, reads, more))
    return shape, found


def _indexed(at: tuple[int, ...]) -> Callable[[Any], Int]:
    index = {k - len(at): num(n) for k, n in enumerate(at)}
    return lambda key: index.get(key, num(0))


def _reader(name: str, keys: Sequence[Any]) -> Callable[[Any], Value]:
    return lambda i: one(factor("read", name, *(i(k) for k in keys)))
