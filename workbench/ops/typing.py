"""One type rule, three readings: the interface that type rules are written against.

A type rule is written once, against :class:`Typing`. :class:`ConcreteTyping` runs it on tensors; the
rule compiler runs the same function on symbolic extents to derive the guards of a rewrite rule, and
verification runs it on unknown extents to find all shapes that fit. Axes are counted from the last one
(``-1``), so that a law holds for every rank. ``docs/typing.md`` shows the three side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from workbench.ops.types import (
    FLOAT_DTYPES,
    INDEX_DTYPES,
    INTEGER_DTYPES,
    NUMBER_DTYPES,
    TRUTH_DTYPES,
    TensorType,
    TypeMismatch,
)

#: The attributes of an operator by name: numbers, strings and tuples, or symbols for them.
Attrs = Mapping[str, Any]


class Integer(Protocol):
    """An integer in a type rule: a number, a symbolic expression or an unknown.

    Arithmetic with it gives an integer of the same kind or, if only a number is left, that
    number. A comparison gives a truth value or the condition to be met, for :meth:`Typing.require`.
    """

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


class Count(Protocol):
    """A number of elements, which is compared and no more."""

    def __le__(self, other: int, /) -> object: ...


#: A tensor's type, and an integer: those of one reading.
T = TypeVar("T")
N = TypeVar("N", bound=Integer)


class Typing(Protocol[T, N]):
    """Computation with types of tensors ``T`` and integers ``N``, for one reading of type rules.

    A method whose name begins with ``require`` states a condition of the rule. A reading may check it, note
    it or solve for it.
    """

    def rank(self, x: T) -> N:
        """Return the number of axes."""

    def dim(self, x: T, axis: N | int) -> N:
        """Return an extent; axes before the first one have extent 1, as in broadcasting."""

    def with_dim(self, x: T, axis: N | int, extent: N | int) -> T:
        """Return a type with one extent replaced."""

    def with_dtype(self, x: T, dtype: str) -> T:
        """Return a type with the element type replaced."""

    def tensor(self, like: T, *dims: N | int) -> T:
        """Return the type of these extents with the element type of ``like``."""

    def constant(self, dtype: str, *dims: N | int) -> T:
        """Return the type of a constant."""

    def constant_of_shape(self, dtype: str, shape: Any) -> T:
        """Return the type of a constant whose shape is an attribute: a tuple, or a symbol for one."""

    def with_shape(self, x: T, shape: Any) -> T:
        """Return a type with all extents replaced by an attribute."""

    def permute(self, x: T, perm: Any) -> T:
        """Return a type with its axes permuted by an attribute."""

    def elements(self, x: T) -> Count:
        """Return the number of elements."""

    def broadcast(self, x: T, y: T, keep: int = 0) -> T:
        """Return ``x`` with its axes before the last ``keep`` broadcast against those of ``y``."""

    def picked(self, x: T, axis: N | int, places: T) -> T:
        """Return a type with an axis replaced by all axes of ``places``, the numbers of places along it."""

    def maximum(self, a: N | int, b: N | int) -> N:
        """Return the larger integer."""

    def require(self, condition: object, message: str) -> None:
        """Require a comparison of integers to hold."""

    def require_same(self, x: T, y: T, message: str) -> None:
        """Require two types to be equal."""

    def require_same_dtype(self, x: T, y: T) -> None:
        """Require two element types to be equal."""

    def require_float(self, x: T) -> None:
        """Require a floating-point element type."""

    def require_integer(self, x: T) -> None:
        """Require the element type of a quantised tensor."""

    def require_index(self, x: T) -> None:
        """Require an element type for numbers of places along an axis."""

    def require_truth(self, x: T) -> None:
        """Require truth values."""

    def require_number(self, x: T) -> None:
        """Require an element type that holds 0 and 1."""

    def require_axis(self, x: T, axis: N | int) -> None:
        """Require an axis, counted from the last, to exist."""

    def concrete(self, what: str, *xs: T) -> Sequence[TensorType]:
        """Return operands as tensors' types; a reading without numbers refuses ``what`` needs them."""


class TypeRule(Protocol):
    """A type rule: ``(the reading, the operands' types, the attributes) -> the result's type``."""

    def __call__(self, t: Typing[T, N], xs: Sequence[T], attrs: Attrs, /) -> T: ...


