"""The element of a composite's result in a proof, read from its equations: a declaration is a definition too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import Composite, matched
from workbench.laws.theorems import terms
from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.definitions import Call, Definition, Index, inverse, placed, put
from workbench.laws.theorems.symbolic_typing import whole
from workbench.symbolic.integers import Cond, Int, both, either, equal, negated, num

_JOINED: Final[Mapping[str, Callable[..., Cond]]] = {"and": both, "or": either, "not": negated}
_COMPARED: Final[Mapping[str, Callable[..., Cond]]] = {
    "less": operator.lt,
    "atmost": operator.le,
    "equal": equal,
}
#: Functions that are made of others; the rest are terms of their own.
_APPLIED: Final[Mapping[str, Callable[..., terms.Value]]] = {
    "add": terms.plus,
    "sub": lambda x, y: terms.plus(x, terms.negative(y)),
    "mul": terms.times,
    "fma": lambda x, y, z: terms.plus(terms.times(x, y), z),
    "div": lambda x, y: terms.times(x, inverse(y)),
    "neg": terms.negative,
}


def element_of(composite: Composite) -> Definition:
    """Return the definition of a composite with one result, for proofs about all extents."""
    return partial(_element, composite)


def _element(composite: Composite, call: Call, i: Index) -> terms.Value:
    own = len(composite.output.dims)
    return _Walk(composite, call, i).tensor(composite.output.name, [i(k - own) for k in range(own)])


class _Walk:
    """Equations, walked from the result to the operands at one index."""

    def __init__(self, composite: Composite, call: Call, i: Index) -> None:
        self.composite, self.call, self.i = composite, call, i
        self.made = {e.target: e for e in composite.equations}
        self.operands = {t.name: x for t, x in zip(composite.inputs, call.xs, strict=True)}
        self.extents: dict[str, Any] = {
            a.name: whole(call.attrs[a.name]) for a in composite.attributes if a.whole
        }
        sides = [
            (d, self.operands[t.name].dim(k - len(t.dims)), "")
            for t in composite.inputs
            for k, d in enumerate(t.dims)
        ]
        matched(sides, composite.conditions, self.extents, lambda e: self.integer(e, {}))

    def tensor(self, name: str, at: Sequence[Int]) -> terms.Value:
        """Return the element of a tensor at places of its own axes, and at the index of the leading ones."""
        if name in self.made:
            e = self.made[name]
            return self.value(e.value, dict(zip(e.names, at, strict=True)))
        x, declared = self.operands[name], self.composite.tensor(name)
        places = {k - len(at): place for k, place in enumerate(at)}
        if not declared.leading:
            return x.at(put(lambda _: num(0), places))
        if len(at) != len(self.composite.output.dims):
            raise NotCovered("leading axes of a composite that are counted from another axis")
        kind = self.call.kind
        return x.at(put(lambda key: placed(x.dim(key), self.i(key), kind.dim(key)), places))

    def value(self, e: ix.Scalar, places: Mapping[str, Int]) -> terms.Value:
        """Return the value of a scalar expression with its indices at places."""
        match e:
            case ix.Number(value):
                return terms.number(value)
            case ix.Parameter(name):
                return self.call.real(name)
            case ix.IndexValue(index):
                return terms.integer(self.integer(index, places))
            case ix.Read():
                return self.tensor(e.tensor, [self.integer(j, places) for j in e.indices])
            case ix.Apply("where", (condition, yes, no)):
                holds = self.condition(condition, places)
                chosen = terms.guarded(holds, self.value(yes, places))
                return terms.plus(chosen, terms.guarded(negated(holds), self.value(no, places)))
            case ix.Apply(function, operands):
                if function not in _APPLIED and ix.FUNCTIONS[function].truth:
                    raise NotCovered(f"the truth value {function} as a number")
                applied = _APPLIED.get(function, partial(terms.apply, function))
                return applied(*(self.value(x, places) for x in operands))
            case ix.Reduce():
                return self.reduced(e, places)
        raise NotCovered(f"{e} in a composite")

    def reduced(self, e: ix.Reduce, places: Mapping[str, Int]) -> terms.Value:
        """Return the value of a sum or of a largest element."""
        extents = [self.integer(b.extent, places) for b in e.over]

        def inner(at: Sequence[Int]) -> terms.Value:
            return self.value(e.body, {**places, **{b.name: p for b, p in zip(e.over, at, strict=True)}})

        if e.function == "sum":
            return terms.summed(extents, inner)
        if e.function != "max":
            raise NotCovered(f"{e.function} in a composite")
        names, at, guards = terms.indices(extents)
        return terms.top(names, guards, inner(at))

    def integer(self, e: ix.IndexExpr, places: Mapping[str, Int]) -> Int:
        """Return the value of a whole-number expression."""
        try:
            return ix.computed(e, self.extents, places, num)
        except KeyError as unknown:
            raise NotCovered(f"the place {unknown.args[0]} of a composite") from None

    def condition(self, e: ix.Scalar, places: Mapping[str, Int]) -> Cond:
        """Return a condition on indices; raise NotCovered for one on values."""
        if isinstance(e, ix.Apply) and e.function in _JOINED:
            return _JOINED[e.function](*(self.condition(x, places) for x in e.operands))
        if isinstance(e, ix.Apply) and e.function in _COMPARED:
            return _COMPARED[e.function](*(self.compared(x, places) for x in e.operands))
        raise NotCovered(f"the condition {e} of a composite")

    def compared(self, e: ix.Scalar, places: Mapping[str, Int]) -> Int:
        if isinstance(e, ix.IndexValue):
            return self.integer(e.value, places)
        if isinstance(e, ix.Number) and float(e.value).is_integer():
            return num(int(e.value))
        raise NotCovered(f"the number {e} in a condition of a composite")
