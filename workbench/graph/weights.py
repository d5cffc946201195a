"""Weights: stored data, or a seeded generator that produces the same data every time."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from workbench.ops import TensorType, TypeMismatch
from workbench.ops.types import FLOAT_DTYPES
from workbench.support.mmap import checked

#: Elements that are read at once while all of them are the same.
_PART: Final = 1 << 16

#: Generated data in use: equal weights share it.
_MADE: WeakValueDictionary[tuple[TensorType, int], np.ndarray] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """The data of a tensor, or a seed from which it is generated.

    Without ``data`` the elements are drawn from ``seed``, uniformly around 0 with variance 1 / fan-in.
    Two generated weights with the same seed and type are equal.
    """

    type: TensorType
    data: np.ndarray | None = field(default=None, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data is None:
            return
        if tuple(self.data.shape) != self.type.shape or self.data.dtype != self.type.numpy_dtype():
            raise TypeMismatch(
                f"the data of a weight of type {self.type} must have its dtype and shape, got "
                f"{self.data.dtype} and {tuple(self.data.shape)}"
            )

    @classmethod
    def of(cls, data: np.ndarray) -> Weight:
        """Return the weight that holds an array."""
        data = np.asarray(data)
        return cls(TensorType.of(data), data)

    def value(self) -> np.ndarray:
        """Return the data, generating it if none is stored.

        Raise :class:`~workbench.support.mmap.ChangedFile` if the file with the data has changed since.
        """
        if self.data is not None:
            return checked(self.data)
        made = _MADE.get((self.type, self.seed))
        if made is None:
            made = _MADE[self.type, self.seed] = np.asarray(self._made())
            made.setflags(write=False)
        return made

    def number(self) -> float | None:
        """Return the number that every element is, or None if elements differ or are generated.

        Of the decimals that the element type rounds to the element, it is the shortest: 0.1, not
        0.10000000149011612. Minus zero, infinities and NaN are not such numbers.
        """
        if self.data is None or not self.type.elements or self.type.dtype not in FLOAT_DTYPES:
            return None
        data = checked(self.data)
        first = data[(0,) * data.ndim]
        found = float(str(first))
        # Most weights differ in these two places already, so that they are not read as a whole.
        differs = first != data[(-1,) * data.ndim]
        if differs or not math.isfinite(found) or (found == 0 and np.signbit(first)):
            return None
        flat = data.reshape(-1) if any(data.strides) and data.flags.c_contiguous else data[None]
        parts = (flat[at : at + _PART] for at in range(0, len(flat), _PART))
        return found if not any(data.strides) or all(bool((part == first).all()) for part in parts) else None

    def _made(self) -> np.ndarray:
        shape, dtype = self.type.shape, self.type.numpy_dtype()
        key = [self.seed, zlib.crc32(str(self.type).encode())]
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))
        if self.type.dtype not in FLOAT_DTYPES:
            return np.asarray(rng.integers(0, 2, size=shape), dtype)
        fan_in = max(1, int(np.prod(shape[1:])) if len(shape) != 2 else shape[0])
        # In place and in single precision, because a network has up to a hundred million elements. A normal
        # distribution takes three times as long.
        drawn = np.empty(shape, np.float64 if dtype == np.float64 else np.float32)
        rng.random(out=drawn, dtype=drawn.dtype.type)
        drawn -= 0.5
        drawn *= math.sqrt(12 / fan_in)
        return drawn.astype(dtype, copy=False)
