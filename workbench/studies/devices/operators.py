"""Costs of operator instances on a device: each is run alone many times, warmed up; the median counts."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np

from workbench.costs.keys import instance_key, same_kernel
from workbench.costs.model import OpInstance
from workbench.costs.store import Measurement
from workbench.devices.device import Device
from workbench.ops import TensorType, spec_of
from workbench.studies.devices.spec_io import Results
from workbench.torch.executor import first_line
from workbench.torch.kernels import draw, kernel

#: Incremented whenever the way of measuring changes, so that a table never mixes figures of two ways.
PROTOCOL: Final = 1

#: The least length of one sample in µs; shorter operators run several times in a sample.
_SAMPLE: Final = {"cuda": 200.0, "cpu": 20.0}

#: The most runs per sample, the most samples per measurement, and the fewest.
_MOST_RUNS, _MOST, _LEAST = 64, 100, 7

CACHES: Final = ("weights", "warm", "cold")

#: The most copies of the weights used in turn; the copies of small weights stay in the caches and read fast.
_COPIES: Final = 64

#: The fraction of the free memory that an instance may use; kernels need workspace in addition.
_MEMORY: Final = 0.7


#: Seconds of work that raise the clocks of a GPU before anything is timed, and between two times of keeping results.
_SOAK, _KEEP = 3.0, 20.0


class DeviceLost(RuntimeError):
    """Raised when a device no longer answers, so that every later measurement would fail."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The way in which operators are measured.

    ``milliseconds`` is the time for sampling an operator. ``caches`` is the state of the device's caches
    before a run: ``"weights"``, the outputs of the previous operator but no weights, as in a network (runs
    use copies of the weights in turn, more than fit into the caches); ``"warm"``, all operands, as TASO
    measures; ``"cold"``, empty (a block is overwritten before every run, and its own time subtracted).
    """

    milliseconds: float = 10.0
    caches: str = "weights"

    def __post_init__(self) -> None:
        if not 0 < self.milliseconds < math.inf:
            raise ValueError(f"milliseconds must be positive, got {self.milliseconds}")
        if self.caches not in CACHES:
            raise ValueError(f"caches must be one of {', '.join(CACHES)}, got {self.caches!r}")

    def record(self) -> dict[str, Any]:
        """Return the protocol as plain data."""
        return {"version": PROTOCOL, "milliseconds": self.milliseconds, "caches": self.caches}


STANDARD: Final = Protocol()


def measure_instances(
    instances: Sequence[OpInstance],
    device: Device,
    results: Results,
    *,
    protocol: Protocol = STANDARD,
    seconds: float = math.inf,
    progress: Callable[[int, int], None] | None = None,
    keep: Callable[[], None] | None = None,
) -> None:
    """Measure the instances that ``results`` lacks and add them to it.

    An instance that does not fit into memory or fails is recorded as a failure with its reason, and measuring
    continues.

    Args:
        instances: The instances, measured in this order.
        device: The device.
        results: The results to extend; ``left`` becomes the number of instances not reached. The clocks of a GPU
            are added at the beginning and about every 20 seconds.
        protocol: The way to measure.
        seconds: The time limit.
        progress: Called with the numbers of instances done and to do.
        keep: Called about every 20 seconds and at the end, also after an error, to save the results.

    Raises:
        DeviceLost: The device no longer answers.
    """
    distinct = {instance_key(i): i for i in map(same_kernel, instances)}
    missing = {k: i for k, i in distinct.items() if k not in results.measured and k not in results.failures}
    began = kept = time.perf_counter()
    done, flush = 0, None

    def note_clocks() -> None:
        if clocks := device.clocks():
            results.clocks.append({"at": round(time.perf_counter() - began, 1), **clocks})

    # Recording a CUDA graph collects garbage each time: freezing spares the objects that exist already.
    gc.freeze()
    try:
        with device.settings():
            if missing:
                flush = device.flush() if protocol.caches == "cold" else None
                device.soak(_SOAK)
                note_clocks()
            for key, instance in missing.items():
                if time.perf_counter() > began + seconds:
                    break
                try:
                    results.measured[key], results.methods[key] = _measure(instance, device, protocol, flush)
                except Exception as error:  # an operator that torch cannot run is a result as well
                    results.failures[key] = first_line(error)
                    _check_alive(device, error)
                done += 1
                if progress is not None:
                    progress(done, len(missing))
                if time.perf_counter() - kept > _KEEP:
                    device.release()
                    note_clocks()
                    if keep is not None:
                        keep()
                    kept = time.perf_counter()
    finally:
        gc.unfreeze()
        results.left = len(missing) - done
        if keep is not None:
            keep()


def _measure(
    instance: OpInstance, device: Device, protocol: Protocol, flush: Callable[[], object] | None = None
) -> tuple[Measurement, str]:
    """Return the cost of an instance and the method: ``graph``, ``events``, ``clock`` or ``view``.

    On a GPU the runs are recorded as a CUDA graph, so that launching them from Python is not counted, and
    timed by device events; runs that cannot be recorded are timed one by one. An operator that moves no data
    (a view of its operand) takes no time there. On a CPU the time includes the call. ``flush`` empties the caches
    before each run.
    """
    if not all(isinstance(k, TensorType) for k in (*instance.inputs, instance.type)):
        raise ValueError("operands and result must be tensors")
    types: list[TensorType] = list(instance.inputs)  # type: ignore[arg-type]
    out: TensorType = instance.type  # type: ignore[assignment]
    needed = out.nbytes + sum(k.nbytes for k in types)
    if needed > _MEMORY * device.free_bytes():
        raise MemoryError(f"it needs {needed / 2**30:.1f} GiB; {device.free_bytes() / 2**30:.1f} are free")
    indexed = spec_of(instance.op).places is not None
    below = types[0].shape[instance.attrs[0]] if indexed else 1  # type: ignore[index]
    operands = [draw(device, kind, seed, below=below) for seed, kind in enumerate(types)]
    run = kernel(device, instance.op, instance.attrs, types, out)
    result = run(*operands)
    device.wait()
    data, *others = (x.untyped_storage().data_ptr() for x in (result, *operands))
    if device.cuda and data in others:
        return Measurement(0.0, 0.0, 1), "view"
    del result
    bodies: list[Callable[[], Any]] = [partial(run, *operands)]
    weights = sum(k.nbytes for k, c in zip(types, instance.constant, strict=True) if c)
    if protocol.caches == "weights" and weights:
        room = _MEMORY * device.free_bytes() - needed
        copies = min(_COPIES, math.ceil(2 * device.cache_bytes() / weights), room / weights)
        for _ in range(int(copies) - 1):
            pairs = zip(operands, instance.constant, strict=True)
            bodies.append(partial(run, *[x.clone() if c else x for x, c in pairs]))
    samples, method = _samples(device, bodies, protocol, flush)
    low, median, high = np.percentile(samples, [25, 50, 75]).tolist()
    return Measurement(max(0.0, median), high - low, len(samples)), method


def _samples(
    device: Device,
    bodies: Sequence[Callable[[], Any]],
    protocol: Protocol,
    flush: Callable[[], object] | None,
) -> tuple[list[float], str]:
    """Return samples of the time of one run, and the method; runs use the bodies in turn."""
    turns = cycle(bodies)

    def body() -> Any:
        return next(turns)()

    for _ in range(2):
        body()
    device.wait()
    once = max(0.1, min(device.time(body) for _ in range(3)))
    runs = min(_MOST_RUNS, math.ceil(_SAMPLE["cuda" if device.cuda else "cpu"] / once))
    if device.cuda:
        # A recorded graph repeats the same calls, so it must contain each body at least once.
        runs = max(runs, len(bodies), 16 if flush else 1)
        try:
            recorded = _recorded(device, body, runs, flush)
        except RuntimeError as error:
            if "out of memory" in str(error):  # torch's own error is one of these, and so is the driver's
                raise
            device.wait()
        else:
            wanted = int(np.clip(1000 * protocol.milliseconds / (runs * once), _LEAST, _MOST))
            taken = device.times_back_to_back(recorded * wanted)
            if flush is not None:
                taken = [both - flushes for both, flushes in zip(taken[::2], taken[1::2], strict=True)]
            return [t / runs for t in taken], "graph"
    samples: list[float] = []
    until = time.perf_counter() + protocol.milliseconds / 1000
    while len(samples) < _LEAST or (time.perf_counter() < until and len(samples) < _MOST):
        if flush is not None:
            flush()
        # After a flush the caches are empty only for the first run.
        samples.append(device.time(body, 1 if flush else runs))
    return samples, "events" if device.cuda else "clock"


def _recorded(
    device: Device, body: Callable[[], Any], runs: int, flush: Callable[[], object] | None
) -> list[Callable[[], None]]:
    """Return a function that replays the runs; with a flush before each, also one for the flushes alone."""

    def both() -> None:
        for _ in range(runs):
            if flush is not None:
                flush()
            body()

    if flush is None:
        return [device.capture(both, warmup=1)]
    return [device.capture(both, warmup=1), device.capture(lambda: [flush() for _ in range(runs)], warmup=1)]


def _check_alive(device: Device, error: Exception) -> None:
    """Raise :class:`DeviceLost` if a failure has made the device unusable."""
    try:
        device.release()
        device.wait()
    except RuntimeError as lost:
        raise DeviceLost(f"{device.name} no longer answers after {first_line(error)}: {lost}") from None
