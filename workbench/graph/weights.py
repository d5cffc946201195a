"""Weights: stored data, or a seeded generator that makes the same data every time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from workbench.mapped import checked
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.types import FLOAT_DTYPES

#: Generated data that somebody holds: it is the same wherever it is asked for.
_MADE: WeakValueDictionary[tuple[TensorType, int], np.ndarray] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """Hold a tensor's data, or how to make it.

    Without ``data`` the elements are drawn from a normal distribution scaled by the square root of the
    fan-in, from ``seed``: two weights with one seed and one type are equal.
    """

    type: TensorType
    data: np.ndarray | None = field(default=None, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data is None:
            return
        if tuple(self.data.shape) != self.type.shape or self.data.dtype != self.type.numpy_dtype():
            raise TypeMismatch(
                f"a weight of type {self.type} was given data of dtype {self.data.dtype} "
                f"and shape {tuple(self.data.shape)}"
            )

    @classmethod
    def of(cls, data: np.ndarray) -> Weight:
        """Wrap an array."""
        data = np.asarray(data)
        return cls(TensorType.of(data), data)

    def value(self) -> np.ndarray:
        """Return the data, generating it where none is stored.

        Raise :class:`~workbench.mapped.ChangedFile` where the data lie in a file that was changed since.
        """
        if self.data is not None:
            return checked(self.data)
        key = (self.type, self.seed)
        made = _MADE.get(key)
        if made is None:
            made = _MADE[key] = np.asarray(self._made())
            made.setflags(write=False)
        return made

    def _made(self) -> np.ndarray:
        shape = self.type.shape
        rng = np.random.default_rng([self.seed, zlib.crc32(str(self.type).encode())])
        if self.type.dtype not in FLOAT_DTYPES:
            return rng.integers(0, 2, size=shape).astype(self.type.numpy_dtype())
        fan_in = max(1, int(np.prod(shape[1:])) if len(shape) != 2 else shape[0])
        scaled = rng.standard_normal(shape) / np.sqrt(fan_in)
        return scaled.astype(self.type.numpy_dtype())
