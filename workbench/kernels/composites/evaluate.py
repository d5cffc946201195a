"""Composites in numpy, in exact numbers for the verifier, and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.expressions import (
    ARITHMETIC,
    FUNCTIONS,
    NUMPY_FOLDS,
    Apply,
    IndexExpr,
    Number,
    Parameter,
    Read,
    Reduce,
    Scalar,
    children,
    free_indices,
    uses_leading,
    walk,
)
from workbench.kernels.composites.vectorised import Value, run
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Inexact, Numbers
from workbench.ops.exact import Number as ExactNumber
from workbench.ops.types import FLOAT_DTYPES, TensorType
from workbench.ops.typing import Attrs

if TYPE_CHECKING:
    from torch import Tensor

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

#: Element types in which sums are added up in another one.
_WIDER: Final = {"float16": np.float32, "bfloat16": np.float32}


def evaluate(
    composite: Composite, operands: Sequence[np.ndarray], **attributes: int | float
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Compute a composite in numpy; several results come as a tuple. Attributes without a value have their defaults.

    Raises:
        TypeMismatch: If the operands do not fit the declaration.
        IndexError: If a place that is read from a tensor lies outside.

    >>> from workbench.kernels.composites import parse
    >>> gemm = parse("gemm", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]")
    >>> evaluate(gemm, [np.ones((2, 3)), np.ones((3, 1))])
    array([[3.],
           [3.]])
    """
    arrays = [np.asarray(x) for x in operands]
    binding = bind(composite, [TensorType.of(x) for x in arrays], attributes)
    found = evaluated(binding, arrays, NumpyArrays(binding))
    results = tuple(found[t.name] for t in composite.outputs)
    return results if len(results) > 1 else results[0]


def evaluated(binding: Binding, operands: Sequence[Any], arrays: NumpyArrays) -> dict[str, Any]:
    """Return all tensors of a bound composite by name."""
    composite = binding.composite
    arrays.tensors.update((t.name, x) for t, x in zip(composite.inputs, operands, strict=True))
    with np.errstate(all="ignore"):
        run(composite, arrays, arrays.tensors.__setitem__)
    return arrays.tensors


