"""Comprehensions: the element of a tensor as a sum of products, over index variables with guards.

A *value* is a sum of terms. A *term* is a coefficient and a product of factors, summed over all integers that
its variables may take if its guards hold. A border, a part of a concatenation or the extent of a sum is a
guard. The functions of this module build values, and so use the laws of the scalar ring and of finite sums
(sums are linear, products distribute over them, sums of sums are sums over both variables) and those of pointwise
functions. ``rules/kernel.md`` lists the laws, each under its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import count
from typing import Any, Final

from workbench.symbolic.integers import (
    FALSE,
    RANGES,
    TRUE,
    Atom,
    Cond,
    Int,
    at_least,
    atoms,
    is_positive,
    num,
    of_atom,
    replaced,
    replaced_in,
    single,
    sub,
    sym,
    symbols,
)


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product.

    ``read`` (a tensor's name, its indices), ``fn`` (a function's name, values), ``top`` (variables, guards, a
    value: the largest of it), ``int`` (an integer as a number), ``over`` (one divided by a positive integer)
    or ``param`` (the name of a number that a rule binds).
    """

    head: str
    args: tuple[Any, ...]
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.text == other.text

    def __repr__(self) -> str:
        return self.text

    @property
    def integers(self) -> tuple[Int, ...]:
        """Return the integers that the factor has itself: its indices, or its number."""
        return tuple(x for x in self.args if isinstance(x, Int))

    @property
    def values(self) -> tuple[Value, ...]:
        """Return the values inside: a function's operands, or that of which it is the largest."""
        return self.args[1:] if self.head == "fn" else self.args[2:] if self.head == "top" else ()

    @property
    def guards(self) -> tuple[Cond, ...]:
        """Return the conditions under which it is the largest of a value."""
        return self.args[1] if self.head == "top" else ()


@dataclass(frozen=True, slots=True)
class Term:
    """A coefficient times a product, summed over the variables for which the guards hold."""

    coef: Fraction
    variables: tuple[str, ...]
    guards: tuple[Cond, ...]
    factors: tuple[Factor, ...]

    @property
    def text(self) -> str:
        """Return the term as text."""
        inner = "".join(f"[{g.text}]" for g in self.guards) + "*".join(f.text for f in self.factors)
        return f"{self.coef}*S({','.join(self.variables)})({inner})"

    def __repr__(self) -> str:
        return self.text


Value = tuple[Term, ...]
ZERO: Final[Value] = ()


def text_of(value: Value) -> str:
    """Return a value as text."""
    return " + ".join(t.text for t in value) or "0"


_fresh = count()


def restart(first: int = 0) -> None:
    """Start the numbers of new variables again, so that the same definitions give the same names."""
    global _fresh
    _fresh = count(first)
    RANGES.clear()


def variable() -> str:
    """Return the name of a new variable."""
    return f"#{next(_fresh)}"


def apart(names: Iterable[str]) -> dict[str, Int]:
    """Return a new variable for each of several."""
    return {n: sym(variable()) for n in names}


def term(
    coef: Fraction, variables: Iterable[str], guards: Iterable[Cond], factors: Iterable[Factor]
) -> Value:
    """Return the value of one term.

    Args:
        coef: The coefficient.
        variables: The variables to sum over.
        guards: The conditions for which terms count.
        factors: The factors of the product.
    """
    flat: dict[str, Cond] = {}
    for g in guards:
        for c in g.args if g.head == "and" else (g,):
            if c == FALSE:
                return ZERO
            if c != TRUE:
                flat[c.text] = c
    if not coef:
        return ZERO
    kept, scale = [], coef
    for f in factors:
        if f.head in ("int", "over") and (known := f.args[0].value) is not None:
            scale = scale * known if f.head == "int" else scale / known
        else:
            kept.append(f)
    if not scale:
        return ZERO
    product = sorted(_cancelled(kept), key=lambda f: f.text)
    return (Term(scale, tuple(variables), tuple(flat[k] for k in sorted(flat)), tuple(product)),)


