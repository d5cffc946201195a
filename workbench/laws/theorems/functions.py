"""The laws of pointwise functions: exp, reciprocal, sqrt, pow, max, min and abs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from workbench.laws.theorems.terms import (
    LAWS,
    Factor,
    Term,
    Value,
    apply,
    constant,
    factor,
    free_symbols,
    integer,
    negative,
    number,
    one,
    over,
    text_of,
    times,
    total,
)
from workbench.symbolic.integers import is_positive, symbols


def _exp(x: Value) -> Value | None:
    if not x:
        return number(1)
    if len(x) == 1:
        return None
    product = number(1)
    for t in x:
        product = times(product, apply("exp", (t,)))
    return product


def _plain(t: Term) -> bool:
    return not t.variables and not t.guards


def _reciprocal(x: Value) -> Value | None:
    if len(x) != 1:
        return None
    t = x[0]
    outer = [f for f in t.factors if not free_symbols(f) & set(t.variables)]
    rest = [f for f in t.factors if free_symbols(f) & set(t.variables)]
    if any(not symbols(g) & set(t.variables) for g in t.guards):
        return None
    product = number(1 / t.coef)
    for f in outer:
        product = times(product, _reciprocal_of(f))
    if _plain(t):
        return product
    if not outer and t.coef == 1:
        return None
    inner = total(t.variables, t.guards, one(*rest))
    return times(product, apply("reciprocal", inner))


def _reciprocal_of(f: Factor) -> Value:
    if f.head == "int" and is_positive(f.args[0]):
        return over(f.args[0])
    if f.head == "over":
        return integer(f.args[0])
    if f.head == "fn" and f.args[0] == "exp":
        return apply("exp", negative(f.args[1]))
    if f.head == "fn" and f.args[0] == "sqrt":
        inner = constant(f.args[1])
        if inner is not None and inner > 0:
            return times(number(1 / inner), one(f))
    return one(factor("fn", "reciprocal", one(f)))


def _sqrt(x: Value) -> Value | None:
    value = constant(x)
    if value is None or value < 0:
        return None
    if value.denominator == 1:
        return None if value > 1 else number(value)
    return times(number(Fraction(1, value.denominator)), apply("sqrt", number(value * value.denominator**2)))


def _pow(x: Value, y: Value) -> Value | None:
    power = constant(y)
    if power is None:
        return None
    if power in (1, 2, 3):
        product = x
        for _ in range(int(power) - 1):
            product = times(product, x)
        return product
    if power == Fraction(1, 2):
        return apply("sqrt", x)
    if power in (-1, Fraction(-1, 2)):
        return apply("reciprocal", x if power == -1 else apply("sqrt", x))
    return None


def _lattice(name: str, choose: Callable[..., Any]) -> Callable[..., Value | None]:
    def law(*values: Value) -> Value | None:
        flat: dict[str, Value] = {}
        for v in values:
            f = (
                v[0].factors[0]
                if len(v) == 1 and v[0].coef == 1 and _plain(v[0]) and len(v[0].factors) == 1
                else None
            )
            for w in f.args[1:] if f is not None and f.head == "fn" and f.args[0] == name else (v,):
                w = factor("fn", "", w).args[1]
                flat[text_of(w)] = w
        numbers = {k: c for k, v in flat.items() if (c := constant(v)) is not None}
        if len(numbers) > 1:
            kept = choose(numbers.values())
            flat = {k: v for k, v in flat.items() if k not in numbers}
            flat[text_of(number(kept))] = number(kept)
        items = [flat[k] for k in sorted(flat)]
        return items[0] if len(items) == 1 else one(factor("fn", name, *items))

    return law


def _absolute(x: Value) -> Value | None:
    t = x[0] if len(x) == 1 else None
    again = (
        t is not None
        and _plain(t)
        and t.coef == 1
        and [f.args[0] for f in t.factors if f.head == "fn"] == ["abs"]
    )
    return x if again and len(t.factors) == 1 else None  # type: ignore[union-attr]


LAWS.update(
    {
        "exp": _exp,
        "reciprocal": _reciprocal,
        "sqrt": _sqrt,
        "pow": _pow,
        "max": _lattice("max", max),
        "min": _lattice("min", min),
        "abs": _absolute,
    }
)
