"""Random element types, for instances of rules that convert between element types."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from workbench.laws.verification.instances.ground import Instance
from workbench.ops import TensorType
from workbench.ops.types import DTYPE_CODES

#: The element types of instances.
DTYPES: Final = (
    "float16", "bfloat16", "float32", "float64", "bool", "int8", "uint8", "int16", "uint16", "int32", "int64",
)  # fmt: skip
#: Part of the instances in which all variables have one element type.
_ALIKE: Final = 0.7


def retyped(instance: Instance, rng: random.Random) -> Instance:
    """Return an instance with random element types of its variables and attributes."""
    one = rng.choice(DTYPES)
    alike = rng.random() < _ALIKE
    types = {
        name: TensorType(one if alike else rng.choice(DTYPES), kind.shape)
        for name, kind in instance.types.items()
    }
    attrs = {name: _other(value, rng) for name, value in instance.attrs.items()}
    rows = {
        row: {name: _other(value, rng) for name, value in given.items()}
        for row, given in instance.rows.items()
    }
    return replace(instance, types=types, attrs=attrs, rows=rows)


def _other(value: object, rng: random.Random) -> object:
    """Return a random element type in place of an element type, and any other attribute as it is."""
    return rng.choice(DTYPES) if isinstance(value, str) and value in DTYPE_CODES else value
