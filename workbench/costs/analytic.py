"""An analytic cost model: the roofline of a named device.

An operator takes the longer of its arithmetic and its memory traffic, plus the time to launch it. That
is enough to rank rewrites (merging saves launches and reads, fusing saves traffic) and runs anywhere;
it knows nothing of kernels, caches or layouts.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.costs.model import OpInstance
from workbench.ops import TensorType, ValueType, spec_of


@dataclass(frozen=True, slots=True)
class Device:
    """Hold a device's figures: peak arithmetic in FLOP/s, memory bandwidth in B/s, launch in µs.

    ``efficiency`` is the part of the peak that dense kernels reach in practice; ``strided_views`` says
    that its kernels read slices in place, so that a slice costs nothing.
    """

    name: str
    flops: float
    bandwidth: float
    launch: float
    efficiency: float = 0.6
    strided_views: bool = True


#: float32 peak without tensor cores and memory bandwidth, from the vendors' data sheets; the launch is
#: what a kernel costs when the next one waits for it. "cpu" is two cores of a server with AVX2:
#: 2 x 3 GHz x 32 FLOP, two memory channels; its launch is what a runtime spends to dispatch a node.
DEVICES: Final[dict[str, Device]] = {
    d.name: d
    for d in (
        Device("cpu", 192e9, 20e9, 2.0, strided_views=False),
        Device("t4", 8.1e12, 320e9, 4.0),
        Device("v100", 15.7e12, 900e9, 4.0),
        Device("a100", 19.5e12, 1555e9, 3.5),
        Device("h200", 67e12, 4800e9, 3.0),
    )
}


@dataclass(frozen=True, slots=True)
class Work:
    """Hold what an operator instance does: FLOP, bytes moved, and whether it moves nothing at all."""

    flops: float
    bytes: float
    free: bool = False

    @property
    def intensity(self) -> float:
        """Return FLOP per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def _size(kind: ValueType) -> float:
    if isinstance(kind, TensorType):
        return kind.nbytes
    return sum(k.nbytes for k in kind.elements)


def work(instance: OpInstance) -> Work:
    """Return what an operator instance does.

    Views are free. A slice reads what it writes; everything else reads its operands and writes its
    result, once. An opaque operator counts as memory traffic alone.
    """
    spec = spec_of(instance.op)
    if spec.view or instance.op in ("input", "weight"):
        return Work(0.0, 0.0, free=True)
    written = _size(instance.type)
    if instance.op in ("slice", "gather"):
        return Work(0.0, 2 * written)
    moved = written + sum(map(_size, instance.inputs))
    if instance.op == "opaque" or not isinstance(instance.type, TensorType):
        return Work(0.0, moved)
    kinds = [k for k in instance.inputs if isinstance(k, TensorType)]
    return Work(spec.flops(spec.unpack(instance.attrs), kinds, instance.type), moved)


@dataclass(slots=True)
class AnalyticCost:
    """Price operators by the roofline of a device.

    >>> AnalyticCost("t4").source
    'analytic roofline, t4'
    """

    device: Device

    def __init__(self, device: Device | str = "t4") -> None:
        if isinstance(device, str):
            if device not in DEVICES:
                near = difflib.get_close_matches(device, DEVICES, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise LookupError(f"no device is called {device!r}{hint} Known: {', '.join(DEVICES)}")
            device = DEVICES[device]
        self.device = device

    @property
    def source(self) -> str:
        """Say what the figures are."""
        return f"analytic roofline, {self.device.name}"

    def seconds(self, done: Work) -> float:
        """Return the seconds that an amount of work takes."""
        if done.free:
            return 0.0
        arithmetic = done.flops / (self.device.flops * self.device.efficiency)
        return max(arithmetic, done.bytes / self.device.bandwidth) + self.device.launch * 1e-6

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        views = self.device.strided_views
        return np.array(
            [
                0.0 if views and i.op == "slice" and i.attrs[-1] == 1 else 1e6 * self.seconds(work(i))
                for i in instances
            ],
            dtype=float,
        )
