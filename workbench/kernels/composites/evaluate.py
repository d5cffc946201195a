"""Equations on whole arrays: one walk over the notation, for numpy, torch, exact numbers, ONNX and laws alike.

A value inside an equation is an array whose last axes are some of the indices in scope, after the leading
axes if it has them. Two values are combined after their axes have been brought into the order of the scope,
with axes of extent 1 for the indices that only the other one has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import takewhile
from string import ascii_lowercase
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import numpy as np

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Inexact, Numbers
from workbench.ops.exact import Number as ExactNumber
from workbench.ops.types import FLOAT_DTYPES, TensorType
from workbench.ops.typing import Attrs

if TYPE_CHECKING:
    from torch import Tensor

H = TypeVar("H")
NUMBER, WHOLE = "number", "whole"


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

    def whole(self, e: ix.IndexExpr) -> H:
        """Return a whole number that follows from extents and attributes."""

    def count(self, extent: ix.IndexExpr) -> H:
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

    def prefix(self, x: H, axis: int, extent: ix.IndexExpr) -> H:
        """Return the first entries of a negative axis."""

    def clipped(self, x: H, extent: ix.IndexExpr) -> H:
        """Return whole numbers limited to ``0 … extent - 1``."""

    def inside(self, x: H, extent: ix.IndexExpr, what: str) -> H:
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
        self.scope: dict[str, ix.IndexExpr] = {b.name: b.extent for b in e.indices}

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
    def value(self, e: ix.Scalar, guarded: bool) -> Value[H]:
        match e:
            case ix.Number(value):
                return Value(self.arrays.number(value), ())
            case ix.Parameter(name):
                return Value(self.arrays.parameter(name), ())
            case ix.IndexValue(value):
                return self.place(value, guarded)
            case ix.Read():
                return self.read(e, guarded)
            case ix.Apply():
                return self.applied(e, guarded)
            case ix.Reduce():
                return self.reduced(e, guarded)

    def applied(self, e: ix.Apply, guarded: bool) -> Value[H]:
        if e.function == "fma":  # one instruction of a kernel; elsewhere what it joins
            x, y, z = e.operands
            return self.applied(ix.Apply("add", (ix.Apply("mul", (x, y)), z)), guarded)
        f = ix.FUNCTIONS[e.function]
        values = [
            self.value(x, guarded or (e.function == "where" and k > 0)) for k, x in enumerate(e.operands)
        ]
        whole = f.truth and not f.of_truths and all(v.kind == WHOLE for v in values)
        if not whole:
            values = [self.numeric(v) for v in values]
        return self.together(values, NUMBER, partial(self.arrays.apply, e.function))

    def reduced(self, e: ix.Reduce, guarded: bool) -> Value[H]:
        self.scope |= {b.name: b.extent for b in e.over}
        try:
            if e.function == "sum" and (found := self.contraction(e, guarded)) is not None:
                return found
            return self.folded(e.function, e.over, self.numeric(self.value(e.body, guarded)))
        finally:
            for b in e.over:
                del self.scope[b.name]

    def folded(self, function: str, over: Sequence[ix.Bound], v: Value[H]) -> Value[H]:
        names = {b.name for b in over}
        axes = [k - len(v.axes) for k, n in enumerate(v.axes) if n in names]
        kept = tuple(n for n in v.axes if n not in names)
        handle = self.arrays.fold(function, v.handle, axes) if axes else v.handle
        absent = [b.extent for b in over if b.name not in v.axes]
        if absent and function in ("sum", "prod"):
            times = self.arrays.as_number(self.arrays.whole(ix.product(absent)))
            handle = self.arrays.apply("mul" if function == "sum" else "pow", [handle, times])
        return Value(handle, kept, NUMBER, v.leading)

    def contraction(self, e: ix.Reduce, guarded: bool) -> Value[H] | None:
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
    def read(self, e: ix.Read, guarded: bool) -> Value[H]:
        tensor = self.composite.tensor(e.tensor)
        kind = WHOLE if "int" in tensor.dtype else NUMBER
        x = self.arrays.tensor(e.tensor)
        seen = [n for place in e.indices for n in ix.index_names(place)]
        alone = takewhile(lambda p: isinstance(p, ix.IndexName) and seen.count(p.name) == 1, e.indices)
        names = [str(place) for place in alone]
        batch = len(names)
        at_data = any(isinstance(p, ix.Read) for place in e.indices[batch:] for p in ix.parts(place))
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

    def flat(self, e: ix.Read, dims: Sequence[ix.IndexExpr], batch: int, guarded: bool) -> Value[H]:
        """Return the places of the last axes as places of those axes flattened."""
        total: Value[H] | None = None
        for place, dim in list(zip(e.indices, dims, strict=True))[batch:]:
            one = self.place(place, guarded)
            if guarded:
                one = replace(one, handle=self.arrays.clipped(one.handle, dim))
            elif any(isinstance(p, ix.Read) for p in ix.parts(place)):
                one = replace(one, handle=self.arrays.inside(one.handle, dim, f"{e} at {place}"))
            if total is not None:
                rows = replace(total, handle=self.arrays.integer("*", total.handle, self.arrays.whole(dim)))
                one = self.together([rows, one], WHOLE, lambda both: self.arrays.integer("+", *both))
            total = one
        assert total is not None
        return total

    def place(self, e: ix.IndexExpr, guarded: bool) -> Value[H]:
        match e:
            case ix.IndexName(name):
                return Value(self.arrays.count(self.scope[name]), (name,), WHOLE)
            case ix.Whole() | ix.ExtentName():
                return Value(self.arrays.whole(e), (), WHOLE)
            case ix.Read():
                return self.read(e, guarded)
            case ix.IndexArith(op, left, right):
                if not ix.index_names(e) and not any(isinstance(p, ix.Read) for p in ix.parts(e)):
                    return Value(self.arrays.whole(e), (), WHOLE)
                sides = [self.place(left, guarded), self.place(right, guarded)]
                return self.together(sides, WHOLE, lambda both: self.arrays.integer(op, *both))


def matrix_product(arrays: Arrays[H], a: Value[H], b: Value[H], out: Sequence[str]) -> tuple[H, H] | None:
    """Return the operands of a product of matrices, or of rows and a matrix, with their axes in order.

    The result is None if a contraction is no such product. ``arrays`` permute the axes; the other
    arguments are those of :meth:`Arrays.contract`.
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


