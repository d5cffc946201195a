"""Composites at given types: the extents that follow, the types of all tensors, and the type rule of a call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import Attribute, Composite, Equation, matched
from workbench.ops.types import FLOAT_DTYPES, TensorType, TypeMismatch
from workbench.ops.typing import Attrs, ConcreteTyping, N, T, Typing
from workbench.support.messages import nearest

#: The most places of an index expression that are tried one by one when bounds do not decide.
_TRIED = 1 << 20


@dataclass(frozen=True, slots=True)
class Binding:
    """A composite at given types.

    ``extents`` are the values of symbolic extents and of whole-number attributes, ``values`` those of the
    other attributes, ``leading`` the extents that ``~`` means in the result, and ``types`` the types of
    all tensors, intermediate ones included.
    """

    composite: Composite
    extents: Mapping[str, int]
    values: Mapping[str, float]
    leading: tuple[int, ...]
    types: Mapping[str, TensorType]

    def whole(self, e: ix.IndexExpr) -> int:
        """Return the value of an expression without indices."""
        return int(ix.computed(e, self.extents))

    def sizes(self, e: Equation | ix.Reduce) -> dict[str, int]:
        """Return the extents of the indices of an equation or a reduction, in order."""
        bounds = e.indices if isinstance(e, Equation) else e.over
        return {b.name: self.whole(b.extent) for b in bounds}

    def outputs(self) -> tuple[TensorType, ...]:
        """Return the types of the results."""
        return tuple(self.types[t.name] for t in self.composite.outputs)


def bind(
    composite: Composite, inputs: Sequence[TensorType], attributes: Mapping[str, int | float] | None = None
) -> Binding:
    """Return a composite at the types of its operands; attributes without a value have their defaults.

    Raise TypeMismatch if the operands do not fit the declaration, or an equation reads outside a tensor, and TypeError
    if the first argument is not a composite.
    """
    passed: object = composite
    if not isinstance(passed, Composite):
        hint = " (try its .composite)" if hasattr(passed, "composite") else ""
        raise TypeError(f"a composite must be what parse returns, got {type(passed).__name__}{hint}")
    call, count = f"{composite.name}({', '.join(map(str, inputs))})", len(composite.inputs)
    if len(inputs) != count:
        noun = "operand" if count == 1 else "operands"
        drawn = _drawn_at(composite, composite.inputs[len(inputs)].name if len(inputs) < count else None)
        raise TypeMismatch(f"{call}: there must be {count} {noun}, got {len(inputs)}{drawn}")
    given = composite.defaults | dict(attributes or {})
    if names := sorted(set(given) - set(composite.defaults)):
        hint = nearest(names[0], list(composite.defaults))
        raise TypeMismatch(f"{composite.name} has no attribute {', '.join(names)}{hint}")
    numbers = {a: _number(composite, a, given[a.name]) for a in composite.attributes}
    extents = {a.name: int(x) for a, x in numbers.items() if a.whole}
    values = {a.name: float(x) for a, x in numbers.items() if not a.whole}
    try:
        dtypes = _dtypes(composite, inputs)
        leading = _leading(composite, inputs)
        _solve(composite, inputs, extents)
        types = dict(_types(composite, inputs, extents, leading, dtypes))
        found = Binding(composite, extents, values, leading, types)
        for e in composite.equations:
            _check_reads(found, e, found.sizes(e), e.value)
    except TypeMismatch as error:
        drawn = _drawn_at(composite, error.tensor, error.part) if isinstance(error, _Misfit) else ""
        raise TypeMismatch(f"{call}: {error}{drawn}") from None
    return found


class _Misfit(TypeMismatch):
    """Raised when an operand does not fit; ``part`` of its declaration is the place.

    That is the number of an axis, a part of the text such as ``{T}``, or all of it if empty.
    """

    def __init__(self, message: str, tensor: str, part: int | str = "") -> None:
        super().__init__(message)
        self.tensor, self.part = tensor, part


def _drawn_at(composite: Composite, tensor: str | None, part: int | str = "") -> str:
    """Return the declaration with a caret under a part of a tensor, or under the arrow."""
    if tensor not in (None, *(t.name for t in (*composite.inputs, *composite.outputs))):
        return ""
    line, start, width = "", 0, 2
    for k, t in enumerate((*composite.inputs, *composite.outputs)):
        arrow = k == len(composite.inputs)
        if arrow and tensor is None:
            start = len(line) + 1
        line += " -> " if arrow else ", " if k else ""
        if t.name == tensor:
            start, width = len(line), len(str(t))
            if isinstance(part, str) and part:
                start, width = start + str(t).index(part), len(part)
            elif isinstance(part, int):
                before = replace(t, dims=t.dims[: part % len(t.dims)])
                start += len(str(before)) - 1 + bool(t.leading or before.dims)
                width = len(str(t.dims[part]))
        line += str(t)
    return f"\n    {line}\n    {' ' * start}{'^' * width}"


def _number(composite: Composite, attribute: Attribute, given: object) -> int | float:
    """Return an attribute's value; raise TypeMismatch unless it is a number of the attribute's kind."""
    found = given.item() if isinstance(given, np.generic) else given
    if not isinstance(found, (int, float)) or (attribute.whole and not float(found).is_integer()):
        kind = "a whole number" if attribute.whole else "a number"
        raise TypeMismatch(f"attribute {attribute.name} of {composite.name} must be {kind}, got {found!r}")
    return found


def _dtypes(composite: Composite, inputs: Sequence[TensorType]) -> dict[str, str]:
    first: dict[str, tuple[str, str]] = {}
    for t, kind in zip(composite.inputs, inputs, strict=True):
        why = ""
        if not t.dtype[0].isupper():
            why = f"{t} must hold {t.dtype}, got {kind}" if t.dtype != kind.dtype else ""
        elif kind.dtype not in FLOAT_DTYPES:
            why = f"{t} must hold floating-point numbers, got {kind}"
        else:
            name, dtype = first.setdefault(t.dtype, (t.name, kind.dtype))
            if dtype != kind.dtype:
                why = (
                    f"{name} and {t.name} must have one element type {t.dtype}, got {dtype} and {kind.dtype}"
                )
        if why:
            raise _Misfit(why, t.name, f"{{{t.dtype}}}")
    return {variable: dtype for variable, (_, dtype) in first.items()}


def _leading(composite: Composite, inputs: Sequence[TensorType]) -> tuple[int, ...]:
    shapes = []
    for t, kind in zip(composite.inputs, inputs, strict=True):
        own = len(t.dims)
        if kind.rank < own or (not t.leading and kind.rank > own):
            least = "at least " if t.leading else ""
            bracket = str(t)[str(t).index("[") :]
            raise _Misfit(f"{t} must have {least}{own} axes, got {kind}", t.name, bracket)
        if t.leading:
            shapes.append((t.name, kind.shape[: kind.rank - own]))
    try:
        return tuple(map(int, np.broadcast_shapes(*(s for _, s in shapes))))
    except ValueError:
        texts = " and ".join(f"{list(s)} of {n}" for n, s in shapes)
        raise _Misfit(f"the leading axes '~' do not fit each other: {texts}", shapes[-1][0], "~") from None


def _solve(composite: Composite, inputs: Sequence[TensorType], extents: dict[str, int]) -> None:
    """Find the values of symbolic extents; raise TypeMismatch if there are none."""
    open_: list[tuple[ix.IndexExpr, ix.IndexExpr, str, tuple[str, int] | None]] = []
    for t, kind in zip(composite.inputs, inputs, strict=True):
        own = kind.shape[kind.rank - len(t.dims) :]
        for k, (d, n) in enumerate(zip(t.dims, own, strict=True)):
            axis = f"axis {k - len(t.dims)} of {t} is {n}"
            open_.append((d, ix.Whole(n), axis, (t.name, k - len(t.dims))))
    open_ += [(w.left, w.right, w.reason, None) for w in composite.conditions]
    origin: dict[str, str] = {}
    for _ in range(len(open_) + 1):
        left = []
        for one, two, why, place in open_:
            missing = (ix.extent_names(one) | ix.extent_names(two)) - set(extents)
            try:
                if not missing:
                    _check(one, two, why, extents, origin)
                elif len(missing) > 1 or not _solved(one, two, extents, why, origin):
                    left.append((one, two, why, place))
            except TypeMismatch as error:
                if place is None:
                    raise
                raise _Misfit(str(error), *place) from None
        if len(left) == len(open_):
            break
        open_ = left
    needed = [d for t in composite.outputs for d in t.dims]
    needed += [b.extent for e in composite.equations for b in e.indices]
    unknown = sorted({n for d in needed for n in ix.extent_names(d)} - set(extents))
    if unknown or open_:
        names = unknown or sorted(ix.extent_names(open_[0][0]) - set(extents))
        raise TypeMismatch(
            f"the extent {names[0]} does not follow from the operands (try where {names[0]} = …)"
        )


def _check(
    one: ix.IndexExpr, two: ix.IndexExpr, why: str, extents: Mapping[str, int], origin: Mapping[str, str]
) -> None:
    try:
        a, b = ix.computed(one, extents), ix.computed(two, extents)
    except ZeroDivisionError:
        raise TypeMismatch(f"{one} = {two} divides by zero") from None
    if a != b and not isinstance(two, ix.Whole):
        raise TypeMismatch(f"{why + ', so ' if why else ''}{one} = {two} must hold, got {a} and {b}")
    if a != b:
        seen = ", ".join(f"{n} = {extents[n]}{origin.get(n, '')}" for n in sorted(ix.extent_names(one)))
        raise TypeMismatch(f"{why}, but {seen}{'' if isinstance(one, ix.ExtentName) else f' so {one} = {a}'}")


def _solved(
    one: ix.IndexExpr, two: ix.IndexExpr, extents: dict[str, int], why: str, origin: dict[str, str]
) -> bool:
    """Solve an equation for its one unknown extent; return whether that is possible."""

    def unknown(e: ix.IndexExpr) -> bool:
        return not ix.extent_names(e) <= set(extents)

    if unknown(two):
        one, two = two, one
    if unknown(two):
        return False
    value = ix.computed(two, extents)
    while not isinstance(one, ix.ExtentName):
        if (
            not isinstance(one, ix.IndexArith)
            or one.op not in "+-*"
            or (unknown(one.left) and unknown(one.right))
        ):
            return False
        inner, other = (one.left, one.right) if unknown(one.left) else (one.right, one.left)
        known = ix.computed(other, extents)
        if one.op == "*":
            if known == 0:
                raise TypeMismatch(
                    f"{other} must not be 0, because {one} is to be solved for the other factor"
                )
            if value % known:
                raise TypeMismatch(f"{why}, which must be a multiple of {known}")
            value //= known
        elif one.op == "+":
            value -= known
        else:
            value = value + known if inner is one.left else known - value
        one = inner
    extents[one.name] = value
    origin[one.name] = f" ({why})" if why else ""
    return True


def _types(
    composite: Composite,
    inputs: Sequence[TensorType],
    extents: Mapping[str, int],
    leading: tuple[int, ...],
    dtypes: Mapping[str, str],
) -> Iterator[tuple[str, TensorType]]:
    for t, kind in zip(composite.inputs, inputs, strict=True):
        yield t.name, kind
    for t in (composite.tensor(e.target) for e in composite.equations):
        try:
            dims = tuple(ix.computed(d, extents) for d in t.dims)
        except ZeroDivisionError:
            raise TypeMismatch(f"an extent of {t} divides by zero") from None
        for k, (d, n) in enumerate(zip(t.dims, dims, strict=True)):
            if n <= 0:
                why = f"the extent {d} of {t.name} must be positive, got {n}"
                raise _Misfit(why, t.name, k - len(t.dims))
        yield t.name, TensorType(dtypes.get(t.dtype, t.dtype), (leading if t.leading else ()) + dims)


# -- reads --------------------------------------------------------------------------------------------
def _check_reads(b: Binding, e: Equation, sizes: Mapping[str, int], value: ix.Scalar) -> None:
    """Raise TypeMismatch if a read that no ``where`` guards leaves its tensor."""
    match value:
        case ix.Read():
            tensor = b.composite.tensor(value.tensor)
            shape = b.types[value.tensor].shape
            own = shape[len(shape) - len(tensor.dims) :]
            for place, n in zip(value.indices, own, strict=True):
                _check_place(b, e, value, place, n, sizes)
        case ix.Reduce(_, over, body):
            for bound in over:
                if b.whole(bound.extent) <= 0:
                    raise TypeMismatch(f"{bound.name} must run over at least one place in {e}")
            _check_reads(b, e, {**sizes, **b.sizes(value)}, body)
        case ix.Apply("where", operands):
            _check_reads(b, e, sizes, operands[0])
        case _:
            for child in ix.children(value):
                _check_reads(b, e, sizes, child)


def _check_place(
    b: Binding, e: Equation, read: ix.Read, place: ix.IndexExpr, extent: int, sizes: Mapping[str, int]
) -> None:
    try:
        ends = ix.interval(place, b.extents, sizes)
        if ends is not None and not (ends[0] >= 0 and ends[1] < extent):
            names = sorted(ix.index_names(place))
            if len(names) > 1 or not isinstance(place, ix.IndexName):
                counts = [sizes[n] for n in names]
                if np.prod([1.0, *counts]) <= _TRIED:
                    grids = np.meshgrid(*map(np.arange, counts), indexing="ij", sparse=True)
                    values = ix.computed(place, b.extents, dict(zip(names, grids, strict=True)))
                    ends = int(np.min(values)), int(np.max(values))
    except ZeroDivisionError:
        raise TypeMismatch(f"{place} divides by zero in {e}") from None
    if ends is None:
        return  # a place read from a tensor, which is checked when its values are known
    if ends[0] < 0 or ends[1] >= extent:
        worst = ends[0] if ends[0] < 0 else ends[1]
        raise TypeMismatch(
            f"{read} is read at {place} = {worst}, but the axis has the places 0 … {extent - 1} "
            f"(try where(condition, value, other)){_drawn_in(e, read)}"
        )


def _drawn_in(e: Equation, read: ix.Read) -> str:
    """Return an equation with a caret under a read."""
    line, part = str(e), str(read)
    found = re.search(rf"(?<!\w){re.escape(part)}", line[len(e.target) + 1 :])  # not the end of another name
    assert found is not None
    start = len(e.target) + 1 + found.start()
    return f"\n    {line}\n    {' ' * start}{'^' * len(part)}"


def guarded(value: ix.Scalar) -> frozenset[ix.Read]:
    """Return the reads in branches of a ``where``, which may lie outside their tensors."""
    choices = (p for p in ix.walk(value) if isinstance(p, ix.Apply) and p.function == "where")
    return frozenset(r for choice in choices for branch in choice.operands[1:] for r in ix.reads(branch))


# -- the type rule ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class CompositeRule:
    """The type rule that a declaration is.

    On numbers it is :func:`~workbench.kernels.composites.binding.bind`. The other readings also require that every
    read lies inside its tensor, if it is not at indices of the tensor's own extents: by the least and the largest
    place, or by a ``where`` around the read that says so.
    """

    composite: Composite

    def __call__(self, t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
        """Return the type of the result."""
        c = self.composite
        reading: object = t
        if isinstance(reading, ConcreteTyping):
            return cast(T, bind(c, cast(Any, xs), attrs).outputs()[0])
        return _Reading(t, c, attrs).result(xs)


def plain(composite: Composite) -> bool:
    """Return whether every read is at indices that run over the tensor's own extents."""
    for e in composite.equations:
        bounds = {*e.indices, *(b for part in ix.reductions(e.value) for b in part.over)}
        sizes = {b.name: b.extent for b in bounds}
        if len(sizes) < len(bounds):
            return False
        for part in ix.reads(e.value):
            places = tuple(sizes[i.name] if isinstance(i, ix.IndexName) else None for i in part.indices)
            if places != composite.tensor(part.tensor).dims:
                return False
    return True


