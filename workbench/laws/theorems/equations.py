"""Equations among facts, solved for symbols."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.symbolic.integers import Cond, Int, add, is_positive, mul, neg, num, sub, sym, symbols


def solution(facts: Sequence[Cond]) -> tuple[str, Int] | None:
    """Return a symbol and its value according to one of the facts, or None if no fact gives a symbol."""
    for c in facts:
        if c.head == "ge":
            name = add_one(c.args[0]).symbol
            if name is not None and name[0] != "+" and not name.startswith("place"):
                return name, sym("+" + name)
    for c in facts:
        if c.head == "ge":
            (x,) = c.args
            for m, k in x.terms:
                name = m[0].args[0] if len(m) == 1 and m[0].head == "sym" else None
                if name is None:
                    continue
                rest = sub(x, mul(num(k), sym(name)))
                if k == -1 and rest == num(1) and name[0] == "+":
                    return name, num(1)
                start = neg(add_one(rest))
                if (
                    k == 1
                    and name[0] != "+"
                    and start.symbol is not None
                    and not name.startswith(("place", "rank"))
                ):
                    return name, add(start, sym(f"+length {name}"))
        if c.head == "eq":
            found = _ones(c.args[0]) or _solved(c.args[0])
            if found is not None:
                return found
    return None


def add_one(x: Int) -> Int:
    """Return the next integer."""
    return add(x, num(1))


def _solved(x: Int) -> tuple[str, Int] | None:
    candidates = []
    for m, k in x.terms:
        if len(m) == 1 and m[0].head == "sym" and abs(k) == 1:
            name = str(m[0].args[0])
            rest = sub(x, mul(num(k), sym(name)))
            value = neg(rest) if k == 1 else rest
            if name in symbols(rest) or name.startswith("place"):
                continue
            if name[0] != "+" or is_positive(value):
                simple = 0 if value.value is not None else 1 if name[0] == "+" and value.symbol else 2
                candidates.append((simple, name[0] != "+", name, value))
    if candidates:
        _, _, name, value = min(candidates, key=lambda c: (c[0], c[1], _order(c[2])))
        return name, value
    return _divided(x)


def _ones(x: Int) -> tuple[str, Int] | None:
    """Return a symbol as 1, if the equation says that a product of positive symbols is 1."""
    found = dict(x.terms)
    products = [m for m in found if m]
    is_one = len(products) == 1 and found.get((), 0) * found[products[0]] == -1
    if is_one and all(a.positive and a.head == "sym" for a in products[0]):
        return str(products[0][0].args[0]), num(1)
    return None


def _order(name: str) -> tuple[int, str]:
    return (-len(name), name)


def _divided(x: Int) -> tuple[str, Int] | None:
    """Return a symbol as a multiple, if the equation says that a remainder is 0."""
    for m, _ in x.terms:
        for a in m:
            if a.head != "div":
                continue
            top, below = a.args
            quotient = Int((((a,), 1),), f"1*{a.text}")
            if sub(top, mul(below, quotient)) not in (x, neg(x)):
                continue
            for n, k in top.terms:
                if len(n) == 1 and n[0].head == "sym" and k == 1:
                    name = str(n[0].args[0])
                    rest = sub(top, sym(name))
                    if name in symbols(rest) or name in symbols(below):
                        continue
                    if name[0] == "+" and rest != num(0):
                        continue
                    fresh = sym(("+" if name[0] == "+" else "") + f"quotient {name.lstrip('+')}")
                    return name, sub(mul(below, fresh), rest)
    return None