def _factors(e: ix.Scalar, over: frozenset[str]) -> tuple[list[ix.Scalar], list[ix.Scalar], list[ix.Scalar]]:
    """Return the factors that depend on indices, those that do not, and divisors that do not."""
    match e:
        case ix.Apply("mul", (left, right)):
            one, two = _factors(left, over), _factors(right, over)
            return one[0] + two[0], one[1] + two[1], one[2] + two[2]
        case ix.Apply("div", (left, right)) if not ix.free_indices(right) & over:
            inner, outer, divisors = _factors(left, over)
            return inner, outer, [*divisors, right]
    return ([e], [], []) if ix.free_indices(e) & over else ([], [e], [])


# -- numpy ---------------------------------------------------------------------------------------------
#: Element types in which sums are added up in another one.
_WIDER: Final = {"float16": np.float32, "bfloat16": np.float32}


def evaluate(
    composite: Composite, operands: Sequence[np.ndarray], **attributes: int | float
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Compute a composite in numpy; several results come as a tuple. Attributes without a value have their defaults.

    Raise TypeMismatch if operands do not fit the declaration, and IndexError if a place that was read lies outside.

    >>> from workbench.kernels.composites import parse
    >>> gemm = parse("gemm", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]")
    >>> evaluate(gemm, [np.ones((2, 3)), np.ones((3, 1))])
    array([[3.],
           [3.]])
    """
    arrays = [np.asarray(x) for x in operands]
    binding = bind(composite, [TensorType.of(x) for x in arrays], attributes)
    found = evaluated(NumpyArrays(binding, arrays))
    results = tuple(found[t.name] for t in composite.outputs)
    return results if len(results) > 1 else results[0]


def evaluated(arrays: NumpyArrays) -> dict[str, Any]:
    """Return all tensors of a bound composite by name."""
    with np.errstate(all="ignore"):
        run(arrays.binding.composite, arrays, arrays.tensors.__setitem__)
    return arrays.tensors


class NumpyArrays:
    """Arrays of numpy, in the element types of the binding."""

    def __init__(self, binding: Binding, operands: Sequence[Any]) -> None:
        names = (t.name for t in binding.composite.inputs)
        self.binding, self.tensors = binding, dict[str, Any](zip(names, operands, strict=True))
        self.dtype: Any = np.dtype(np.float64)

    def begin(self, e: Equation) -> None:
        self.dtype = self.binding.types[e.target].numpy_dtype()

    def tensor(self, name: str) -> np.ndarray:
        return self.tensors[name]

    def number(self, value: float) -> np.ndarray:
        return np.asarray(value, self.dtype)

    def parameter(self, name: str) -> np.ndarray:
        return self.number(self.binding.values[name])

    def whole(self, e: ix.IndexExpr) -> np.ndarray:
        return np.asarray(self.binding.whole(e), np.int64)

    def count(self, extent: ix.IndexExpr) -> np.ndarray:
        return np.arange(self.binding.whole(extent), dtype=np.int64)

    def integer(self, op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(ix.ARITHMETIC[op](a, b))

    def as_number(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x).astype(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> np.ndarray:
        return np.asarray(ix.FUNCTIONS[function].numpy(*operands))

    def fold(self, function: str, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        wide = _WIDER.get(str(self.dtype)) if function in ("sum", "prod") else None
        fold = getattr(np, function)
        if wide is not None:
            return fold(x.astype(wide), axis=tuple(axes)).astype(self.dtype)
        return np.asarray(fold(x, axis=tuple(axes)))

    def unsqueeze(self, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.expand_dims(x, tuple(axes))

    def permute(self, x: np.ndarray, order: Sequence[int], leading: bool) -> np.ndarray:
        first = x.ndim - len(order)
        return np.transpose(x, [*range(first), *(first + k for k in order)])

    def prefix(self, x: np.ndarray, axis: int, extent: ix.IndexExpr) -> np.ndarray:
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(self.binding.whole(extent))
        return x[tuple(cut)]

    def clipped(self, x: np.ndarray, extent: ix.IndexExpr) -> np.ndarray:
        return x.clip(0, self.binding.whole(extent) - 1)

    def inside(self, x: np.ndarray, extent: ix.IndexExpr, what: str) -> np.ndarray:
        count = self.binding.whole(extent)
        if x.size and (x.min() < 0 or x.max() >= count):
            wrong = x.min() if x.min() < 0 else x.max()
            raise IndexError(f"{what} must be from 0 to {count - 1}, got {wrong}")
        return x

    def take(self, x: np.ndarray, last: int, places: np.ndarray) -> np.ndarray:
        flat = x.reshape((*x.shape[: x.ndim - last], -1))
        return np.take(flat, np.asarray(places, dtype=np.int64), axis=-1)

    def contract(self, one: Value[Any], two: Value[Any], out: Sequence[str]) -> np.ndarray:
        """Return the contraction as one matrix product, after permutations and reshapes."""
        leading, both = one.leading or two.leading, [n for n in one.axes if n in two.axes]
        batch, summed = [n for n in both if n in out], [n for n in both if n not in out]
        # An index that one operand alone has and the result lacks is summed there first.
        (a, a_axes), (b, b_axes) = (self._summed(v, {*both, *out}) for v in (one, two))
        left, right = [n for n in a_axes if n not in both], [n for n in b_axes if n not in both]
        sizes = dict(zip(a_axes, a.shape[a.ndim - len(a_axes) :], strict=True))
        sizes |= dict(zip(b_axes, b.shape[b.ndim - len(b_axes) :], strict=True))
        x = self.permute(a, [a_axes.index(n) for n in (*batch, *left, *summed)], leading)
        y = self.permute(b, [b_axes.index(n) for n in (*batch, *summed, *right)], leading)
        x = self._grouped(x, len(a_axes), [[n] for n in batch] + [left, summed], sizes)
        y = self._grouped(y, len(b_axes), [[n] for n in batch] + [summed, right], sizes)
        made = self.product(x, y)
        order, first = (*batch, *left, *right), made.ndim - len(batch) - 2
        made = made.reshape((*made.shape[:first], *(sizes[n] for n in order)))
        return self.permute(made, [order.index(n) for n in out], leading)

    def product(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the matrix product of the last two axes."""
        wide = _WIDER.get(str(self.dtype))
        if wide is not None:
            return np.matmul(x.astype(wide), y.astype(wide)).astype(self.dtype)
        return np.matmul(x, y)

    def _summed(self, v: Value[Any], kept: Container[str]) -> tuple[Any, list[str]]:
        gone = [k - len(v.axes) for k, n in enumerate(v.axes) if n not in kept]
        made = self.fold("sum", v.handle, gone) if gone else v.handle
        return made, [n for n in v.axes if n in kept]

    def _grouped(self, x: Any, count: int, groups: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> Any:
        shape = [int(np.prod([sizes[n] for n in group], dtype=np.int64)) for group in groups]
        return x.reshape((*x.shape[: x.ndim - count], *shape))

    def spread(self, x: np.ndarray, e: Equation, full: bool) -> np.ndarray:
        return np.array(np.broadcast_to(x, self.binding.types[e.target].shape), self.dtype)


#: The methods of the verifier's numbers by which functions have a value among them.
_METHODS: Final = {"sqrt": "root", "exp": "exp", "log": "log", "tanh": "tanh", "erf": "erf", "pow": "power"}


class WholeNumbers:
    """Whole numbers, which have no other functions than sums, products and comparisons."""

    def number(self, value: float | Fraction, /) -> ExactNumber:
        """Return a whole number; raise Inexact if the value is none."""
        if value != int(value):
            raise Inexact(f"{value} is not a whole number")
        return int(value)

    def _none(self, *values: ExactNumber) -> ExactNumber:
        raise Inexact("a function without a whole number for a value")

    root = exp = log = tanh = erf = cos = sin = power = pi = _none


class ExactArrays(NumpyArrays):
    """Arrays of objects that are exact numbers."""

    def __init__(self, binding: Binding, operands: Sequence[Any], numbers: Numbers) -> None:
        super().__init__(binding, operands)
        self.numbers = numbers

    def begin(self, e: Equation) -> None:
        self.dtype = np.dtype(object)

    def number(self, value: float) -> np.ndarray:
        made = np.empty((), dtype=object)
        made[()] = self.numbers.number(int(value) if float(value).is_integer() else value)
        return made

    def as_number(self, x: np.ndarray) -> np.ndarray:
        return self._each(lambda v: self.numbers.number(int(v)), x)

    def inside(self, x: np.ndarray, extent: ix.IndexExpr, what: str) -> np.ndarray:
        return np.clip(
            self._each(lambda v: int(v) if v == int(v) else 0, x), 0, self.binding.whole(extent) - 1
        )

    def _each(self, function: Callable[..., Any], *operands: Any) -> np.ndarray:
        return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), dtype=object)

    def apply(self, function: str, operands: Sequence[Any]) -> np.ndarray:
        if function in _METHODS:
            return self._each(getattr(self.numbers, _METHODS[function]), *operands)
        if function == "div":
            return self._each(self._quotient, *operands)
        if function == "floor":
            return self._each(lambda x: self.numbers.number(math.floor(x)), *operands)
        f = ix.FUNCTIONS[function]
        found = np.asarray(f.numpy(*operands))
        return found.astype(bool) if f.truth else found

    def _quotient(self, a: ExactNumber, b: ExactNumber) -> ExactNumber:
        if isinstance(a, int) and isinstance(b, int):
            raise Inexact("a quotient of whole numbers")
        if b == 0:
            raise Inexact("a division by zero")
        return a / b


