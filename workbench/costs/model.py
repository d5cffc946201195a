"""What a cost model is: it prices operator instances and says where its figures come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from workbench.ops import AttrValue, ValueType


@dataclass(frozen=True, slots=True)
class OpInstance:
    """Name one operator application up to its operands' values: the key of every cost table.

    ``constant`` says for each operand whether it is a folded weight.
    """

    op: str
    attrs: tuple[AttrValue, ...]
    inputs: tuple[ValueType, ...]
    type: ValueType
    constant: tuple[bool, ...]


@runtime_checkable
class CostModel(Protocol):
    """Price operator instances in microseconds."""

    @property
    def source(self) -> str:
        """Say what the figures are: analytic (of which device), measured (where, with what)."""
        ...

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds; none is negative."""
        ...