def _cancelled(factors: list[Factor]) -> list[Factor]:
    """Return factors without those whose product is 1: ``n * (1/n)`` and ``exp(x) * exp(-x)``."""
    kept: list[Factor] = []
    for f in factors:
        other = _inverse_text(f)
        found = next((g for g in kept if g.text == other), None) if other else None
        if found is None:
            kept.append(f)
        else:
            kept.remove(found)
    return kept


def _inverse_text(f: Factor) -> str:
    if f.head == "int" and is_positive(f.args[0]):
        return f"over({f.args[0].text})"
    if f.head == "over" and is_positive(f.args[0]):
        return f"int({f.args[0].text})"
    if f.head == "fn" and f.args[0] == "exp":
        return factor("fn", "exp", negative(f.args[1])).text
    return ""


def factor(head: str, *args: Any) -> Factor:
    """Return a factor; values inside it get variables of one naming, so that equal ones have equal names."""
    if head == "fn":
        args = (args[0], *(_canonical(v) for v in args[1:]))
        text = f"{args[0]}({' ; '.join(text_of(v) for v in args[1:])})"
    elif head == "top":
        names, guards, inner = args
        level = _level(inner)
        by = {n: sym(f"%{level}.{k}") for k, n in enumerate(names)}
        inner = _canonical(in_value(inner, by))
        guards = tuple(sorted((replaced_in(g, by) for g in guards), key=lambda c: c.text))
        args = (tuple(s.symbol for s in by.values()), guards, inner)
        text = f"top({','.join(args[0])})({''.join(f'[{g.text}]' for g in guards)}{text_of(inner)})"
    elif head == "read":
        text = f"{args[0]}[{','.join(i.text for i in args[1:])}]"
    else:
        text = f"{head}({args[0] if isinstance(args[0], str) else args[0].text})"
    return Factor(head, args, text)


def _level(*values: Value) -> int:
    """Return how many functions and largest values are inside one another in values, plus 1."""
    inner = (f for v in values for t in v for f in t.factors if f.head in ("fn", "top"))
    return 1 + max((_level(*f.values) for f in inner), default=0)


def _canonical(value: Value) -> Value:
    level = _level(value)
    made = (_named(t, [f"%{level}.{k}" for k in range(len(t.variables))]) for t in value)
    return tuple(sorted(made, key=lambda t: t.text))


def _named(t: Term, names: Sequence[str]) -> Term:
    """Return a term whose variables have these names, in order."""
    by = {old: new for old, new in zip(t.variables, names, strict=True) if old != new}
    if not by:
        return t
    # A renaming that exchanges names needs new names in between.
    between = apart(by)
    return rename_term(rename_term(t, between), {str(x.symbol): sym(by[n]) for n, x in between.items()})


# -- substitution --------------------------------------------------------------------------------------
def in_factor(f: Factor, by: Mapping[str, Int]) -> Value:
    """Return the value of a factor with variables and symbols replaced."""
    if f.head == "param" or not any(s in f.text for s in by):
        return one(f)
    if f.head == "read":
        return one(factor("read", f.args[0], *(replaced(i, by) for i in f.args[1:])))
    if f.head == "int":
        return integer(replaced(f.args[0], by))
    if f.head == "over":
        return over(replaced(f.args[0], by))
    if f.head == "fn":
        return apply(f.args[0], *(in_value(v, by) for v in f.values))
    names, guards, inner = f.args
    own = apart(names)
    return top(
        [str(s.symbol) for s in own.values()],
        [replaced_in(replaced_in(g, own), by) for g in guards],
        in_value(in_value(inner, own), by),
    )


def in_term(t: Term, by: Mapping[str, Int]) -> Value:
    """Return the value of a term with symbols replaced that its sum does not bind."""
    taken = set(by).union(*(symbols(x) for x in by.values()))
    if taken & set(t.variables):
        t = rename_term(t, apart(n for n in t.variables if n in taken))
    product = reduce(times, (in_factor(f, by) for f in t.factors), number(t.coef))
    return total(t.variables, [replaced_in(g, by) for g in t.guards], product)


def in_value(value: Value, by: Mapping[str, Int]) -> Value:
    """Return a value with symbols replaced."""
    return plus(*(in_term(t, by) for t in value)) if by else value


