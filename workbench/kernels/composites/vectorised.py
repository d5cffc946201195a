"""Equations on whole arrays: one walk over the notation, for numpy, torch, exact numbers and ONNX alike.

A value inside an equation is an array whose last axes are some of the indices in scope, after the leading
axes if it has them. Two values are combined after their axes have been brought into the order of the scope,
with axes of extent 1 for the indices that only the other one has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.expressions import (
    FUNCTIONS,
    Apply,
    Bound,
    ExtentName,
    IndexArith,
    IndexExpr,
    IndexName,
    IndexValue,
    Number,
    Parameter,
    Read,
    Reduce,
    Scalar,
    Whole,
    free_indices,
    index_names,
    parts,
    product,
)

H = TypeVar("H")
NUMBER, WHOLE, TRUTH = "number", "whole", "truth"


@dataclass(frozen=True, slots=True)
class Value(Generic[H]):
    """An array in an equation: its handle, the indices of its last axes, and the kind of its elements."""

    handle: H
    axes: tuple[str, ...]
    kind: str = NUMBER
    leading: bool = False


class Arrays(Protocol[H]):
    """Arrays of one kind: those of a library, or names in a program that is written."""

    def begin(self, e: Equation) -> None:
        """Start an equation: from here, numbers are of the target's element type."""

    def tensor(self, name: str) -> H:
        """Return an operand or an earlier target."""

    def number(self, value: float) -> H:
        """Return a number without axes."""

    def parameter(self, name: str) -> H:
        """Return the value of a floating-point attribute."""

    def whole(self, e: IndexExpr) -> H:
        """Return a whole number that follows from extents and attributes."""

    def count(self, extent: IndexExpr) -> H:
        """Return ``0 … extent - 1``."""

    def integer(self, op: str, a: H, b: H) -> H:
        """Return ``a op b`` for whole numbers."""

    def as_number(self, x: H) -> H:
        """Return whole numbers in the element type of the equation."""

    def apply(self, function: str, operands: Sequence[H]) -> H:
        """Apply a scalar function to arrays that broadcast."""

    def fold(self, function: str, x: H, axes: Sequence[int]) -> H:
        """Reduce negative axes, which disappear."""

    def unsqueeze(self, x: H, axes: Sequence[int]) -> H:
        """Put axes of extent 1 at negative places of the result."""

    def permute(self, x: H, order: Sequence[int], leading: bool) -> H:
        """Permute the last axes: ``order[k]`` is the old place, from 0, of the new one ``k``."""

    def prefix(self, x: H, axis: int, extent: IndexExpr) -> H:
        """Return the first entries of a negative axis."""

    def clipped(self, x: H, extent: IndexExpr) -> H:
        """Return whole numbers limited to ``0 … extent - 1``."""

    def inside(self, x: H, extent: IndexExpr, what: str) -> H:
        """Return places that were read from a tensor; raise IndexError if they are seen to lie outside."""

    def take(self, x: H, last: int, places: H) -> H:
        """Return entries of the last axes, flattened, at places, whose axes take their place."""

    def contract(self, a: Value[H], b: Value[H], out: Sequence[str]) -> H:
        """Return the product of two values, summed over the axes that ``out`` does not have."""

    def spread(self, x: H, e: Equation, full: bool) -> H:
        """Return the array broadcast to the target's shape; ``full`` if it depends on all indices."""


def run(composite: Composite, arrays: Arrays[H], store: Callable[[str, H], None]) -> None:
    """Compute all equations; ``store(target, handle)`` receives each result."""
    for e in composite.equations:
        arrays.begin(e)
        store(e.target, _Walk(composite, arrays, e).result())


