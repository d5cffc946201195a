"""Definitions of operators that act on single elements or move them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench.laws.theorems.applications import (
    DEFINITIONS,
    ELEMENT,
    PI,
    Call,
    Definition,
    Index,
    bordered,
    defines,
    inverse,
    largest,
    put,
)
from workbench.laws.theorems.axes import REST, NotCovered, Perm, key_text, shown
from workbench.laws.theorems.symbolic_typing import Kind, key_of, signature, whole
from workbench.laws.theorems.terms import Value, apply, negative, note_risk, number, one, plus, times, within
from workbench.symbolic.integers import Int, call, div, mod, mul, num, single, sub
from workbench.symbolic.integers import add as plus_int


# -- elementwise ---------------------------------------------------------------------------------------
def _binary(f: Callable[[Value, Value], Value]) -> Definition:
    return lambda c, i: f(c.xs[0].spread(i, c.kind), c.xs[1].spread(i, c.kind))


def _unary(f: Callable[[Value, Call], Value]) -> Definition:
    return lambda c, i: f(c.xs[0].at(i), c)


def _named(name: str) -> Definition:
    return _unary(lambda x, c: apply(name, x))


def _clip(x: Value, c: Call) -> Value:
    for name, f in (("low", "max"), ("high", "min")):
        bound = c.attrs[name]
        if not (isinstance(bound, float) and math.isinf(bound)):
            x = apply(f, x, c.real(name))
        elif (bound > 0) == (name == "low"):
            raise NotCovered("a bound of the wrong infinity")
    return x


def _gelu(x: Value, c: Call) -> Value:
    if not isinstance(c.attrs["tanh"], int):
        return apply(f"gelu {whole(c.attrs['tanh'])}", x)
    if c.attrs["tanh"]:
        cubic = times(number(0.044715), times(x, times(x, x)))
        bent = apply("tanh", times(plus(x, cubic), apply("sqrt", times(number(2), inverse(PI)))))
    else:
        bent = apply("erf", times(x, inverse(apply("sqrt", number(2)))))
    return times(times(x, plus(bent, number(1))), number(0.5))


def _hardswish(x: Value, c: Call) -> Value:
    inner = apply("min", largest(plus(x, number(3)), number(0)), number(6))
    return times(times(x, inner), inverse(number(6)))


DEFINITIONS.update(
    {
        "add": _binary(plus),
        "sub": _binary(lambda x, y: plus(x, negative(y))),
        "mul": _binary(times),
        "div": _binary(lambda x, y: times(x, inverse(y))),
        "max": _binary(largest),
        "min": _binary(lambda x, y: apply("min", x, y)),
        "pow": _binary(lambda x, y: apply("pow", x, y)),
        "relu": _unary(lambda x, c: largest(x, number(0))),
        "neg": _unary(lambda x, c: negative(x)),
        "identity": _unary(lambda x, c: x),
        "reciprocal": _unary(lambda x, c: inverse(x)),
        "clip": _unary(_clip),
        "leakyrelu": _unary(lambda x, c: apply("leakyrelu", x, c.real("alpha"))),
        "select": lambda c, i: apply("select", *(x.spread(i, c.kind) for x in c.xs)),
        "gelu": _unary(_gelu),
        "swish": _unary(lambda x, c: times(x, apply("sigmoid", times(x, c.real("alpha"))))),
        "hardswish": _unary(_hardswish),
        "expand": lambda c, i: c.xs[0].spread(i, c.kind),
    }
)
for _name in ("sigmoid", "tanh", "erf", "exp", "log", "cos", "sin", "sqrt", "abs", "is_nan"):
    DEFINITIONS[_name] = _named(_name)


@defines("cast")
def _cast(c: Call, i: Index) -> Value:
    source, to = c.types.dtype(c.xs[0].kind.dtype), c.types.dtype(c.attrs["to"])
    x = c.xs[0].at(i)
    # A number that the other type has too is kept as it is.
    return x if c.types.contains(to, source) else apply(f"cast {source} to {to}", x)


@defines("quantize")
def _quantize(c: Call, i: Index) -> Value:
    x, s, z = (t.spread(i, c.kind) for t in c.xs)
    return apply(f"quantize to {c.types.dtype(c.attrs['to'])}", times(x, inverse(s)), z)


@defines("dequantize")
def _dequantize(c: Call, i: Index) -> Value:
    q, s, z = (t.spread(i, c.kind) for t in c.xs)
    return times(plus(q, negative(z)), s)


# -- layout --------------------------------------------------------------------------------------------
@defines("concat")
def _concat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    start, parts = num(0), []
    for x in c.xs:
        place = sub(i(key), start)
        parts.append(bordered(within(place, x.dim(key)), x.at(put(i, {key: place}))))
        start = plus_int(start, x.dim(key))
    return plus(*parts)


@defines("rotary")
def _rotary(c: Call, i: Index) -> Value:
    heads, cosines, sines = c.xs
    half, here = cosines.dim(-1), i(-1)

    def turned(place: Int, partner: Int, row: Int) -> tuple[Value, Value]:
        table = put(i, {-1: row, -3: num(0), -4: num(0)})
        return (
            times(heads.at(put(i, {-1: place})), cosines.at(table)),
            times(heads.at(put(i, {-1: partner})), sines.at(table)),
        )

    back = sub(here, half)
    (x, y), (z, w) = turned(here, plus_int(here, half), here), turned(here, back, back)
    first, second = plus(x, negative(y)), plus(z, w)
    return plus(bordered(within(here, half), first), bordered(within(back, half), second))


@defines("slice")
def _slice(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: plus_int(c.int("start"), mul(i(key), c.int("step")))}))


@defines("transpose")
def _transpose(c: Call, i: Index) -> Value:
    perm = c.attrs["perm"]
    if isinstance(perm, Perm):
        return c.xs[0].at(lambda key: i(perm.back(key)))
    return c.xs[0].at(put(i, {shown(perm, k): i(k) for k in range(-len(perm), 0)}))


@defines("gather")
def _gather(c: Call, i: Index) -> Value:
    # Row n of a matrix, where n is an element of the places at the other indices of the result. All axes
    # without a number share one index, which stands for theirs. Nothing is known of n, not even that a shorter
    # matrix has such a row, or that a negative number counts from the same end.
    def moved(key: Any) -> Int:
        return i(key - 1 if isinstance(key, int) and -key < c.types.literal else REST)

    matrix, places = c.xs
    read = places.at(moved)
    if len(read) != 1 or [f.head for f in read[0].factors] != ["read"] or read != one(*read[0].factors):
        raise NotCovered("places that are computed")
    name, *indices = read[0].factors[0].args
    row = call(ELEMENT + name, *indices, matrix.dim(-2))
    note_risk(row.text)
    return matrix.at(put(i, {-2: row}))


@defines("repeat")
def _repeat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: div(i(key), c.int("times"))}))


@defines("pad")
def _pad(c: Call, i: Index) -> Value:
    (x,), (t, left, _, _) = c.xs, c.numbers("pads")
    places = {-2: sub(i(-2), t), -1: sub(i(-1), left)}
    inside = [g for key, p in places.items() for g in within(p, x.dim(key))]
    outside = plus(c.real("value"), negative(bordered(inside, c.real("value"))))
    return plus(bordered(inside, x.at(put(i, places))), outside)


@defines("reshape")
def _reshape(c: Call, i: Index) -> Value:
    (x,) = c.xs
    if signature(c.types, x.kind) == signature(c.types, c.kind):
        return x.at(i)
    numbered = range(-1, -c.types.literal - 1, -1)
    row = _row(c, i)
    inner = num(1)
    for k in numbered:
        row = plus_int(row, mul(inner, i(k)))
        inner = mul(inner, c.kind.dim(k))
    places: dict[Any, Int] = {}
    inner = num(1)
    for k in numbered:
        extent = x.dim(k)
        outer = _leading(c, x.kind) is None and all(x.dim(o) == num(1) for o in numbered if o < k)
        place = num(0) if extent == num(1) else div(row, inner)
        places[k] = place if outer or extent == num(1) else mod(place, extent)
        inner = mul(inner, extent)
    there = _leading(c, x.kind)
    if there is None:
        return x.at(put(lambda _: num(0), places))
    lead = div(row, inner)
    return x.at(put(lambda key: call(f"place {key_text(key)} {there}", lead), places))


def _leading(c: Call, kind: Kind) -> str | None:
    """Return the extents of the axes without a number, as text, or None if they are all 1."""
    others = [k for k in c.types.keys if isinstance(k, str)]
    if all(kind.dim(k) == num(1) for k in others):
        return None
    return "|".join(kind.dim(k).text for k in others)


def _row(c: Call, i: Index) -> Int:
    """Return the number of elements before the index, in the shape without its numbered axes, times theirs.

    The place of an index in the row of all elements is a function of index and shape; that of an index which
    was made from such a place is the place itself.
    """
    here = _leading(c, c.kind)
    if here is None:
        return num(0)
    others = [k for k in c.types.keys if isinstance(k, str)]
    indices = [i(k) for k in others]
    sources = set()
    for k, x in zip(others, indices, strict=True):
        atom = single(x)
        sources.add(atom.args[0] if atom is not None and atom.head == f"place {k} {here}" else None)
    (first, *more) = sources
    found = first if first is not None and not more else call(f"row {here}", *indices)
    for n in range(-1, -c.types.literal - 1, -1):
        found = mul(found, c.kind.dim(n))
    return found