def rename_term(t: Term, by: Mapping[str, Int]) -> Term:
    """Return a term with other names of its variables."""
    names = tuple(str(by[n].symbol) if n in by else n for n in t.variables)
    found = in_term(Term(t.coef, (), t.guards, t.factors), by)
    assert len(found) == 1, "a renaming keeps the number of terms"
    return Term(found[0].coef, (*names, *found[0].variables), found[0].guards, found[0].factors)


def free_symbols(f: Factor) -> frozenset[str]:
    """Return the symbols that a factor has free."""
    known = (*map(symbols, (*f.integers, *f.guards)), *map(_free_of, f.values))
    return frozenset().union(*known).difference(f.args[0] if f.head == "top" else ())


def _free_of(value: Value) -> frozenset[str]:
    found = (
        frozenset().union(*map(free_symbols, t.factors), *map(symbols, t.guards)).difference(t.variables)
        for t in value
    )
    return frozenset().union(*found)


def atoms_of(value: Value) -> Iterator[Atom]:
    """Yield the atoms of all indices, numbers and guards in a value."""
    for t in value:
        guards = [*t.guards, *(g for f in t.factors for g in f.guards)]
        yield from (a for g in guards for a in atoms(g))
        yield from (a for f in t.factors for x in f.integers for a in atoms(x))
        for v in (v for f in t.factors for v in f.values):
            yield from atoms_of(v)


# -- the ring -----------------------------------------------------------------------------------------
def one(*factors: Factor) -> Value:
    """Return a product."""
    return term(Fraction(1), (), (), factors)


def number(value: float | Fraction) -> Value:
    """Return a number; a decimal is exact as written."""
    exact = value if isinstance(value, Fraction) else Fraction(repr(float(value)))
    return term(exact, (), (), ())


def integer(x: Int) -> Value:
    """Return an integer as a number: a sum of products of symbols."""
    made = [term(Fraction(c), (), (), [factor("int", of_atom(a)) for a in m]) for m, c in x.terms]
    return plus(*made)


def over(x: Int) -> Value:
    """Return one divided by a positive integer, of a product factor by factor."""
    if len(x.terms) == 1 and x.terms[0][1] > 0:
        m, c = x.terms[0]
        return term(Fraction(1, c), (), (), [factor("over", of_atom(a)) for a in m])
    return one(factor("over", x))


def plus(*values: Value) -> Value:
    """Return a sum, in which equal terms are one."""
    found: dict[tuple[Any, ...], Term] = {}
    for t in (t for v in values for t in v):
        key = (t.variables, t.guards, t.factors)
        if key in found:
            t = Term(t.coef + found[key].coef, t.variables, t.guards, t.factors)
        found[key] = t
    return tuple(sorted((t for t in found.values() if t.coef), key=lambda t: t.text))


def collected(value: Value) -> Value:
    """Return a value in which terms are one that differ in the names of their variables alone.

    A variable that only 0 is left for is 0, and the others get the names ``#0``, ``#1`` in their order.
    """
    return plus(*(_collected(t) for t in value))


def _collected(t: Term) -> Value:
    zero = dict.fromkeys(_only_zero(t.variables, t.guards), num(0))
    left = tuple(n for n in t.variables if n not in zero)
    names = [f"#{k}" for k in range(len(left))]
    found = in_term(Term(t.coef, (), t.guards, t.factors), zero)
    return tuple(_named(Term(u.coef, left, u.guards, u.factors), names) for u in found)


def _only_zero(names: Iterable[str], guards: Iterable[Cond]) -> list[str]:
    """Return the variables for which guards leave only 0."""
    texts = {g.text for g in guards}
    return [n for n in names if {f"ge(1*{n})", f"ge(-1*{n})"} <= texts]


def negative(value: Value) -> Value:
    """Return the opposite value."""
    return tuple(
        sorted((Term(-t.coef, t.variables, t.guards, t.factors) for t in value), key=lambda t: t.text)
    )


def times(x: Value, y: Value) -> Value:
    """Return a product: of every term with every term."""
    if {n for t in x for n in t.variables} & {n for t in y for n in t.variables}:
        y = tuple(rename_term(t, apart(t.variables)) for t in y)
    made = [
        term(s.coef * t.coef, s.variables + t.variables, s.guards + t.guards, s.factors + t.factors)
        for s in x
        for t in y
    ]
    return plus(*made)