class NumpyArrays:
    """Arrays of numpy, in the element types of the binding."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.tensors: dict[str, Any] = {}
        self.dtype: Any = np.dtype(np.float64)

    def begin(self, e: Equation) -> None:
        self.dtype = self.binding.types[e.target].numpy_dtype()

    def tensor(self, name: str) -> np.ndarray:
        return self.tensors[name]

    def number(self, value: float) -> np.ndarray:
        return np.asarray(value, self.dtype)

    def parameter(self, name: str) -> np.ndarray:
        return self.number(self.binding.values[name])

    def whole(self, e: IndexExpr) -> np.ndarray:
        return np.asarray(self.binding.whole(e), np.int64)

    def count(self, extent: IndexExpr) -> np.ndarray:
        return np.arange(self.binding.whole(extent), dtype=np.int64)

    def integer(self, op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(ARITHMETIC[op](a, b))

    def as_number(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x).astype(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> np.ndarray:
        return np.asarray(FUNCTIONS[function].numpy(*operands))

    def fold(self, function: str, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        wide = _WIDER.get(str(self.dtype)) if function in ("sum", "prod") else None
        if wide is not None:
            return NUMPY_FOLDS[function](x.astype(wide), axis=tuple(axes)).astype(self.dtype)
        return np.asarray(NUMPY_FOLDS[function](x, axis=tuple(axes)))

    def unsqueeze(self, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.expand_dims(x, tuple(axes))

    def permute(self, x: np.ndarray, order: Sequence[int], leading: bool) -> np.ndarray:
        first = x.ndim - len(order)
        return np.transpose(x, [*range(first), *(first + k for k in order)])

    def prefix(self, x: np.ndarray, axis: int, extent: IndexExpr) -> np.ndarray:
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(self.binding.whole(extent))
        return x[tuple(cut)]

    def clipped(self, x: np.ndarray, extent: IndexExpr) -> np.ndarray:
        return x.clip(0, self.binding.whole(extent) - 1)

    def inside(self, x: np.ndarray, extent: IndexExpr, what: str) -> np.ndarray:
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
        a, b, leading = one.handle, two.handle, one.leading or two.leading
        a_axes: Sequence[str] = one.axes
        b_axes: Sequence[str] = two.axes
        both = [n for n in a_axes if n in b_axes]
        batch, summed = [n for n in both if n in out], [n for n in both if n not in out]
        # An index that one operand alone has and the result lacks is summed there first.
        a, a_axes = self._summed(a, a_axes, [n for n in a_axes if n not in both and n not in out])
        b, b_axes = self._summed(b, b_axes, [n for n in b_axes if n not in both and n not in out])
        left, right = [n for n in a_axes if n not in both], [n for n in b_axes if n not in both]
        sizes = dict(zip(a_axes, a.shape[a.ndim - len(a_axes) :], strict=True))
        sizes |= dict(zip(b_axes, b.shape[b.ndim - len(b_axes) :], strict=True))
        x = self.permute(a, [a_axes.index(n) for n in (*batch, *left, *summed)], leading)
        y = self.permute(b, [b_axes.index(n) for n in (*batch, *summed, *right)], leading)
        x = self._grouped(x, len(a_axes), [[n] for n in batch] + [left, summed], sizes)
        y = self._grouped(y, len(b_axes), [[n] for n in batch] + [summed, right], sizes)
        made = self.product(x, y)
        first = made.ndim - len(batch) - 2
        made = made.reshape((*made.shape[:first], *(sizes[n] for n in (*batch, *left, *right))))
        order = (*batch, *left, *right)
        return self.permute(made, [order.index(n) for n in out], leading)

    def product(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the matrix product of the last two axes."""
        wide = _WIDER.get(str(self.dtype))
        if wide is not None:
            return np.matmul(x.astype(wide), y.astype(wide)).astype(self.dtype)
        return np.matmul(x, y)

    def _summed(self, x: Any, axes: Sequence[str], gone: Sequence[str]) -> tuple[Any, Sequence[str]]:
        if not gone:
            return x, axes
        made = self.fold("sum", x, [list(axes).index(n) - len(axes) for n in gone])
        return made, [n for n in axes if n not in gone]

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

    def __init__(self, binding: Binding, numbers: Numbers) -> None:
        super().__init__(binding)
        self.numbers = numbers

    def begin(self, e: Equation) -> None:
        self.dtype = np.dtype(object)

    def number(self, value: float) -> np.ndarray:
        made = np.empty((), dtype=object)
        made[()] = self.numbers.number(int(value) if float(value).is_integer() else value)
        return made

    def as_number(self, x: np.ndarray) -> np.ndarray:
        return self._each(lambda v: self.numbers.number(int(v)), x)

    def inside(self, x: np.ndarray, extent: IndexExpr, what: str) -> np.ndarray:
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
        f = FUNCTIONS[function]
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
    """Return a composite of tensors, on their device.

    Args:
        composite: The composite.
        torch: The module ``torch``.
        xs: The operands.
        attrs: The attributes by name.

    Raises:
        TypeMismatch: If the operands do not fit the declaration.
    """
    types = [TensorType(str(x.dtype).removeprefix("torch."), tuple(x.shape)) for x in xs]
    arrays = TorchArrays(bind(composite, types, attrs), torch, xs)
    run(composite, arrays, arrays.tensors.__setitem__)
    return arrays.tensors[composite.output.name]


