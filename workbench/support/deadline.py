"""Deadlines: one that ends Python code from outside, as Ctrl-C does, and one that long loops look at."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class TimeUp(BaseException):
    """Raised in a block under a deadline when its time is up; like KeyboardInterrupt, no ``Exception``."""


#: What ends a long run early: the user, or its limit.
INTERRUPTS: Final = (KeyboardInterrupt, TimeUp)


@contextlib.contextmanager
def deadline(until: float) -> Iterator[None]:
    """Raise :class:`TimeUp` in the block if it is still running at ``until`` (of ``time.perf_counter``).

    The exception is raised between two operations of the interpreter: a long call of compiled code ends
    first. Code in the block must tolerate an exception at any point, as it must for Ctrl-C.
    """
    if until == math.inf:
        yield
        return
    thread = threading.get_ident()
    lock = threading.Lock()
    running, sent = True, False

    def ring() -> None:
        nonlocal sent
        with lock:
            if running:
                sent = True
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
        if sent:
            _discard()


def _discard() -> None:
    """Discard an exception that was sent but not yet raised, so that it is not raised after the block.

    It is raised here, at the end of a turn of the loop, and caught. To send None in its place would leave the
    interpreter (CPython 3.11) with a signal that nothing clears: a profiler or debugger then never returns.
    """
    with contextlib.suppress(TimeUp):
        for _ in range(2):
            pass


_until: ContextVar[float] = ContextVar("until", default=math.inf)


class OutOfTime(TimeoutError):
    """Raised when work has used the time that it was given."""


@contextmanager
def ending(at: float) -> Iterator[None]:
    """Let the work inside end at a time, in seconds since the epoch; an earlier end that is set stays."""
    token = _until.set(min(at, _until.get()))
    try:
        yield
    finally:
        _until.reset(token)


def until() -> float:
    """Return the time at which the work ends, in seconds since the epoch; infinity if no end is set."""
    return _until.get()


def left() -> float:
    """Return the seconds that are left, infinity if no end is set."""
    return _until.get() - time.time()


def check() -> None:
    """Raise OutOfTime if no time is left."""
    if left() <= 0:
        raise OutOfTime("the work has used its time")