def guarded(condition: Cond, value: Value) -> Value:
    """Return a value if a condition holds, and 0 otherwise."""
    return total((), (condition,), value)


def total(names: Sequence[str], guards: Sequence[Cond], value: Value) -> Value:
    """Return the sum of a value over variables for which guards hold."""
    return plus(*(term(t.coef, (*names, *t.variables), (*guards, *t.guards), t.factors) for t in value))


def within(x: Int, extent: Int) -> tuple[Cond, Cond]:
    """Return the conditions that an index lies inside an axis."""
    return at_least(x, num(0)), at_least(extent, sub(x, num(-1)))


def indices(extents: Sequence[Int]) -> tuple[list[str], list[Int], list[Cond]]:
    """Return new variables, by name and as integers, with the conditions that they lie from 0 below extents."""
    names = [variable() for _ in extents]
    places = [sym(n) for n in names]
    return names, places, [c for p, e in zip(places, extents, strict=True) for c in within(p, e)]


def summed(extents: Sequence[Int], value: Callable[[list[Int]], Value]) -> Value:
    """Return the sum of a value over indices from 0 below extents."""
    names, places, guards = indices(extents)
    RANGES.update(zip(names, extents, strict=True))
    return total(names, guards, value(places))


def top(names: Sequence[str], guards: Sequence[Cond], value: Value) -> Value:
    """Return the largest of a value over variables for which guards hold.

    A variable that only 0 is left for is 0, the largest of largest values is one over all variables, and
    terms without the variables are next to it.
    """
    names, guards = list(names), [g for g in guards if g != TRUE]
    for n in _only_zero(names, guards):
        names.remove(n)
        guards = [h for g in guards if (h := replaced_in(g, {n: num(0)})) != TRUE]
        value = in_value(value, {n: num(0)})
    if not names and not guards:
        return value
    inner = only_factor(value)
    if inner is not None and inner.head == "top":
        own = apart(inner.args[0])
        return top(
            [*names, *(str(s.symbol) for s in own.values())],
            [*guards, *(replaced_in(g, own) for g in inner.args[1])],
            in_value(inner.args[2], own),
        )
    beside = tuple(t for t in value if not _free_of((t,)) & set(names))
    if beside and len(beside) < len(value):
        return plus(top(names, guards, tuple(t for t in value if t not in beside)), beside)
    return one(factor("top", tuple(names), tuple(guards), value))


def only_factor(value: Value) -> Factor | None:
    """Return the one factor that a value is, or None."""
    product = _product(value)
    return product.factors[0] if product and product.coef == 1 and len(product.factors) == 1 else None


def constant(value: Value) -> Fraction | None:
    """Return the number that a value is, or None."""
    if not value:
        return Fraction(0)
    product = _product(value)
    return product.coef if product and not product.factors else None


def _product(value: Value) -> Term | None:
    """Return the one term that a value is if it is not a sum, or None."""
    return value[0] if len(value) == 1 and not value[0].variables and not value[0].guards else None


# -- pointwise functions -------------------------------------------------------------------------------
#: Functions that have no value for some numbers.
PARTIAL: Final = frozenset({"reciprocal", "sqrt", "log", "pow"})
#: Sets of risks: terms without a value for some numbers, as text, while :func:`with_risks` makes a value.
_NOTED: Final[list[set[str]]] = []


def with_risks(make: Callable[[], Value]) -> tuple[Value, set[str]]:
    """Return a value, and what may have no value in it or in what cancels while it is made."""
    _NOTED.append(set())
    try:
        return make(), _NOTED[-1]
    finally:
        _NOTED.pop()


def note_risk(text: str) -> None:
    """Note something that has no value for some numbers; a variable of a sum is named by its extent."""
    if _NOTED:
        _NOTED[-1].add(_VARIABLE.sub(lambda m: f"<{RANGES[m[0]].text if m[0] in RANGES else m[0]}>", text))


_VARIABLE: Final = re.compile(r"#\d+")


