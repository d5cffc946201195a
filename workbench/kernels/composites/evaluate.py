"""Composites in numpy, in their element type or in float64, whole numbers and fractions for the verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.index import ARITHMETIC, IndexExpr
from workbench.kernels.composites.primitives import FUNCTIONS, NUMPY_FOLDS
from workbench.kernels.composites.vectorised import Value, run
from workbench.ops.types import TensorType

#: Element types in which sums are added up in another one.
_WIDER: Final = {"float16": np.float32, "bfloat16": np.float32}


def evaluate(
    composite: Composite, operands: Sequence[np.ndarray], **attributes: int | float
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Compute a composite in numpy; several results come as a tuple.

    Args:
        composite: The composite.
        operands: The operands.
        **attributes: Values of attributes; others have their defaults.

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
        return np.asarray(self.binding.values[name], self.dtype)

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
        return np.clip(x, 0, self.binding.whole(extent) - 1)

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
