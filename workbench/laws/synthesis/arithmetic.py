"""The arithmetic of fingerprints: many values of one operator at once, and a 64-bit hash of each result.

Values are exact if the operators allow it: residues modulo a prime for polynomials, whole numbers below 2^53
if values are compared. Operators that divide or take roots are computed in float64, whose results are rounded
to eight digits before they are hashed. A hash only proposes an equation; a verification decides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from workbench.laws.synthesis.grammar import Form
from workbench.laws.verification.refuting.exact_arithmetic import PRIME, WHOLE
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of
from workbench.ops.exact import Arithmetic
from workbench.ops.types import INTEGER_DTYPES

#: Rows whose lifted results are compared with results computed one by one.
_COMPARED: Final = 3
#: Whole numbers are drawn from minus this to this.
_REACH: Final = 5
#: Binary digits that a float64 result keeps before it is hashed.
_DIGITS: Final = 26

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def arithmetic_of(forms: Iterable[Form], sizes: dict[str, int]) -> Arithmetic:
    """Return the arithmetic in which all forms are computed: polynomial, ordered, or float64 for the rest."""
    needed = Arithmetic.POLYNOMIAL
    for form in forms:
        spec = spec_of(form.op)
        attrs = spec.unpack(form.values(sizes))
        own = Arithmetic.FLOATS if spec.exact is None else spec.exact.arithmetic(attrs)
        if own is Arithmetic.ORDERED and spec.exact is not None and spec.exact.bound is None:
            own = Arithmetic.FLOATS
        needed = max(needed, own)
    return needed if needed <= Arithmetic.ORDERED else Arithmetic.FLOATS


def drawn(kind: TensorType, arithmetic: Arithmetic, rng: np.random.Generator) -> np.ndarray:
    """Return random values of a variable."""
    if arithmetic is Arithmetic.POLYNOMIAL:
        return rng.integers(0, PRIME, kind.shape, dtype=np.int64)
    if arithmetic is Arithmetic.ORDERED or kind.dtype in INTEGER_DTYPES:
        return rng.integers(-_REACH, _REACH + 1, kind.shape).astype(np.float64)
    return rng.uniform(-2.0, 2.0, kind.shape)


class Evaluator:
    """An evaluator of one form on operands of given types, for many rows of operands at once.

    A row is one application. If the operator computes many rows in one call, with a further leading axis, it
    does; a few rows are compared with results computed one by one, and if they differ all rows are.

    Args:
        form: The operator with its attributes.
        values: The values of the attributes in declared order.
        inputs: The operands' types.
        arithmetic: The arithmetic of the values.
    """

    def __init__(
        self, form: Form, values: tuple[Any, ...], inputs: Sequence[TensorType], arithmetic: Arithmetic
    ) -> None:
        self.spec = spec_of(form.op)
        self.attrs = self.spec.unpack(values)
        self.arithmetic = arithmetic
        self.out = self.spec.result_type(inputs, values)
        self.ranks = [t.rank for t in inputs]
        self._lifts = Trait.OWN not in self.spec.traits

    def __call__(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Return the results of all rows; operands and results have a leading axis of rows."""
        rows = len(operands[0])
        with np.errstate(all="ignore"):
            if self._lifts and rows > 1:
                found = self._lifted(operands, rows)
                if found is not None:
                    return found
                self._lifts = False
            return np.stack([self._one([x[i] for x in operands]) for i in range(rows)])

    def _one(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        assert self.spec.evaluate is not None
        if Trait.OWN in self.spec.traits and self.arithmetic is Arithmetic.POLYNOMIAL:
            operands = [np.asarray(x, dtype=object) for x in operands]  # of any degree
        return self._settled(self.spec.evaluate(operands, self.attrs))

    def _settled(self, result: Any) -> np.ndarray:
        if self.arithmetic is Arithmetic.POLYNOMIAL:
            return np.asarray(np.asarray(result) % PRIME, dtype=np.int64)
        return np.asarray(result, dtype=np.float64)

    def _lifted(self, operands: Sequence[np.ndarray], rows: int) -> np.ndarray | None:
        """Return the results of all rows in one call, or None if the operator does not compute them so."""
        assert self.spec.evaluate is not None
        most = max(self.ranks)
        aligned = [
            x.reshape(rows, *(1,) * (most - rank), *x.shape[1:])
            for x, rank in zip(operands, self.ranks, strict=True)
        ]
        attrs = dict(self.attrs)
        for attr in self.spec.attrs:
            if attr.kind == "perm":
                attrs[attr.name] = (0, *(p + 1 for p in self.attrs[attr.name]))
            elif attr.kind == "shape":
                attrs[attr.name] = (rows, *self.attrs[attr.name])
        try:
            found = self._settled(self.spec.evaluate(aligned, attrs))
            if found.shape != (rows, *self.out.shape):
                return None
            for i in {0, rows // 2, rows - 1} if rows > _COMPARED else range(rows):
                one = self._one([x[i] for x in operands])
                if not np.allclose(one, found[i], rtol=1e-12, atol=0.0, equal_nan=True):
                    return None
        except (ValueError, IndexError, TypeError, TypeMismatch):
            return None
        return found


def hashed(rows: np.ndarray, arithmetic: Arithmetic, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit hash of each row's elements, and which rows have a usable value."""
    flat = rows.reshape(len(rows), -1)
    usable = np.ones(len(rows), dtype=bool)
    if arithmetic is Arithmetic.ORDERED:
        usable = np.abs(flat).max(axis=1, initial=0.0) < WHOLE
        numbers = np.where(usable[:, None], flat, 0.0).astype(np.int64)
    elif arithmetic is Arithmetic.FLOATS:
        usable = np.isfinite(flat).all(axis=1)
        kept = np.where(usable[:, None], flat, 0.0)
        scale = np.frexp(np.abs(kept).max(axis=1, initial=0.0))[1]
        numbers = np.rint(np.ldexp(kept, (_DIGITS - scale)[:, None])).astype(np.int64)
        numbers = np.concatenate([numbers, scale[:, None].astype(np.int64)], axis=1)
    else:
        numbers = flat
    factors = np.random.default_rng(seed).integers(0, 1 << 63, numbers.shape[1], dtype=np.uint64)
    factors = factors * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        total = (numbers.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    return mixed(total), usable


def mixed(value: np.ndarray) -> np.ndarray:
    """Return hashes whose bits depend on all bits of the given ones."""
    with np.errstate(over="ignore"):
        value = value ^ (value >> np.uint64(31))
        value = value * _MIX
        result: np.ndarray = value ^ (value >> np.uint64(29))
        return result
