"""Pools of processes: one way to set them up, to map a function over items, and to end them."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

#: The number of groups of items that each process gets.
CHUNKS: Final = 4
#: Milliseconds to wait until the exit code of a killed process is noted.
NOTICE_MS: Final = 1000


def process_pool(
    jobs: int | None = None, initializer: Callable[..., object] | None = None, *given: Any
) -> ProcessPoolExecutor:
    """Return a pool of ``jobs`` processes (one per core by default), each of which calls ``initializer(*given)``.

    Processes are spawned, because a forked one would inherit pipes to other processes, and locks of threads.
    They end with this process, even if it is killed.
    """
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin, (initializer, given))


def _begin(initializer: Callable[..., object] | None, given: tuple[Any, ...]) -> None:
    """Prepare a process of a pool."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*given)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def processes(jobs: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes; at the end of the block, also on Ctrl-C, work that has not begun is dropped."""
    pool = process_pool(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def mapped(function: Callable[[A], B], items: Sequence[A], jobs: int = 1) -> Iterator[B]:
    """Yield the results of a function, which a pickle can hold, in the order of the items.

    Each of ``jobs`` processes gets groups of neighbouring items; with 1 this process computes the results.
    """
    if jobs == 1:
        yield from map(function, items)
        return
    with processes(jobs) as pool:
        yield from pool.map(function, items, chunksize=max(1, len(items) // (CHUNKS * jobs)))


def kill(pool: ProcessPoolExecutor) -> None:
    """End a pool at once: its processes may be at work that has no end in sight."""
    working = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in working:
        process.kill()
        process.join()
        # If the pool's thread learns first how the process ended, join returns before that is noted.
        for _ in range(NOTICE_MS):
            if process.exitcode is not None:
                break
            time.sleep(0.001)
