"""A deadline that ends Python code from outside, as Ctrl-C does."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Iterator


class TimeUp(BaseException):
    """Raised in a block under a deadline when its time is up; like KeyboardInterrupt, no ``Exception``."""


@contextlib.contextmanager
def deadline(until: float) -> Iterator[None]:
    """Raise :class:`TimeUp` in the block if it is still running at ``until`` (of ``time.perf_counter``).

    The exception is raised between two operations of the interpreter: a long call of compiled code ends
    first. Code in the block must stand an exception at any point, as it must for Ctrl-C.
    """
    if until == math.inf:
        yield
        return
    thread = threading.get_ident()
    lock = threading.Lock()
    running = True

    def ring() -> None:
        with lock:
            if running:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeUp))

    timer = threading.Timer(max(0.0, min(until - time.perf_counter(), threading.TIMEOUT_MAX)), ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            running = False
            # An exception that was sent but not yet raised must not be raised after the block.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)
