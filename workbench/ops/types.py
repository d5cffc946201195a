"""Tensor types: a dtype and a shape, checked on construction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import torch

#: ONNX's numbers of element types, which are also their codes in the e-graph.
DTYPE_CODES: Final[dict[str, int]] = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "string": 8, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
    "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20,
    "uint4": 21, "int4": 22, "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26,
    "float6e2m3": 27, "float6e3m2": 28,
}  # fmt: skip
DTYPE_NAMES: Final[dict[int, str]] = {code: name for name, code in DTYPE_CODES.items()}

#: Element types of numbers of places along an axis.
INDEX_DTYPES: Final = frozenset({"int32", "int64"})

#: Element types of truth values.
TRUTH_DTYPES: Final = frozenset({"bool"})

#: Element types on which the modelled arithmetic operators are defined.
FLOAT_DTYPES: Final = frozenset({"float16", "float32", "float64", "bfloat16"})

#: Element types of which every number is one of the second type too, without rounding.
_WITHIN: Final[dict[str, frozenset[str]]] = {
    name: frozenset(wider.split())
    for name, wider in {
        "float32": "float64",
        "float16": "float32 float64",
        "bfloat16": "float32 float64",
        "bool": "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64",
        "int8": "int16 int32 int64 float16 bfloat16 float32 float64",
        "uint8": "int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64",
        "int16": "int32 int64 float32 float64",
        "uint16": "int32 uint32 int64 uint64 float32 float64",
        "int32": "int64 float64",
        "uint32": "int64 uint64 float64",
    }.items()
}

#: Element types of quantised tensors.
INTEGER_DTYPES: Final = frozenset({"int8", "uint8", "int16", "uint16", "int32"})

#: Element types that contain 0 and 1 (an 8-bit exponent alone has no zero).
NUMBER_DTYPES: Final = frozenset(DTYPE_CODES) - {"string", "float8e8m0"}

_ITEM_BYTES: Final[dict[str, float]] = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16,
    "float32": 4, "int32": 4, "uint32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2,
    "uint4": 0.5, "int4": 0.5, "float4e2m1": 0.5, "uint2": 0.25, "int2": 0.25,
    "float6e2m3": 0.75, "float6e3m2": 0.75,
    "string": 16,
}  # fmt: skip

#: The names in ``ml_dtypes`` of element types for which ONNX uses other names.
_ML_NAMES: Final[dict[str, str]] = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}
_NAMES_OF_ML: Final[dict[str, str]] = {theirs: ours for ours, theirs in _ML_NAMES.items()}

#: Largest number of elements of a tensor, so that numbers of elements always fit 64 bits. Tensors that are
#: computed have a lower limit, checked when models are read; tensors of generic extents are never computed.
MAX_ELEMENTS: Final = 1 << 59


def contains(wide: str, narrow: str) -> bool:
    """Return whether every number of an element type is a number of another, without rounding.

    >>> contains("float32", "int16"), contains("float32", "int32")
    (True, False)
    """
    return wide == narrow or wide in _WITHIN.get(narrow, ())


class TypeMismatch(TypeError):
    """Raised when operands do not fit an operator; the message states the requirement and the operands."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor: element type and extents.

    >>> TensorType("float32", (2, 3))
    float32[2, 3]
    """

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_CODES:
            raise TypeMismatch(f"dtype must be one of {', '.join(DTYPE_CODES)}, got {self.dtype!r}")
        if any(not isinstance(d, int) or d < 0 for d in self.shape):
            raise TypeMismatch(f"a shape must consist of non-negative integers, got {self.shape!r}")
        if math.prod(self.shape) > MAX_ELEMENTS:
            raise TypeMismatch(
                f"a tensor of shape {self.shape} has {math.prod(self.shape):.3g} elements; "
                f"the limit is {MAX_ELEMENTS:.3g}"
            )

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> float:
        """Return the size in bytes when stored densely."""
        return self.elements * _ITEM_BYTES.get(self.dtype, 1)

    @classmethod
    def of(cls, array: np.ndarray) -> TensorType:
        """Return the type of an array.

        >>> TensorType.of(np.zeros((2, 3), np.float16))
        float16[2, 3]
        """
        name = str(array.dtype)
        dtype = "string" if array.dtype.kind in "OUS" else _NAMES_OF_ML.get(name, name)
        return cls(dtype, tuple(map(int, array.shape)))

    def numpy_dtype(self) -> np.dtype:
        """Return the numpy dtype; types that numpy lacks come from ``ml_dtypes``, strings are objects."""
        if self.dtype == "string":
            return np.dtype(object)
        try:
            return np.dtype(self.dtype)
        except TypeError:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, _ML_NAMES.get(self.dtype, self.dtype)))

    def torch_dtype(self, torch: ModuleType) -> torch.dtype:
        """Return the dtype in ``torch`` (the module); raise TypeMismatch if torch does not have it."""
        found = getattr(torch, _ML_NAMES.get(self.dtype, self.dtype), None)
        if not isinstance(found, torch.dtype):
            raise TypeMismatch(f"torch has no tensors of {self.dtype}")
        return found

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class TupleType:
    """The types of the results of an opaque operator with several results."""

    elements: tuple[TensorType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"

    __repr__ = __str__


ValueType = TensorType | TupleType
