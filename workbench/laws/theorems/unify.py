"""Unification of terms: equations between indices, their solution, and the ways to pair factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workbench.laws.theorems.terms import Factor, Value
from workbench.symbolic.integers import Atom, Cond, Int, mul, neg, num, replaced, single, sub, sym, symbols

#: An integer or a condition as data, ready for JSON.
Data = int | str | list[Any]


# -- data ------------------------------------------------------------------------------------------------
def write_int(x: Int) -> Data:
    """Return an integer as data, which the checker reads back."""
    items = [_product([_atom(a) for a in m], c) for m, c in x.terms]
    return 0 if not items else items[0] if len(items) == 1 else ["+", *items]


def _product(factors: list[Any], c: int) -> Any:
    if not factors:
        return c
    parts = factors if c == 1 else [c, *factors]
    return parts[0] if len(parts) == 1 else ["*", *parts]


def _atom(a: Atom) -> Any:
    if a.head == "sym":
        return a.args[0]
    if a.head == "ite":
        return ["ite", write_condition(a.args[0]), write_int(a.args[1]), write_int(a.args[2])]
    return [a.head, *(write_int(x) for x in a.args)]


def write_condition(c: Cond) -> Data:
    """Return a condition as data."""
    if c.head in ("ge", "eq"):
        return [c.head, write_int(c.args[0])]
    return [c.head, *(write_condition(d) for d in c.args)]


# -- unification -------------------------------------------------------------------------------------------
def equations(x: Int, y: Int) -> list[tuple[Int, Int]]:
    """Return equations that make two indices equal: of their parts, if they are one operation alike."""
    a, b = single(x), single(y)
    if (
        a is not None
        and b is not None
        and a.head == b.head
        and a.head not in ("sym", "ite")
        and len(a.args) == len(b.args)
    ):
        if a.head == "bc" and a.args[0] != b.args[0]:
            return [(x, y)]
        return [e for p, q in zip(a.args, b.args, strict=True) for e in equations(p, q)]
    return [(x, y)]


def solve(wanted: Sequence[str], pairs: Sequence[tuple[Int, Int]]) -> dict[str, Int]:
    """Return the values that equations give to wanted variables; variables without one are left out."""
    found: dict[str, Int] = {}
    todo = [sub(x, y) for x, y in pairs]
    while True:
        progress = False
        for e in todo:
            e = replaced(e, found)
            for m, c in e.terms:
                name = str(m[0].args[0]) if len(m) == 1 and m[0].head == "sym" else ""
                if name not in wanted or abs(c) != 1 or name in found:
                    continue
                rest = sub(e, mul(num(c), sym(name)))
                if symbols(rest) & (set(wanted) - set(found)):
                    continue
                found[name] = neg(rest) if c == 1 else rest
                progress = True
                break
        if not progress:
            return found


def pairings(mine: Sequence[Factor], yours: Sequence[Factor]) -> Iterator[list[int]]:
    """Yield the ways in which factors of one kind and name may be paired."""

    def sort(f: Factor) -> tuple[str, str]:
        return f.head, str(f.args[0]) if f.head in ("read", "fn", "param") else ""

    def extend(k: int, used: tuple[int, ...]) -> Iterator[list[int]]:
        if k == len(mine):
            yield list(used)
            return
        for n, g in enumerate(yours):
            if n not in used and sort(g) == sort(mine[k]):
                yield from extend(k + 1, (*used, n))

    if sorted(map(sort, mine)) == sorted(map(sort, yours)):
        yield from extend(0, ())


def unknowns(f: Factor, g: Factor) -> list[tuple[Int, Int]]:
    """Return the equations between indices that make two factors equal, as far as they are simple."""
    if f.head == g.head == "read":
        return [e for x, y in zip(f.args[1:], g.args[1:], strict=False) for e in equations(x, y)]
    if f.head == g.head == "fn" and len(f.args) == len(g.args):
        found = []
        for v, w in zip(f.args[1:], g.args[1:], strict=True):
            found += _of_values(v, w)
        return found
    if f.head == g.head == "top":
        return _of_values(f.args[2], g.args[2])
    return []


def _of_values(v: Value, w: Value) -> list[tuple[Int, Int]]:
    found: list[tuple[Int, Int]] = []
    for s, t in zip(v, w, strict=False):
        for f, g in zip(s.factors, t.factors, strict=False):
            if f.head == g.head and f.args[0] == g.args[0]:
                found += unknowns(f, g)
    return found
