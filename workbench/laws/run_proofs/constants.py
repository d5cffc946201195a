"""Constants of a proof, computed again from the operators' definitions in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.graph.weights import Weight
from workbench.laws.run_proofs.sizes import is_open
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of
from workbench.ops.types import FLOAT_DTYPES

#: The largest rounding of a computed constant, as a part of its largest element: a half of the last place.
ROUNDING: Final[Mapping[str, float]] = {
    "float64": 2.0**-40,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}


@dataclass(slots=True)
class Constants:
    """The values of terms that depend on weights alone; weights are known by their digests."""

    terms: Sequence[tuple[str, tuple[Any, ...], tuple[int, ...]]]
    types: Sequence[Any]
    weights: Mapping[str, Weight]
    _known: dict[int, np.ndarray] = field(default_factory=dict)

    def value(self, term: int) -> np.ndarray:
        """Return the value of a term, in float64 if it is floating-point; raise TypeMismatch if it varies."""
        if term in self._known:
            return self._known[term]
        op, attrs, inputs = self.terms[term]
        spec = spec_of(op)
        if is_open(attrs) or not isinstance(self.types[term], TensorType):
            raise TypeMismatch(f"{op} depends on a size, so it is not a constant")
        if op == "weight":
            found = self.weights[str(attrs[0])].value()
        elif spec.evaluate is None or spec.traits & Trait.RUNTIME:
            raise TypeMismatch(f"{op} is not a constant")
        else:
            named = spec.unpack(attrs)
            if op == "cast" and named["to"] not in FLOAT_DTYPES and _is_float(self.types[inputs[0]]):
                raise TypeMismatch("a conversion to whole numbers depends on how its operand is rounded")
            for name in ("dtype", "to"):
                if named.get(name) in FLOAT_DTYPES:
                    named[name] = "float64"
            with np.errstate(all="ignore"):
                found = np.asarray(spec.evaluate([self.value(i) for i in inputs], named))
        if _is_float(self.types[term]):
            found = found.astype(np.float64, copy=False)
        self._known[term] = found
        return found

    def rounding(self, a: int, b: int) -> float:
        """Return the largest difference of two constants, as a part of the largest element.

        Raise TypeMismatch if they differ by more than the rounding of their element type.
        """
        kind = self.types[a]
        if not isinstance(kind, TensorType) or kind != self.types[b]:
            raise TypeMismatch("constants must have one type to be equal")
        left, right = self.value(a), self.value(b)
        if left.shape != right.shape or left.shape != kind.shape:
            raise TypeMismatch(f"a constant must have the shape {kind.shape}")
        if not _is_float(kind):
            if not np.array_equal(left, right):
                raise TypeMismatch("constants differ")
            return 0.0
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise TypeMismatch("a constant is not finite")
        if not left.size:
            return 0.0
        largest = max(float(np.abs(left).max()), float(np.abs(right).max()))
        error = float(np.abs(left - right).max()) / largest if largest else 0.0
        if error > ROUNDING[kind.dtype]:
            raise TypeMismatch(f"constants differ by {error:.1e} of their largest element")
        return error

    def read_as_number(self, tensor: int, number: int) -> float:
        """Return the rounding with which an elementwise operator reads a tensor as one ``number``.

        Raise TypeMismatch unless the other term is the same operator of a tensor that is the number everywhere.
        """
        (op, attrs, left), (other, given, right) = self.terms[tensor], self.terms[number]
        if (op, repr(attrs), len(left)) != (other, repr(given), len(right)) or not _elementwise(op):
            raise TypeMismatch("a number stands for a tensor as an operand of one elementwise operator")
        if self.types[tensor] != self.types[number]:
            raise TypeMismatch("the tensor changes the type of the result, the number does not")
        error = 0.0
        for a, b in zip(left, right, strict=True):
            if a != b:
                if self.terms[b][0] != "scalar":
                    raise TypeMismatch("operands differ")
                error = max(error, self.rounding_to(a, float(self.terms[b][1][0])))
        return error

    def rounding_to(self, tensor: int, number: float) -> float:
        """Return how far the elements of a constant are from a number, as a part of it.

        Raise TypeMismatch if they are farther than the rounding of their element type.
        """
        kind = self.types[tensor]
        if not _is_float(kind):
            raise TypeMismatch("only a floating-point tensor stands for a number")
        found = self.value(tensor)
        error = float(np.abs(found - number).max()) / abs(number) if number else float(np.abs(found).max())
        if not error <= ROUNDING[kind.dtype] * (1 if number else 0):
            raise TypeMismatch(f"the tensor is not {number} everywhere")
        return error


def _is_float(kind: object) -> bool:
    return isinstance(kind, TensorType) and kind.dtype in FLOAT_DTYPES


def _elementwise(op: str) -> bool:
    traits = spec_of(op).traits
    return bool(traits & Trait.BROADCASTS) and not traits & (Trait.PRODUCT | Trait.OWN)