class _Walk(Generic[H]):
    """One equation."""

    def __init__(self, composite: Composite, arrays: Arrays[H], e: Equation) -> None:
        self.composite, self.arrays, self.e = composite, arrays, e
        self.scope: dict[str, IndexExpr] = {b.name: b.extent for b in e.indices}

    def result(self) -> H:
        value = self.numeric(self.value(self.e.value, guarded=False))
        handle = self.aligned(value, tuple(b.name for b in self.e.indices))
        full = len(value.axes) == len(self.e.indices) and value.leading == self.e.leading
        return self.arrays.spread(handle, self.e, full)

    # -- axes -----------------------------------------------------------------------------------------
    def ordered(self, names: frozenset[str] | set[str]) -> tuple[str, ...]:
        return tuple(n for n in self.scope if n in names)

    def aligned(self, v: Value[H], axes: Sequence[str]) -> H:
        """Return a value's array with axes of extent 1 for the indices that it lacks."""
        order = [name for name in axes if name in v.axes]
        x = v.handle
        if tuple(order) != v.axes:
            x = self.arrays.permute(x, [v.axes.index(name) for name in order], v.leading)
        missing = [k - len(axes) for k, name in enumerate(axes) if name not in v.axes]
        return self.arrays.unsqueeze(x, missing) if missing else x

    def together(
        self, values: Sequence[Value[H]], kind: str, function: Callable[[Sequence[H]], H]
    ) -> Value[H]:
        """Return a function of values, which are brought into one order of their axes."""
        axes = self.ordered({n for v in values for n in v.axes})
        made = function([self.aligned(v, axes) for v in values])
        return Value(made, axes, kind, any(v.leading for v in values))

    def numeric(self, v: Value[H]) -> Value[H]:
        return v if v.kind != WHOLE else replace(v, handle=self.arrays.as_number(v.handle), kind=NUMBER)

    # -- values ---------------------------------------------------------------------------------------
    def value(self, e: Scalar, guarded: bool) -> Value[H]:
        match e:
            case Number(value):
                return Value(self.arrays.number(value), ())
            case Parameter(name):
                return Value(self.arrays.parameter(name), ())
            case IndexValue(value):
                return self.place(value, guarded)
            case Read():
                return self.read(e, guarded)
            case Apply():
                return self.applied(e, guarded)
            case Reduce():
                return self.reduced(e, guarded)

    def applied(self, e: Apply, guarded: bool) -> Value[H]:
        if e.function == "fma":  # one instruction of a kernel; elsewhere what it joins
            x, y, z = e.operands
            return self.applied(Apply("add", (Apply("mul", (x, y)), z)), guarded)
        f = FUNCTIONS[e.function]
        values = [
            self.value(x, guarded or (e.function == "where" and k > 0)) for k, x in enumerate(e.operands)
        ]
        whole = f.truth and not f.of_truths and all(v.kind == WHOLE for v in values)
        if not whole:
            values = [self.numeric(v) for v in values]
        return self.together(values, TRUTH if f.truth else NUMBER, partial(self.arrays.apply, e.function))

    def reduced(self, e: Reduce, guarded: bool) -> Value[H]:
        self.scope |= {b.name: b.extent for b in e.over}
        try:
            if e.function == "sum":
                found = self.contraction(e, guarded)
                if found is not None:
                    return found
            return self.folded(e.function, e.over, self.numeric(self.value(e.body, guarded)))
        finally:
            for b in e.over:
                del self.scope[b.name]

    def folded(self, function: str, over: Sequence[Bound], v: Value[H]) -> Value[H]:
        names = {b.name for b in over}
        axes = [k - len(v.axes) for k, n in enumerate(v.axes) if n in names]
        kept = tuple(n for n in v.axes if n not in names)
        handle = self.arrays.fold(function, v.handle, axes) if axes else v.handle
        absent = [b.extent for b in over if b.name not in v.axes]
        if absent and function in ("sum", "prod"):
            times = self.arrays.as_number(self.arrays.whole(product(absent)))
            handle = self.arrays.apply("mul" if function == "sum" else "pow", [handle, times])
        return Value(handle, kept, NUMBER, v.leading)

    def contraction(self, e: Reduce, guarded: bool) -> Value[H] | None:
        """Return a sum of products of two arrays without their common array, or None."""
        over = {b.name for b in e.over}
        inner, outer, divisors = _factors(e.body, frozenset(over))
        if len(inner) != 2:
            return None
        a, b = (self.numeric(self.value(f, guarded)) for f in inner)
        ours, theirs = {*a.axes}, {*b.axes}
        if over - ours - theirs or ours == theirs or not ours & theirs & over:
            return None
        axes = self.ordered({*a.axes, *b.axes} - over)
        result = Value(self.arrays.contract(a, b, axes), axes, NUMBER, a.leading or b.leading)
        for function, factors in (("mul", outer), ("div", divisors)):
            for f in factors:
                values = [result, self.numeric(self.value(f, guarded))]
                result = self.together(values, NUMBER, partial(self.arrays.apply, function))
        return result

    # -- reads ----------------------------------------------------------------------------------------
    def read(self, e: Read, guarded: bool) -> Value[H]:
        tensor = self.composite.tensor(e.tensor)
        kind = WHOLE if "int" in tensor.dtype else NUMBER
        x = self.arrays.tensor(e.tensor)
        seen = [n for place in e.indices for n in index_names(place)]
        alone = takewhile(lambda p: isinstance(p, IndexName) and seen.count(p.name) == 1, e.indices)
        names = [str(place) for place in alone]
        batch = len(names)
        at_data = any(isinstance(p, Read) for place in e.indices[batch:] for p in parts(place))
        if at_data:  # the leading axes of the places come first, so that no axis of the tensor may
            batch, names = 0, []
        count = len(e.indices)
        for k, name in enumerate(names):
            if self.scope[name] != tensor.dims[k]:
                if guarded:
                    batch, names = k, names[:k]
                    break
                x = self.arrays.prefix(x, k - count, self.scope[name])
        if batch == count:
            return Value(x, tuple(names), kind, e.leading)
        places = self.flat(e, tensor.dims, batch, guarded)
        x = self.arrays.take(x, count - batch, places.handle)
        return Value(x, (*names, *places.axes), kind, e.leading or places.leading)

    def flat(self, e: Read, dims: Sequence[IndexExpr], batch: int, guarded: bool) -> Value[H]:
        """Return the places of the last axes as places of those axes flattened."""
        total: Value[H] | None = None
        for place, dim in list(zip(e.indices, dims, strict=True))[batch:]:
            one = self.place(place, guarded)
            if guarded:
                one = replace(one, handle=self.arrays.clipped(one.handle, dim))
            elif any(isinstance(p, Read) for p in parts(place)):
                one = replace(one, handle=self.arrays.inside(one.handle, dim, f"{e} at {place}"))
            if total is not None:
                rows = replace(total, handle=self.arrays.integer("*", total.handle, self.arrays.whole(dim)))
                one = self.together([rows, one], WHOLE, lambda both: self.arrays.integer("+", *both))
            total = one
        assert total is not None
        return total

    def place(self, e: IndexExpr, guarded: bool) -> Value[H]:
        match e:
            case IndexName(name):
                return Value(self.arrays.count(self.scope[name]), (name,), WHOLE)
            case Whole() | ExtentName():
                return Value(self.arrays.whole(e), (), WHOLE)
            case Read():
                return self.read(e, guarded)
            case IndexArith(op, left, right):
                if not index_names(e) and not any(isinstance(p, Read) for p in parts(e)):
                    return Value(self.arrays.whole(e), (), WHOLE)
                sides = [self.place(left, guarded), self.place(right, guarded)]
                return self.together(sides, WHOLE, lambda both: self.arrays.integer(op, *both))


