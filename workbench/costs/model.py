"""The base class of cost models, which price operator instances and name the source of their figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from workbench.ops import AttrValue, ValueType
from workbench.support.machine import machine

if TYPE_CHECKING:
    from workbench.graph import Graph


@dataclass(frozen=True, slots=True)
class OpInstance:
    """An operator application up to its operands' values, as keys of cost tables; ``constant`` marks folded weights."""

    op: str
    attrs: tuple[AttrValue, ...]
    inputs: tuple[ValueType, ...]
    type: ValueType
    constant: tuple[bool, ...]


class Accelerator(Protocol):
    """A hardware unit that a cost model may have figures of."""

    @property
    def name(self) -> str:
        """Return the name of the unit."""


class CostModel(ABC):
    """A source of prices for operator instances.

    A cost model of one's own is a subclass that writes :meth:`price`; everything else has a default.
    ``source`` and ``device`` may be class attributes or properties.

    >>> class Elements(CostModel):
    ...     source = "elements written"
    ...
    ...     def price(self, instances):
    ...         return np.array([float(i.type.elements) for i in instances])
    >>> from workbench.ops import TensorType
    >>> kind = TensorType("float32", (2, 3))
    >>> Elements().price([OpInstance("relu", (), (kind,), kind, (False,))]).tolist()
    [6.0]
    """

    __slots__ = ()

    #: Whether the figures are those of a roofline.
    analytic = False

    @abstractmethod
    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds; none is negative."""

    @property
    def source(self) -> str:
        """Return where the figures come from: a roofline, runs on a device, a recorded table."""
        return type(self).__name__

    @property
    def device(self) -> str:
        """Return the device that the figures are of."""
        return self.source

    @property
    def measured(self) -> bool:
        """Return whether :meth:`measure` can replace estimates."""
        return type(self).measure is not CostModel.measure

    @property
    def accelerator(self) -> Accelerator | None:
        """Return the hardware unit that the figures are of, or None for any other device."""
        return None

    def bind(self, graph: Graph) -> None:  # noqa: B027  (most models price every graph alike)
        """Name the current model, before its instances are priced."""

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure the instances that are estimated so far; return the number of new measurements."""
        return 0


#: Descriptions of the analytic devices.
TITLES: Final = {
    "cpu": "a two-core server CPU",
    **{name: f"an NVIDIA {name.upper()}" for name in ("t4", "v100", "a100", "l4", "l40s", "h100", "h200")},
}


def described(source: str) -> str:
    """Return a cost source as the end of a sentence about a cost; it names any machine other than this one.

    >>> described("analytic roofline, t4")
    'by a roofline of an NVIDIA T4, not this machine'
    >>> described("my own")
    'by my own'
    """
    kind, comma, device = source.partition("analytic roofline, ")
    if not kind and comma:
        device, more, sizes = device.partition(", ")
        return f"by a roofline of {TITLES.get(device, device)}, not this machine{more}{sizes}"
    where = "on this machine" if machine() in source else "not on this machine"
    for verb in ("measured", "recorded table"):
        if source.startswith(f"{verb}: "):
            return f"by operators {verb.partition(' ')[0]} {where}: {source.removeprefix(f'{verb}: ')}"
    return f"by {source}"


def is_this_machine(source: str) -> bool:
    """Return whether a cost source measured ONNX Runtime on this machine.

    >>> is_this_machine("analytic roofline, t4")
    False
    """
    measured = source.startswith(("measured: ONNX Runtime", "recorded table: ONNX Runtime"))
    return measured and machine() in source
