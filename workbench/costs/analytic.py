"""An analytic cost model: the roofline of a named device.

The time of an operator is the larger of its arithmetic time and its memory traffic time, plus the launch
time. This is enough to rank rewrites (merging saves launches and reads, fusing saves traffic) and runs
anywhere; the model has no information on kernels or layouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from workbench.costs.model import CostModel, OpInstance
from workbench.ops import TensorType, Trait, ValueType, spec_of
from workbench.support.plugins import Table


@dataclass(frozen=True, slots=True)
class Device:
    """The figures of a device: peak arithmetic in FLOP/s, memory bandwidth in B/s, launch time in µs.

    ``flops`` is the peak in float32, ``double`` in float64, ``half`` in float16 and bfloat16 (including
    matrix units: only matrix products and convolutions are ever limited by it). ``efficiency`` is the
    fraction of the peak that dense kernels reach in practice. ``strided_views`` is true if its kernels read
    slices in place, so that a slice costs nothing. The first ``cache`` bytes that an operator moves are moved
    at ``cache_bandwidth`` in B/s, because the output of the previous operator is still in the cache.
    """

    name: str
    flops: float
    bandwidth: float
    launch: float
    half: float
    double: float
    efficiency: float = 0.6
    strided_views: bool = True
    cache: float = 0.0
    cache_bandwidth: float = math.inf

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.type == "float"):
            value, least = getattr(self, name), name in ("launch", "cache")
            if not (0 <= value < math.inf if least else value > 0):
                norm = "finite and at least 0" if least else "positive"
                raise ValueError(f"device {self.name}: {name} must be {norm}, got {value!r}")

    def peak(self, dtype: str) -> float:
        """Return the peak FLOP/s for arithmetic in an element type."""
        if dtype in ("float16", "bfloat16"):
            return self.half
        return self.double if dtype == "float64" else self.flops

    def transfer(self, moved: float) -> float:
        """Return the seconds needed to move this number of bytes."""
        cached = min(moved, self.cache)
        return cached / self.cache_bandwidth + (moved - cached) / self.bandwidth


#: Peaks and memory bandwidths are from the vendors' data sheets: T4 (PCIe), V100 (SXM2), A100 (SXM4, 40 GB),
#: H100 and H200 (SXM), L4 and L40S (PCIe). half is without sparsity, float32 is without matrix units, as IEEE
#: arithmetic requires. The launch time is not from a data sheet: it is roughly the cost of a kernel when the next
#: one waits for it.
#: "cpu" is two cores of a server with AVX2, which computes half precision in float32: 2 x 3 GHz x 32 FLOP,
#: two memory channels. Its launch time and cache are rounded from measurements: ONNX Runtime needs 0.15 to
#: 0.3 µs for an operator on a tiny tensor, and elementwise operators run at 70 to 130 GB/s up to 25 MB.
DEVICES: Final = Table(
    "device",
    {
        d.name: d
        for d in (
            Device(
                "cpu", 192e9, 20e9, 0.3, 192e9, 96e9, strided_views=False, cache=16e6, cache_bandwidth=100e9
            ),
            Device("t4", 8.1e12, 320e9, 4.0, half=65e12, double=0.25e12),
            Device("v100", 15.7e12, 900e9, 4.0, half=125e12, double=7.8e12),
            Device("a100", 19.5e12, 1555e9, 3.5, half=312e12, double=9.7e12),
            Device("l4", 30.3e12, 300e9, 3.5, half=121e12, double=0.47e12),
            Device("l40s", 91.6e12, 864e9, 3.0, half=362e12, double=1.43e12),
            Device("h100", 67e12, 3350e9, 3.0, half=989e12, double=34e12),
            Device("h200", 67e12, 4800e9, 3.0, half=989e12, double=34e12),
        )
    },
)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an operator instance: FLOP in ``dtype``, bytes moved, and if it is free as nothing is moved."""

    flops: float
    bytes: float
    free: bool = False
    dtype: str = "float32"


_NOTHING: Final = Work(0.0, 0.0, free=True)


def _size(kind: ValueType) -> float:
    return kind.nbytes if isinstance(kind, TensorType) else sum(k.nbytes for k in kind.elements)


def work(instance: OpInstance) -> Work:
    """Return the work of an operator instance.

    Views are free, and so are leaves and constants. A slice or gather reads as many bytes as it writes; every
    other operator reads its operands and writes its result, once. An opaque operator counts as memory traffic
    without arithmetic.

    >>> kind = TensorType("float32", (64, 64))
    >>> done = work(OpInstance("matmul", ("none",), (kind, kind), kind, (False, True)))
    >>> done.flops, done.bytes
    (524288.0, 49152)
    """
    spec = spec_of(instance.op)
    if Trait.ALIAS in spec.traits or not spec.max_inputs:
        return _NOTHING
    written = _size(instance.type)
    if instance.op in ("slice", "gather"):
        return Work(0.0, 2 * written)
    moved = written + sum(map(_size, instance.inputs))
    if instance.op == "opaque" or not isinstance(instance.type, TensorType):
        return Work(0.0, moved)
    kinds = [k for k in instance.inputs if isinstance(k, TensorType)]
    flops = spec.flops(spec.unpack(instance.attrs), kinds, instance.type)
    return Work(flops, moved, dtype=instance.type.dtype)


@dataclass(slots=True)
class AnalyticCost(CostModel):
    """A cost model that prices operators by the roofline of a device.

    >>> AnalyticCost("t4").source
    'analytic roofline, t4'
    """

    hardware: Device
    analytic = True

    def __init__(self, device: Device | str = "t4") -> None:
        self.hardware = DEVICES[device] if isinstance(device, str) else device

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"analytic roofline, {self.hardware.name}"

    @property
    def device(self) -> str:
        """Return the name of the device."""
        return self.hardware.name

    def seconds(self, done: Work) -> float:
        """Return the seconds needed for an amount of work."""
        if done.free:
            return 0.0
        arithmetic = done.flops / (self.hardware.peak(done.dtype) * self.hardware.efficiency)
        return max(arithmetic, self.hardware.transfer(done.bytes)) + self.hardware.launch * 1e-6

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        views = self.hardware.strided_views
        free = (views and i.op == "slice" and i.attrs[-1] == 1 for i in instances)
        prices = [0.0 if f else 1e6 * self.seconds(work(i)) for f, i in zip(free, instances, strict=True)]
        return np.array(prices, dtype=float)