class TorchArrays(NumpyArrays):
    """Tensors of torch."""

    def __init__(self, binding: Binding, torch: ModuleType, xs: Sequence[Tensor]) -> None:
        super().__init__(binding)
        self.torch, self.device = torch, xs[0].device if xs else None
        self.tensors.update((t.name, x) for t, x in zip(binding.composite.inputs, xs, strict=True))

    def begin(self, e: Equation) -> None:
        self.dtype = self.binding.types[e.target].torch_dtype(self.torch)

    def number(self, value: float) -> Any:
        return self.torch.tensor(value, dtype=self.dtype, device=self.device)

    def whole(self, e: IndexExpr) -> Any:
        return self.torch.tensor(self.binding.whole(e), device=self.device)

    def count(self, extent: IndexExpr) -> Any:
        return self.torch.arange(self.binding.whole(extent), device=self.device)

    def integer(self, op: str, a: Any, b: Any) -> Any:
        return ARITHMETIC[op](a, b)

    def as_number(self, x: Any) -> Any:
        return x.to(self.dtype)

    def apply(self, function: str, operands: Sequence[Any]) -> Any:
        return getattr(self.torch, FUNCTIONS[function].torch)(*operands)

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

    def inside(self, x: Any, extent: IndexExpr, what: str) -> Any:
        return x

    def take(self, x: Any, last: int, places: Any) -> Any:
        return x.reshape((*x.shape[: x.ndim - last], -1))[..., places]

    def contract(self, a: Value[Any], b: Value[Any], out: Sequence[str]) -> Any:
        letters = dict(zip(dict.fromkeys((*a.axes, *b.axes)), _LETTERS, strict=False))
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
    arrays = NumpyArrays(binding) if numbers is None else ExactArrays(binding, numbers)
    return np.asarray(evaluated(binding, xs, arrays)[composite.output.name])


def _needed(needs: Arithmetic, parameters: Sequence[str], attrs: ExactAttrs) -> Arithmetic:
    """Return the least arithmetic of a composite, which depends on attributes that are not whole numbers."""
    whole = all(float(attrs[name]).is_integer() for name in parameters)
    return needs if whole else max(needs, Arithmetic.RATIONAL)


def _output_degree(composite: Composite, degrees: Sequence[int]) -> int:
    known = dict(zip((t.name for t in composite.inputs), degrees, strict=True))
    for e in composite.equations:
        known[e.target] = _degree(e.value, known)
    return known[composite.output.name]


def _degree(e: Scalar, known: Mapping[str, int]) -> int:
    match e:
        case Read():
            return known[e.tensor]
        case Apply("mul", (left, right)):
            return _degree(left, known) + _degree(right, known)
        case Apply("fma", (left, right, more)):
            return max(_degree(left, known) + _degree(right, known), _degree(more, known))
        case Apply(_, operands):
            return max(_degree(x, known) for x in operands)
        case Reduce(_, _, body):
            return _degree(body, known)
    return 0


def exact_form(composite: Composite) -> ExactForm:
    """Return how a composite is computed exactly: with the least arithmetic that has all its functions."""
    needs = Arithmetic.POLYNOMIAL
    parameters: set[str] = set()
    for e in composite.equations:
        for part in walk(e.value):
            match part:
                case Apply(function):
                    needs = max(needs, FUNCTIONS[function].needs)
                case Reduce("max" | "min"):
                    needs = max(needs, Arithmetic.ORDERED)
                case Reduce("prod"):  # its degree depends on the extent
                    needs = max(needs, Arithmetic.RATIONAL)
                case Number(value) if not float(value).is_integer():
                    needs = max(needs, Arithmetic.RATIONAL)
                case Parameter(name):
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


def _cost(e: Scalar, sizes: Mapping[str, int], binding: Binding) -> float:
    own = binding.sizes(e) if isinstance(e, Reduce) else {}
    below = sum(_cost(child, {**sizes, **own}, binding) for child in children(e))
    if not isinstance(e, Apply | Reduce):
        return below
    leading = math.prod(binding.leading) if uses_leading(e) else 1
    return below + math.prod(sizes[n] for n in free_indices(e)) * leading * math.prod(own.values())
