"""The element of a composite's result in a proof, read from its equations: a declaration is a definition too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from workbench.kernels.composites.composite import Composite, Equation, matched
from workbench.kernels.composites.index import ExtentName, IndexArith, IndexExpr, IndexName, Read, Whole
from workbench.kernels.composites.scalar import Apply, IndexValue, Number, Parameter, Reduce, Scalar
from workbench.laws.theorems.applications import Call, Definition, Index, inverse, placed, put
from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.symbolic_typing import whole
from workbench.laws.theorems.terms import (
    Value,
    apply,
    guarded,
    integer,
    negative,
    number,
    plus,
    summed,
    times,
    top,
    variable,
    within,
)
from workbench.symbolic.integers import (
    Cond,
    Int,
    at_least,
    both,
    div,
    either,
    equal,
    mod,
    mul,
    negated,
    num,
    sub,
    sym,
)
from workbench.symbolic.integers import add as plus_int

_INTEGERS: Final[Mapping[str, Callable[[Int, Int], Int]]] = {
    "+": plus_int,
    "-": sub,
    "*": mul,
    "//": div,
    "%": mod,
}


def element_of(composite: Composite) -> Definition:
    """Return the definition of a composite with one result, for proofs about all extents."""
    return partial(_element, composite)


def _element(composite: Composite, call: Call, i: Index) -> Value:
    extents: dict[str, Any] = {a.name: whole(call.attrs[a.name]) for a in composite.attributes if a.whole}
    own = len(composite.output.dims)
    sides = [
        (d, x.dim(k - len(t.dims)), "")
        for t, x in zip(composite.inputs, call.xs, strict=True)
        for k, d in enumerate(t.dims)
    ]
    matched(sides, composite.conditions, extents, lambda e: _integer(e, extents, {}))
    walk = _Walk(composite, call, i, extents, {e.target: e for e in composite.equations})
    return walk.tensor(composite.output.name, [i(k - own) for k in range(own)])


def _integer(e: IndexExpr, extents: Mapping[str, Int], places: Mapping[str, Int]) -> Int:
    match e:
        case Whole(value):
            return num(value)
        case ExtentName(name) if name in extents:
            return extents[name]
        case IndexName(name):
            return places[name]
        case IndexArith(op, left, right):
            return _INTEGERS[op](_integer(left, extents, places), _integer(right, extents, places))
    raise NotCovered(f"the place {e} of a composite")


class _Walk:
    """Equations, walked from the result to the operands at one index."""

    def __init__(
        self,
        composite: Composite,
        call: Call,
        i: Index,
        extents: Mapping[str, Int],
        made: Mapping[str, Equation],
    ) -> None:
        self.composite, self.call, self.i, self.extents, self.made = composite, call, i, extents, made
        self.operands = {t.name: x for t, x in zip(composite.inputs, call.xs, strict=True)}
        self.own = len(composite.output.dims)

    def tensor(self, name: str, at: Sequence[Int]) -> Value:
        """Return the element of a tensor at places of its own axes, and at the index of the leading ones."""
        if name in self.made:
            e = self.made[name]
            return self.value(e.value, dict(zip(e.names, at, strict=True)))
        x, declared = self.operands[name], self.composite.tensor(name)
        places = {k - len(at): place for k, place in enumerate(at)}
        if not declared.leading:
            return x.at(put(lambda _: num(0), places))
        if len(at) != self.own:
            raise NotCovered("leading axes of a composite that are counted from another axis")
        kind = self.call.kind
        return x.at(put(lambda key: placed(x.dim(key), self.i(key), kind.dim(key)), places))

    def value(self, e: Scalar, places: Mapping[str, Int]) -> Value:
        """Return the value of a scalar expression with its indices at places."""
        match e:
            case Number(value):
                return number(value)
            case Parameter(name):
                return self.call.real(name)
            case IndexValue(index):
                return integer(self.integer(index, places))
            case Read():
                return self.tensor(e.tensor, [self.integer(j, places) for j in e.indices])
            case Apply("where", (condition, yes, no)):
                holds = self.condition(condition, places)
                return plus(
                    guarded(holds, self.value(yes, places)), guarded(negated(holds), self.value(no, places))
                )
            case Apply(function, operands):
                return _applied(function, [self.value(x, places) for x in operands])
            case Reduce():
                return self.reduced(e, places)
        raise NotCovered(f"{e} in a composite")

    def reduced(self, e: Reduce, places: Mapping[str, Int]) -> Value:
        """Return the value of a sum or of a largest element."""
        extents = [self.integer(b.extent, places) for b in e.over]

        def inner(at: Sequence[Int]) -> Value:
            return self.value(e.body, {**places, **{b.name: p for b, p in zip(e.over, at, strict=True)}})

        if e.function == "sum":
            return summed(extents, inner)
        if e.function != "max":
            raise NotCovered(f"{e.function} in a composite")
        names = [variable() for _ in extents]
        guards = [g for n, x in zip(names, extents, strict=True) for g in within(sym(n), x)]
        return top(names, guards, inner([sym(n) for n in names]))

    def integer(self, e: IndexExpr, places: Mapping[str, Int]) -> Int:
        """Return the value of a whole-number expression."""
        return _integer(e, self.extents, places)

    def condition(self, e: Scalar, places: Mapping[str, Int]) -> Cond:
        """Return a condition on indices; raise NotCovered for one on values."""
        if isinstance(e, Apply):
            if e.function in ("and", "or", "not"):
                parts = [self.condition(x, places) for x in e.operands]
                if e.function == "not":
                    return negated(*parts)
                return both(*parts) if e.function == "and" else either(*parts)
            if e.function in ("less", "atmost", "equal"):
                a, b = (self.compared(x, places) for x in e.operands)
                if e.function == "equal":
                    return equal(a, b)
                return at_least(b, a if e.function == "atmost" else plus_int(a, num(1)))
        raise NotCovered(f"the condition {e} of a composite")

    def compared(self, e: Scalar, places: Mapping[str, Int]) -> Int:
        if isinstance(e, IndexValue):
            return self.integer(e.value, places)
        if isinstance(e, Number) and float(e.value).is_integer():
            return num(int(e.value))
        raise NotCovered(f"the number {e} in a condition of a composite")


def _applied(function: str, xs: Sequence[Value]) -> Value:
    """Return a function of values."""
    match function:
        case "add":
            return plus(*xs)
        case "sub":
            return plus(xs[0], negative(xs[1]))
        case "mul":
            return times(*xs)
        case "fma":
            return plus(times(xs[0], xs[1]), xs[2])
        case "div":
            return times(xs[0], inverse(xs[1]))
        case "neg":
            return negative(xs[0])
        case "less" | "atmost" | "equal" | "and" | "or" | "not":
            raise NotCovered(f"the truth value {function} as a number")
    return apply(function, *xs)