def _conjuncts(condition: ix.Scalar) -> frozenset[ix.Scalar]:
    """Return the conditions that hold if one holds."""
    if isinstance(condition, ix.Apply) and condition.function == "and":
        return frozenset().union(*map(_conjuncts, condition.operands))
    return frozenset([condition])


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
        for d, n, why in matched(sides, c.conditions, self.extents, self.whole):
            if ix.extent_names(d) - set(self.extents):
                raise TypeMismatch(f"the extents of {why} do not follow symbolically")
            t.require(self.whole(d) == n, f"an axis of {why} must be {d}")
        for w in c.conditions:
            t.require(self.whole(w.left) == self.whole(w.right), f"{w} must hold")
        if not plain(c):
            for e in c.equations:
                self.require_reads(e.value, {b.name: b.extent for b in e.indices}, frozenset())
        return cast(T, self.typed(xs))

    def require_reads(
        self, e: ix.Scalar, sizes: Mapping[str, ix.IndexExpr], known: frozenset[ix.Scalar]
    ) -> None:
        """Require that reads lie inside their tensors, at which ``known`` conditions of a ``where`` hold."""
        match e:
            case ix.Read():
                dims = self.composite.tensor(e.tensor).dims
                for place, extent in zip(e.indices, dims, strict=True):
                    if isinstance(place, ix.IndexName) and sizes[place.name] == extent:
                        continue
                    value, found = ix.IndexValue(place), self.ends(place, sizes)
                    above = ix.Apply("atmost", (ix.Number(0), value))
                    below = ix.Apply("less", (value, ix.IndexValue(extent)))
                    if found is None and not {above, below} <= known:
                        self.t.concrete(f"{e} in {self.composite.name}")
                    low, high = found or (0, 0)
                    if above not in known:
                        self.t.require(low >= 0, f"{e} must lie inside {e.tensor}")
                    if below not in known:
                        self.t.require(high < self.whole(extent), f"{e} must lie inside {e.tensor}")
            case ix.Reduce(_, over, body):
                self.require_reads(body, {**sizes, **{b.name: b.extent for b in over}}, known)
            case ix.Apply("where", (condition, yes, no)):
                self.require_reads(condition, sizes, known)
                self.require_reads(yes, sizes, known | _conjuncts(condition))
                self.require_reads(no, sizes, known)
            case _:
                for child in ix.children(e):
                    self.require_reads(child, sizes, known)

    def ends(self, e: ix.IndexExpr, sizes: Mapping[str, ix.IndexExpr]) -> tuple[Any, Any] | None:
        """Return the least and the largest value of an expression, or None if its form does not show them."""
        if not ix.index_names(e) and not isinstance(e, ix.Read):
            return (self.whole(e),) * 2
        if isinstance(e, ix.IndexName):
            return 0, self.whole(sizes[e.name]) - 1
        if not isinstance(e, ix.IndexArith):
            return None
        a, b, right, of = self.ends(e.left, sizes), self.ends(e.right, sizes), e.right, ix.ARITHMETIC[e.op]
        if a is None or b is None:
            return None
        if e.op in "+-":
            return of(a[0], b[e.op == "-"]), of(a[1], b[e.op == "+"])
        if e.op == "%" and not ix.index_names(e.right):
            return 0, b[0] - 1  # a type rule divides by positive numbers only
        if e.op == "*" and isinstance(e.left, ix.Whole):
            a, b, right = b, a, e.left
        known = e.op in ("*", "//") and isinstance(right, ix.Whole) and right.value > 0
        return (of(a[0], b[0]), of(a[1], b[0])) if known else None

    def whole(self, e: ix.IndexExpr) -> Any:
        try:
            return ix.computed(e, self.extents)
        except KeyError:
            raise TypeMismatch(f"{e} is not an extent") from None

    def typed(self, xs: Sequence[Any]) -> Any:
        t, out = self.t, self.composite.output
        dims = [self.whole(d) for d in out.dims]
        pairs = list(zip(self.composite.inputs, xs, strict=True))
        if out.leading:
            count = len(out.dims)
            if any(len(i.dims) != count for i, _ in pairs if i.leading):
                what = f"the result of {self.composite.name} has fewer axes than an operand"
                t.concrete(what)  # a reading without numbers says that it cannot know
                raise TypeMismatch(what)
            made = reduce(lambda a, b: t.broadcast(a, b, count), (x for i, x in pairs if i.leading))
            for k, d in enumerate(dims):
                made = t.with_dim(made, k - count, d)
        else:
            made = t.tensor(next((x for i, x in pairs if i.dtype == out.dtype), xs[0]), *dims)
        return made if out.dtype[0].isupper() else t.with_dtype(made, out.dtype)