# -- torch ---------------------------------------------------------------------------------------------
def in_torch(composite: Composite, torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    """Return a composite of tensors, on their device; raise TypeMismatch if they do not fit the declaration.

    Args:
        composite: The composite.
        torch: The module ``torch``.
        xs: The operands.
        attrs: The attributes by name.
    """
    types = [TensorType(str(x.dtype).removeprefix("torch."), tuple(x.shape)) for x in xs]
    return evaluated(_TorchArrays(bind(composite, types, attrs), torch, xs))[composite.output.name]


class _TorchArrays(NumpyArrays):
    """Tensors of torch."""

    def __init__(self, binding: Binding, torch: ModuleType, xs: Sequence[Tensor]) -> None:
        super().__init__(binding, xs)
        self.torch, self.device = torch, xs[0].device if xs else None

    def begin(self, e: Equation) -> None:
        self.dtype = self.binding.types[e.target].torch_dtype(self.torch)

    def number(self, value: float) -> Any:
        return self.torch.tensor(value, dtype=self.dtype, device=self.device)

    def whole(self, e: ix.IndexExpr) -> Any:
        return self.torch.tensor(self.binding.whole(e), device=self.device)

    def count(self, extent: ix.IndexExpr) -> Any:
        return self.torch.arange(self.binding.whole(extent), device=self.device)

    def integer(self, op: str, a: Any, b: Any) -> Any:
        return ix.ARITHMETIC[op](a, b)

    def as_number(self, x: Any) -> Any:
        return x.to(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> Any:
        return getattr(self.torch, ix.FUNCTIONS[function].torch)(*operands)

    def fold(self, function: str, x: Any, axes: Sequence[int]) -> Any:
        if function == "sum":
            return x.sum(dim=tuple(axes))
        if function != "prod":
            return getattr(self.torch, "amax" if function == "max" else "amin")(x, dim=tuple(axes))
        for axis in sorted(axes):  # from the first one, which leaves the places from the end as they are
            x = x.prod(dim=axis)
        return x

    def unsqueeze(self, x: Any, axes: Sequence[int]) -> Any:
        for axis in sorted(axes, reverse=True):
            x = x.unsqueeze(axis)
        return x

    def permute(self, x: Any, order: Sequence[int], leading: bool) -> Any:
        first = x.ndim - len(order)
        return x.permute(*range(first), *(first + k for k in order))

    def inside(self, x: Any, extent: ix.IndexExpr, what: str) -> Any:
        return x

    def take(self, x: Any, last: int, places: Any) -> Any:
        return x.reshape((*x.shape[: x.ndim - last], -1))[..., places]

    def contract(self, a: Value[Any], b: Value[Any], out: Sequence[str]) -> Any:
        letters = dict(zip(dict.fromkeys((*a.axes, *b.axes)), ascii_lowercase, strict=False))
        terms = ["..." + "".join(letters[n] for n in axes) for axes in (a.axes, b.axes, out)]
        return self.torch.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", a.handle, b.handle)

    def spread(self, x: Any, e: Equation, full: bool) -> Any:
        return x.to(self.dtype).expand(self.binding.types[e.target].shape).contiguous()


# -- the exact form of an operator ----------------------------------------------------------------------
def _computed(
    composite: Composite, numbers: Numbers | None, xs: Sequence[np.ndarray], attrs: ExactAttrs
) -> np.ndarray:
    """Return a composite of floats, or of exact numbers, which stand for numbers of any element type."""
    types = []
    for t, x in zip(composite.inputs, xs, strict=True):
        own = str(x.dtype) if str(x.dtype) in FLOAT_DTYPES else "float64"
        types.append(TensorType(own if t.dtype[0].isupper() else t.dtype, tuple(map(int, x.shape))))
    binding = bind(composite, types, attrs)
    arrays = NumpyArrays(binding, xs) if numbers is None else ExactArrays(binding, xs, numbers)
    return np.asarray(evaluated(arrays)[composite.output.name])


def _needed(needs: Arithmetic, parameters: Sequence[str], attrs: ExactAttrs) -> Arithmetic:
    """Return the least arithmetic of a composite, which depends on attributes that are not whole numbers."""
    whole = all(float(attrs[name]).is_integer() for name in parameters)
    return needs if whole else max(needs, Arithmetic.RATIONAL)


def _output_degree(composite: Composite, degrees: Sequence[int]) -> int:
    known = dict(zip((t.name for t in composite.inputs), degrees, strict=True))
    for e in composite.equations:
        known[e.target] = _degree(e.value, known)
    return known[composite.output.name]


def _degree(e: ix.Scalar, known: Mapping[str, int]) -> int:
    match e:
        case ix.Read():
            return known[e.tensor]
        case ix.Apply("mul", (left, right)):
            return _degree(left, known) + _degree(right, known)
        case ix.Apply("fma", (left, right, more)):
            return max(_degree(left, known) + _degree(right, known), _degree(more, known))
        case ix.Apply(_, operands):
            return max(_degree(x, known) for x in operands)
        case ix.Reduce(_, _, body):
            return _degree(body, known)
    return 0


def exact_form(composite: Composite) -> ExactForm:
    """Return how a composite is computed exactly: with the least arithmetic that has all its functions."""
    needs = Arithmetic.POLYNOMIAL
    parameters: set[str] = set()
    for e in composite.equations:
        for part in ix.walk(e.value):
            match part:
                case ix.Apply(function):
                    needs = max(needs, ix.FUNCTIONS[function].needs)
                case ix.Reduce("max" | "min"):
                    needs = max(needs, Arithmetic.ORDERED)
                case ix.Reduce("prod"):  # its degree depends on the extent
                    needs = max(needs, Arithmetic.RATIONAL)
                case ix.Number(value) if not float(value).is_integer():
                    needs = max(needs, Arithmetic.RATIONAL)
                case ix.Parameter(name):
                    parameters.add(name)
    if any("int" in t.dtype for t in composite.inputs):
        needs = max(needs, Arithmetic.RATIONAL)
    given = partial(_needed, needs, tuple(sorted(parameters))) if parameters else needs
    if needs is Arithmetic.FLOATS:
        return ExactForm(Arithmetic.FLOATS)
    return ExactForm(given, partial(_computed, composite), partial(_output_degree, composite), bound=None)


def semantics(composite: Composite, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    """Return the value of a composite in the numbers of its operands: floats, or objects that are whole."""
    numbers = WholeNumbers() if any(x.dtype == object for x in xs) else None
    return _computed(composite, numbers, xs, attrs)


def operations(binding: Binding) -> float:
    """Return the number of scalar operations.

    A function or a reduction is counted once for each value of its indices: a value that does
    not change inside a loop is computed before it.
    """
    return sum((_cost(e.value, binding.sizes(e), binding) for e in binding.composite.equations), 0.0)


def _cost(e: ix.Scalar, sizes: Mapping[str, int], binding: Binding) -> float:
    own = binding.sizes(e) if isinstance(e, ix.Reduce) else {}
    below = sum(_cost(child, {**sizes, **own}, binding) for child in ix.children(e))
    if not isinstance(e, ix.Apply | ix.Reduce):
        return below
    # The value may depend on the leading indices.
    led = any(isinstance(p, ix.Read) and p.leading for p in ix.walk(e))
    leading = math.prod(binding.leading) if led else 1
    return below + math.prod(sizes[n] for n in ix.free_indices(e)) * leading * math.prod(own.values())
