"""What operator instances cost on a device: each alone, warmed up, many times, the median counts."""

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
from workbench.devices.exchange import Results
from workbench.devices.kernels import draw, kernel
from workbench.ops import TensorType

#: Counted up whenever the way of measuring changes, so that figures of two ways do not meet in a table.
PROTOCOL: Final = 1

#: One sample takes at least this long, in µs: shorter operators run several times in it.
_SAMPLE: Final = {"cuda": 200.0, "cpu": 20.0}

#: At most so many runs make a sample, and so many samples a measurement; at least so many samples.
_MOST_RUNS, _MOST, _LEAST = 64, 100, 7

CACHES: Final = ("weights", "warm", "cold")

#: At most so many copies of the weights are used in turn: small ones stay in the caches, and cost little.
_COPIES: Final = 64

#: The part of the free memory that an instance may take: kernels want room of their own.
_MEMORY: Final = 0.7


class DeviceLost(RuntimeError):
    """Say that a device no longer answers: what follows would fail whatever it is."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Say how operators are measured.

    ``milliseconds`` is how long an operator is sampled. ``caches`` says what a run finds in the device's
    caches: ``"weights"``, what the operator before has just written but no weights, as in a network
    (runs take copies of the weights in turn, more than the caches hold); ``"warm"``, all operands, as
    TASO measures; ``"cold"``, nothing (a block is overwritten before every run, its own time subtracted).
    """

    milliseconds: float = 10.0
    caches: str = "weights"

    def __post_init__(self) -> None:
        if not 0 < self.milliseconds < math.inf:
            raise ValueError(f"milliseconds is positive, not {self.milliseconds}")
        if self.caches not in CACHES:
            raise ValueError(f"caches is one of {', '.join(CACHES)}, not {self.caches!r}")

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
) -> int:
    """Measure instances that ``results`` does not hold yet, add them to it, and return how many it took.

    Instances are measured in their order for at most ``seconds``; what was not reached is counted in
    ``results.left``. What does not fit into memory or fails is a failure with its reason, and measuring
    goes on; raise :class:`DeviceLost` where the device no longer answers. ``progress`` is told how many
    are done of how many, ``keep`` is called now and then, and at the end whatever happens.
    """
    distinct = {instance_key(i): i for i in map(same_kernel, instances)}
    missing = {k: i for k, i in distinct.items() if k not in results.measured and k not in results.failures}
    until = time.perf_counter() + seconds
    kept, done = time.perf_counter(), 0
    flush = None
    # Every recording of a CUDA graph collects garbage: what is here now need not be looked at each time.
    gc.freeze()
    try:
        with device.settings():
            if protocol.caches == "cold" and missing:
                flush = device.flush()
            for key, instance in missing.items():
                if time.perf_counter() > until:
                    break
                try:
                    results.measured[key], results.methods[key] = measure(instance, device, protocol, flush)
                except Exception as error:  # whatever torch cannot do is a finding
                    results.failures[key] = _reason(error)
                    _check_alive(device, error)
                done += 1
                if progress is not None:
                    progress(done, len(missing))
                if keep is not None and time.perf_counter() - kept > 20:
                    keep()
                    kept = time.perf_counter()
    finally:
        gc.unfreeze()
        results.left = len(missing) - done
        if keep is not None:
            keep()
    return done


def measure(
    instance: OpInstance,
    device: Device,
    protocol: Protocol,
    flush: Callable[[], object] | None = None,
) -> tuple[Measurement, str]:
    """Return what an instance costs, and how it was found: ``graph``, ``events``, ``clock`` or ``view``.

    On a GPU its runs are recorded as a CUDA graph, so that the time to launch them from Python is not
    counted, and timed by device events; what cannot be recorded is timed run by run. What moves nothing
    (a view of its operand) takes no time there. The time on a CPU is with the call.
    """
    if not all(isinstance(k, TensorType) for k in (*instance.inputs, instance.type)):
        raise ValueError("only tensors can be measured")
    types: list[TensorType] = list(instance.inputs)  # type: ignore[arg-type]
    out: TensorType = instance.type  # type: ignore[assignment]
    needed = out.nbytes + sum(k.nbytes for k in types)
    if needed > _MEMORY * device.free_bytes():
        raise MemoryError(f"it takes {needed / 2**30:.1f} GiB; {device.free_bytes() / 2**30:.1f} are free")
    below = types[0].shape[instance.attrs[0]] if instance.op == "gather" else 1  # type: ignore[index]
    operands = [draw(device, kind, seed, below=below) for seed, kind in enumerate(types)]
    run = kernel(device, instance.op, instance.attrs, types, out)
    result = run(*operands)
    device.wait()
    if device.cuda and _same_storage(result, operands):
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
    """Return samples of the time of one run, the bodies being run in turn."""
    turns = cycle(bodies)

    def body() -> Any:
        return next(turns)()

    for _ in range(2):
        body()
    device.wait()
    once = max(0.1, min(device.time(body) for _ in range(3)))
    runs = min(_MOST_RUNS, math.ceil(_SAMPLE["cuda" if device.cuda else "cpu"] / once))
    if device.cuda:
        # A recorded graph runs the same calls every time: it must go round all bodies.
        runs = max(runs, len(bodies), 16 if flush else 1)
        try:
            recorded = _recorded(device, body, runs, flush)
        except RuntimeError:
            device.wait()
        else:
            wanted = int(np.clip(1000 * protocol.milliseconds / (runs * once), _LEAST, _MOST))
            return _replayed(device, recorded, runs, wanted), "graph"
    samples: list[float] = []
    until = time.perf_counter() + protocol.milliseconds / 1000
    while len(samples) < _LEAST or (time.perf_counter() < until and len(samples) < _MOST):
        if flush is not None:
            flush()
        # After a flush only the first run finds the caches empty.
        samples.append(device.time(body, 1 if flush else runs))
    return samples, "events" if device.cuda else "clock"


def _recorded(
    device: Device, body: Callable[[], Any], runs: int, flush: Callable[[], object] | None
) -> list[Callable[[], None]]:
    """Return what replays the runs; with a flush before each, also what replays the flushes alone."""

    def both() -> None:
        for _ in range(runs):
            if flush is not None:
                flush()
            body()

    if flush is None:
        return [device.capture(both, warmup=1)]
    return [device.capture(both, warmup=1), device.capture(lambda: [flush() for _ in range(runs)], warmup=1)]


def _replayed(device: Device, recorded: Sequence[Callable[[], None]], runs: int, wanted: int) -> list[float]:
    taken = device.times_back_to_back(list(recorded) * wanted)
    if len(recorded) == 1:
        return [t / runs for t in taken]
    return [(both - flushes) / runs for both, flushes in zip(taken[::2], taken[1::2], strict=True)]


def _same_storage(result: Any, operands: Sequence[Any]) -> bool:
    return any(result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for x in operands)


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _check_alive(device: Device, error: Exception) -> None:
    """Raise :class:`DeviceLost` where a failure has taken the device along."""
    try:
        device.release()
        device.wait()
    except RuntimeError as lost:
        raise DeviceLost(f"{device.name} no longer answers after {_reason(error)}: {lost}") from None
