"""Deadlines: one that ends Python code from outside, as Ctrl-C does, and one that long loops look at."""

from __future__ import annotations

import contextlib
import ctypes
import math
import queue
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


class _Alarm:
    """The end of a block, which ``rings`` in its thread unless the block has ended before."""

    __slots__ = ("lock", "running", "sent", "thread", "until")

    def __init__(self, until: float) -> None:
        self.until, self.thread = until, threading.get_ident()
        self.lock, self.running, self.sent = threading.Lock(), True, False

    def ring(self) -> None:
        with self.lock:
            self.sent = True
            if self.running:
                thread = ctypes.c_ulong(self.thread)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeUp))


#: Seconds after which the end of a block that was taken for the end of one inside it comes again.
_AGAIN: Final = 0.01
#: The alarms of the blocks that a thread is in, the outermost first.
_nested: Final = threading.local()
_begun: Final[queue.SimpleQueue[_Alarm]] = queue.SimpleQueue()
_ringer: list[threading.Thread] = []


def _ring() -> None:
    """Ring every alarm at its time."""
    waiting: list[_Alarm] = []
    while True:
        wait = min((a.until for a in waiting), default=math.inf) - time.perf_counter()
        with contextlib.suppress(queue.Empty):
            waiting.append(_begun.get(timeout=min(max(0.0, wait), threading.TIMEOUT_MAX)))
        now = time.perf_counter()
        for alarm in waiting:
            if alarm.until <= now:
                alarm.ring()
        waiting = [a for a in waiting if a.running and a.until > now]


@contextlib.contextmanager
def deadline(until: float) -> Iterator[None]:
    """Raise :class:`TimeUp` in the block if it is still running at ``until`` (of ``time.perf_counter``).

    The exception is raised between two operations of the interpreter: a long call of compiled code ends
    first. Code in the block must tolerate an exception at any point, as it must for Ctrl-C. Blocks may be
    nested. One thread rings for all: while a thread begins another, an exception for the first reaches the second.
    """
    if until == math.inf:
        yield
        return
    if not (_ringer and _ringer[-1].is_alive()):
        _ringer.append(threading.Thread(target=_ring, name="deadlines", daemon=True))
        _ringer[-1].start()
    mine: list[_Alarm] = vars(_nested).setdefault("alarms", [])
    alarm, depth = _Alarm(until), len(mine)
    try:
        mine.append(alarm)
        _begun.put(alarm)
        yield
    finally:
        alarm.running = False  # at once: from here on the end of a block around this one may come, too
        for left in mine[depth:]:  # an exception came before such a block inside could end itself
            left.running = False
        del mine[depth:]
        with alarm.lock:
            late = alarm.sent
        if late:
            _discard()
        for around in mine:
            if around.sent and around.running:  # taken for the end of this block, whose handlers come first
                around.until = time.perf_counter() + _AGAIN
                _begun.put(around)


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
