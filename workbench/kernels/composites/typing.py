"""The type rule of a composite, in the three readings of type rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.composite import Composite, Condition
from workbench.kernels.composites.index import (
    ExtentName,
    IndexArith,
    IndexExpr,
    IndexName,
    Whole,
    extent_names,
)
from workbench.kernels.composites.scalar import Bound, Reduce, walk
from workbench.kernels.composites.scalar import Read as Read
from workbench.ops.types import TypeMismatch
from workbench.ops.typing import Attrs, ConcreteTyping, N, T, Typing


@dataclass(frozen=True, slots=True)
class CompositeRule:
    """The type rule that a declaration is.

    On numbers it is :func:`~workbench.kernels.composites.binding.bind`. The other readings have the conditions of a
    plain composite only: all reads are at indices of the tensor's own extents.
    """

    composite: Composite

    def __call__(self, t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
        c = self.composite
        reading: object = t
        if isinstance(reading, ConcreteTyping):
            return cast(T, bind(c, cast(Any, xs), attrs).outputs()[0])
        if not plain(c):
            t.concrete(c.name, *xs)
        return _Reading(t, c, attrs).result(xs)


def plain(composite: Composite) -> bool:
    """Return whether every read is at indices that run over the tensor's own extents."""
    for e in composite.equations:
        bounds: list[Bound] = list(e.indices)
        bounds += [b for part in walk(e.value) if isinstance(part, Reduce) for b in part.over]
        sizes = {b.name: b.extent for b in bounds}
        if len(sizes) < len({(b.name, b.extent) for b in bounds}):
            return False
        for part in walk(e.value):
            if not isinstance(part, Read):
                continue
            dims = composite.tensor(part.tensor).dims
            names = [i.name for i in part.indices if isinstance(i, IndexName)]
            if len(names) < len(dims) or any(sizes[n] != d for n, d in zip(names, dims, strict=True)):
                return False
    return True


class _Reading:
    """A declaration in a symbolic reading."""

    def __init__(self, t: Typing[T, N], composite: Composite, attrs: Attrs) -> None:
        self.t: Any = t
        self.composite = composite
        self.extents: dict[str, Any] = {a.name: attrs[a.name] for a in composite.attributes if a.whole}

    def result(self, xs: Sequence[T]) -> T:
        t, c = self.t, self.composite
        first: dict[str, Any] = {}
        for tensor, x in zip(c.inputs, xs, strict=True):
            if tensor.dtype[0].isupper():
                t.require_float(x)
                t.require_same_dtype(first.setdefault(tensor.dtype, x), x)
            else:
                t.require_same(t.with_dtype(x, tensor.dtype), x, f"{tensor.name} must hold {tensor.dtype}")
            if not tensor.leading:
                t.require(t.rank(x) == len(tensor.dims), f"{tensor} must have {len(tensor.dims)} axes")
            elif tensor.dims:
                t.require_axis(x, -len(tensor.dims))
        sides = [
            (d, t.dim(x, k - len(tensor.dims)), f"{tensor}")
            for tensor, x in zip(c.inputs, xs, strict=True)
            for k, d in enumerate(tensor.dims)
        ]
        self.solve(sides)
        for w in c.conditions:
            t.require(self.whole(w.left) == self.whole(w.right), f"{w} must hold")
        return cast(T, self.typed(xs))

    def solve(self, sides: list[tuple[IndexExpr, Any, str]]) -> None:
        later = []
        for d, n, why in sides:
            if isinstance(d, ExtentName) and d.name not in self.extents:
                self.extents[d.name] = n
            else:
                later.append((d, n, why))
        for w in self.composite.conditions:
            self.define(w)
        for d, n, why in later:
            if extent_names(d) - set(self.extents):
                raise TypeMismatch(f"the extents of {why} do not follow symbolically")
            self.t.require(self.whole(d) == n, f"an axis of {why} must be {d}")

    def define(self, w: Condition) -> None:
        for one, two in ((w.left, w.right), (w.right, w.left)):
            free = isinstance(one, ExtentName) and one.name not in self.extents
            if free and extent_names(two) <= set(self.extents):
                self.extents[one.name] = self.whole(two)  # type: ignore[union-attr]

    def whole(self, e: IndexExpr) -> Any:
        match e:
            case Whole(value):
                return value
            case ExtentName(name):
                return self.extents[name]
            case IndexArith("+" | "*" as op, Whole(value), right):
                other = self.whole(right)
                return other + value if op == "+" else other * value
            case IndexArith(op, left, right):
                a, b = self.whole(left), self.whole(right)
                match op:
                    case "+":
                        return a + b
                    case "-":
                        return a - b
                    case "*":
                        return a * b
                    case "//":
                        return a // b
                return a % b
        raise TypeMismatch(f"{e} is not an extent")

    def typed(self, xs: Sequence[Any]) -> Any:
        t, out = self.t, self.composite.output
        dims = [self.whole(d) for d in out.dims]
        pairs = list(zip(self.composite.inputs, xs, strict=True))
        like = next((x for i, x in pairs if i.dtype == out.dtype), xs[0])
        if not out.leading:
            made = t.tensor(like, *dims)
        else:
            spread = [(i, x) for i, x in pairs if i.leading]
            count = len(out.dims)
            if any(len(i.dims) != count for i, _ in spread):
                raise TypeMismatch(f"the result of {self.composite.name} has fewer axes than an operand")
            made = spread[0][1]
            for _, x in spread[1:]:
                made = t.broadcast(made, x, count)
            for k, d in enumerate(dims):
                made = t.with_dim(made, k - count, d)
        return made if out.dtype[0].isupper() else t.with_dtype(made, out.dtype)
