"""Facts about this machine that figures name, its clock, and two knobs: threads of numpy, the garbage collector."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np


def processor() -> str:
    """Return the model name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """Return the processor and the number of cores, as in ``AMD EPYC, 2 cores``."""
    return f"{processor()}, {os.cpu_count()} cores"


def microseconds(run: Callable[[], object], threads: int | None = None, times: int = 1) -> float:
    """Return the microseconds of a run, as the mean of ``times`` runs in a row.

    On one thread, the thread's processor time is taken if it is shorter than the clock's: it leaves out the
    time that other processes take of the core.
    """
    own, began = time.thread_time_ns(), time.perf_counter_ns()
    for _ in range(times):
        run()
    taken = time.perf_counter_ns() - began
    if threads == 1:
        taken = min(taken, time.thread_time_ns() - own)
    return taken / 1e3 / times


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[bool]:
    """Let numpy's products run on ``count`` threads; yield whether that was possible."""
    found = _functions()
    if found is None:
        yield False
        return
    get, put = found
    before = get()
    put(count)
    try:
        yield True
    finally:
        put(before)


@cache
def _functions() -> tuple[Callable[[], Any], Callable[[int], Any]] | None:
    """Return the functions that read and set the number of threads of the OpenBLAS in numpy's package."""
    root = Path(np.__file__).parent
    for file in sorted([*root.parent.glob("numpy.libs/*openblas*"), *root.glob(".libs/*openblas*")]):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for before, after in product(("", "scipy_"), ("", "64_", "_64")):
            names = [f"{before}openblas_{verb}_num_threads{after}" for verb in ("get", "set")]
            if all(hasattr(library, name) for name in names):
                return getattr(library, names[0]), getattr(library, names[1])
    return None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the search for unreachable cycles, which visits all objects again and again.

    For code that creates very many objects and no cycles among them: it then takes a third of the time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