class ConcreteTyping:
    """The reading on numbers: a condition that does not hold raises :class:`TypeMismatch`."""

    # A reading on other integers makes and compares its own.
    def made(self, dtype: str, shape: Iterable[int]) -> TensorType:
        return TensorType(dtype, tuple(shape))

    def same(self, a: int, b: int) -> bool:
        return a == b

    def rank(self, x: TensorType) -> int:
        return len(x.shape)

    def dim(self, x: TensorType, axis: int) -> int:
        # A missing axis has extent 1: shapes are aligned at the right, as in broadcasting.
        return x.shape[axis] if -axis <= len(x.shape) else 1

    def with_dim(self, x: TensorType, axis: int, extent: int) -> TensorType:
        self.require_axis(x, axis)
        shape = list(x.shape)
        shape[axis] = extent
        return self.made(x.dtype, shape)

    def with_dtype(self, x: TensorType, dtype: str) -> TensorType:
        return self.made(dtype, x.shape)

    def tensor(self, like: TensorType, *dims: int) -> TensorType:
        return self.made(like.dtype, dims)

    def constant(self, dtype: str, *dims: int) -> TensorType:
        for extent in dims:
            self.require(extent >= 1, f"the extents of a constant must be positive, got {dims}")
        return self.made(dtype, dims)

    def constant_of_shape(self, dtype: str, shape: tuple[int, ...]) -> TensorType:
        return self.constant(dtype, *shape)

    def with_shape(self, x: TensorType, shape: tuple[int, ...]) -> TensorType:
        return self.made(x.dtype, shape)

    def permute(self, x: TensorType, perm: tuple[int, ...]) -> TensorType:
        self.require(len(perm) == len(x.shape), f"permutation {perm} does not fit rank {len(x.shape)}")
        return self.made(x.dtype, (x.shape[p] for p in perm))

    def elements(self, x: TensorType) -> int:
        return math.prod(x.shape)

    def broadcast(self, x: TensorType, y: TensorType, keep: int = 0) -> TensorType:
        """Return ``x`` with its axes before the last ``keep`` broadcast against those of ``y``."""
        rank = max(len(x.shape), len(y.shape))
        dims = []
        for axis in range(-rank, -keep):
            a, b = self.dim(x, axis), self.dim(y, axis)
            alone = self.same(a, 1)
            if not (alone or self.same(b, 1) or self.same(a, b)):
                raise TypeMismatch(f"{x} does not broadcast with {y}")
            dims.append(b if alone else a)
        return self.made(x.dtype, (*dims, *x.shape[len(x.shape) - keep :]))

    def picked(self, x: TensorType, axis: int, places: TensorType) -> TensorType:
        self.require_axis(x, axis)
        at = len(x.shape) + axis
        return self.made(x.dtype, (*x.shape[:at], *places.shape, *x.shape[at + 1 :]))

    def maximum(self, a: int, b: int) -> int:
        return max(a, b)

    def require(self, condition: object, message: str) -> None:
        if not condition:
            raise TypeMismatch(message)

    def require_same(self, x: TensorType, y: TensorType, message: str) -> None:
        self.require(x == y, f"{message}: {x} and {y}")

    def require_same_dtype(self, x: TensorType, y: TensorType) -> None:
        self.require(x.dtype == y.dtype, f"element types differ: {x} and {y}")

    def require_float(self, x: TensorType) -> None:
        self.require(x.dtype in FLOAT_DTYPES, f"the tensor must be floating-point, got {x}")

    def require_integer(self, x: TensorType) -> None:
        self.require(x.dtype in INTEGER_DTYPES, f"the tensor must be of small whole numbers, got {x}")

    def require_index(self, x: TensorType) -> None:
        self.require(x.dtype in INDEX_DTYPES, f"indices must be int32 or int64, got {x}")

    def require_truth(self, x: TensorType) -> None:
        self.require(x.dtype in TRUTH_DTYPES, f"the tensor must be of truth values, got {x}")

    def require_number(self, x: TensorType) -> None:
        self.require(x.dtype in NUMBER_DTYPES, f"{x.dtype} does not hold 0 and 1")

    def require_axis(self, x: TensorType, axis: int) -> None:
        self.require(
            -len(x.shape) <= axis < 0,
            f"axis of {x} must be from -1 to -{len(x.shape)} (counted from the last axis), got {axis}",
        )

    def concrete(self, what: str, *xs: TensorType) -> Sequence[TensorType]:
        return xs


CONCRETE: Final[Typing[TensorType, int]] = ConcreteTyping()
