"""The choice of a schedule by measured time, from a small space, kept in the user's cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from workbench.costs.store import Measurement, Store
from workbench.devices.timing import rounds
from workbench.kernels.codegen.c_printer import c_text
from workbench.kernels.codegen.compiler import Build, build_from, compiler
from workbench.kernels.codegen.kernel import Kernel, kernel_at
from workbench.kernels.codegen.schedule import Schedule, program_of, space
from workbench.kernels.composites.binding import Binding, bind
from workbench.kernels.composites.composite import Composite
from workbench.ops.types import FLOAT_DTYPES, TensorType
from workbench.support.files import cache_folder
from workbench.support.machine import machine, microseconds


@dataclass(frozen=True, slots=True)
class Tried:
    """A schedule with the median time of its kernel in microseconds."""

    schedule: Schedule
    microseconds: float


def tuned(
    composite: Composite,
    types: Sequence[TensorType],
    attributes: Mapping[str, int | float] | None = None,
    *,
    threads: int = 1,
    seconds: float = 1.0,
    build: Build | None = None,
) -> tuple[Kernel, tuple[Tried, ...]]:
    """Return the fastest kernel of a composite, and all schedules that were tried, the fastest first.

    Times are kept in the user's cache: a second call measures nothing. Raise CompilerMissing if there is no C compiler.

    It is measured with ``threads`` threads, for at most ``seconds``; the other
    arguments are those of :func:`~workbench.kernels.codegen.kernel.kernel`.
    """
    binding, options = bind(composite, types, attributes), build_from() if build is None else build
    tried = measured_schedules(binding, options, threads=threads, seconds=seconds)
    return kernel_at(binding, schedule=tried[0].schedule, build=options), tried


def measured_schedules(
    binding: Binding, build: Build, *, threads: int = 1, seconds: float = 1.0
) -> tuple[Tried, ...]:
    """Return the schedules of a composite at known types with their times; the arguments are those of :func:`tuned`."""
    program, _ = program_of(binding)
    options = list(space(program))

    def runs() -> list[Callable[[], object]]:
        kernels = [kernel_at(binding, schedule=s, build=build) for s in options]
        inputs = drawn(binding)
        return [k.bound(inputs, k.empty(), threads) for k in kernels]

    about = f"{sorted(binding.extents.items())} {sorted(binding.types.items())}"
    texts = [f"{c_text(program, s)}\n{about}".encode() for s in options]
    digests = [hashlib.blake2b(text, digest_size=12).hexdigest() for text in texts]
    keys = [f"kernel {d} {s} threads={threads}" for d, s in zip(digests, options, strict=True)]
    timed = partial(microseconds, threads=threads)
    times = kept_times(build, keys, runs, timed, seconds=seconds, least=3, most=50)
    return tuple(sorted(map(Tried, options, times), key=lambda t: t.microseconds))


def kept_times(
    build: Build,
    keys: Sequence[str],
    runs: Callable[[], Sequence[Callable[[], object]]],
    timed: Callable[[Callable[[], object]], float],
    *,
    seconds: float,
    least: int,
    most: int,
    runtime: str = "",
) -> list[float]:
    """Return the median microseconds of runs: kept in the user's cache, or measured now in alternation.

    ``keys`` are those of the runs in the cache. If one of them has no time yet, ``runs`` makes the runs, and ``timed``
    returns the microseconds of one. The times depend on ``build``, and on ``runtime``, a runtime with its version. The
    other arguments are those of :func:`~workbench.devices.timing.rounds`.
    """
    about = f"{machine()}, {compiler(build).resolve()} {' '.join(build.flags)}"
    store = Store(cache_folder(), f"{about}, {runtime}" if runtime else about)
    known = store.read(keys)
    if not all(key in known for key in keys):
        timers = [partial(timed, run) for run in runs()]
        taken = rounds(timers, seconds=seconds, least=least, most=most)
        known = {
            key: Measurement(median(t), float(np.subtract(*np.percentile(t, [75, 25]))), len(t))
            for key, t in zip(keys, taken, strict=True)
        }
        store.write(known)
    return [known[key].median for key in keys]


def drawn(binding: Binding) -> list[np.ndarray]:
    """Return random operands: normal floating-point numbers, and whole numbers 0 and 1."""
    random = np.random.default_rng(0)
    kinds = [binding.types[t.name] for t in binding.composite.inputs]
    return [
        (
            random.standard_normal(k.shape) if k.dtype in FLOAT_DTYPES else random.integers(0, 2, k.shape)
        ).astype(k.numpy_dtype())
        for k in kinds
    ]
