"""The time at which a verification ends: long loops look at it, in whichever process they run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_until: ContextVar[float] = ContextVar("until", default=math.inf)


class TimeIsUp(TimeoutError):
    """Raised when a verification has used its time."""


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
    """Raise TimeIsUp if no time is left."""
    if left() <= 0:
        raise TimeIsUp("the verification has used its time")