def _outright(value: Value) -> Value:
    """Return a value that reads tensors at plain places: inside an axis of one element a place is 0 anyway."""
    return plus(*(term(t.coef, t.variables, t.guards, map(_outright_factor, t.factors)) for t in value))


def _outright_factor(f: Factor) -> Factor:
    if f.head == "fn":
        return factor("fn", f.args[0], *map(_outright, f.args[1:]))
    return (
        factor("read", f.args[0], *(_place_in(f.args[0], i) for i in f.args[1:])) if f.head == "read" else f
    )


def _place_in(tensor: str, place: Int) -> Int:
    atom = single(place)
    if atom is None or atom.head != "bc" or not (atom.args[0].symbol or "").startswith(f"+{tensor} "):
        return place
    while atom is not None and atom.head == "bc":  # each has the extent to which the one around it broadcasts
        place = atom.args[1]
        atom = single(place)
    return place


def _note_risks(name: str, x: Value, y: Value) -> None:
    global _fresh
    first = next(_fresh)
    x, y = _outright(x), _outright(y)
    if name == "reciprocal" and (product := _product(x)) is not None:
        for f in product.factors:  # a product is 0 if one of its factors is
            if not _is_positive(f) and not (f.head == "fn" and f.args[0] == name):
                note_risk(f"{name} {f.text}")
    elif name == "reciprocal":
        if not x or not all(t.coef > 0 and all(map(_is_positive, t.factors)) for t in x):
            note_risk(factor("fn", name, x).text)
    elif name == "pow" or (known := constant(x)) is None or known < 0 or (name == "log" and not known):
        note_risk(factor("fn", name, *((x, y) if name == "pow" else (x,))).text)
    _fresh = count(first)  # the steps of a proof name variables by their numbers


def _is_positive(f: Factor) -> bool:
    if f.head == "fn" and f.args[0] == "sqrt":
        return (constant(f.args[1]) or 0) > 0
    return (f.head == "fn" and f.args[0] == "exp") or (f.head in ("int", "over") and is_positive(f.args[0]))


def apply(name: str, *values: Value) -> Value:
    """Return a function of values, by the laws of that function if there are some."""
    law = LAWS.get(name)
    found = law(*values) if law is not None else None
    if _NOTED and name in PARTIAL and (name != "pow" or found is None):
        _note_risks(name, values[0], values[-1])
    return one(factor("fn", name, *values)) if found is None else found


# -- the laws of functions -----------------------------------------------------------------------------
def _exp(x: Value) -> Value | None:
    if not x:
        return number(1)
    if len(x) == 1:
        return None
    return reduce(times, (apply("exp", (t,)) for t in x), number(1))


def _reciprocal(x: Value) -> Value | None:
    if len(x) != 1:
        return None
    t = x[0]
    rest = [f for f in t.factors if free_symbols(f) & set(t.variables)]
    outer = [f for f in t.factors if f not in rest]
    if any(not symbols(g) & set(t.variables) for g in t.guards):
        return None
    product = reduce(times, map(_reciprocal_of, outer), number(1 / t.coef))
    if not t.variables and not t.guards:
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
        return reduce(times, [x] * int(power))
    if power == Fraction(1, 2):
        return apply("sqrt", x)
    if power in (-1, Fraction(-1, 2)):
        return apply("reciprocal", x if power == -1 else apply("sqrt", x))
    return None


def _lattice(name: str, choose: Callable[..., Any]) -> Callable[..., Value | None]:
    def law(*values: Value) -> Value | None:
        flat: dict[str, Value] = {}
        for v in values:
            f = only_factor(v)
            for w in f.values if f is not None and f.head == "fn" and f.args[0] == name else (v,):
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
    f = only_factor(x)
    return x if f is not None and f.head == "fn" and f.args[0] == "abs" else None


#: The laws of functions: a value, or None if no law applies.
LAWS: Final[Mapping[str, Callable[..., Value | None]]] = {
    "exp": _exp,
    "reciprocal": _reciprocal,
    "sqrt": _sqrt,
    "pow": _pow,
    "max": _lattice("max", max),
    "min": _lattice("min", min),
    "abs": _absolute,
}