def matrix_product(arrays: Arrays[H], a: Value[H], b: Value[H], out: Sequence[str]) -> tuple[H, H] | None:
    """Return the operands of a product of matrices, or of rows and a matrix, with their axes in order.

    The result is None if the sum of products of two values over the axes that ``out`` lacks is none.
    """

    def turned(v: Value[H], order: list[str]) -> H:
        if list(v.axes) == order:
            return v.handle
        return arrays.permute(v.handle, [v.axes.index(n) for n in order], v.leading)

    for one, two in ((a, b), (b, a)):
        shared = [n for n in one.axes if n in two.axes and n not in out]
        rows, columns = [n for n in one.axes if n not in two.axes], [n for n in two.axes if n not in one.axes]
        plain = len(shared) == len(columns) == 1 and len(one.axes) == 1 + len(rows) and len(two.axes) == 2
        if plain and len(rows) <= 1 and list(out) == rows + columns and (rows or not two.leading):
            return turned(one, rows + shared), turned(two, shared + columns)
    return None


def _factors(e: Scalar, over: frozenset[str]) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
    """Return the factors that depend on indices, those that do not, and divisors that do not."""
    match e:
        case Apply("mul", (left, right)):
            one, two = _factors(left, over), _factors(right, over)
            return one[0] + two[0], one[1] + two[1], one[2] + two[2]
        case Apply("div", (left, right)) if not free_indices(right) & over:
            inner, outer, divisors = _factors(left, over)
            return inner, outer, [*divisors, right]
    return ([e], [], []) if free_indices(e) & over else ([], [e], [])
