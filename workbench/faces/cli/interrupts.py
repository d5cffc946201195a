"""Ctrl-C before a command has begun, while Python still imports, and after it has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType


def interrupted_at_start(signum: int, frame: FrameType | None) -> None:
    """End at once: no command has begun, and the code being imported does not expect an exception."""
    print("workbench: interrupted; nothing was written", file=sys.stderr, flush=True)
    os._exit(130)


def begun() -> None:
    """Make Ctrl-C raise KeyboardInterrupt from now on, because a command has begun."""
    if signal.getsignal(signal.SIGINT) is interrupted_at_start:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ended() -> None:
    """Ignore Ctrl-C from now on: all output is printed and written, and the exit code is known."""
    with contextlib.suppress(ValueError):  # not the main thread
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:  # a Ctrl-C that arrived just before
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Python ends by the signal and not with the exit code once a Ctrl-C was raised in text that exec() runs,
    # even if it was caught; dataclasses run such text when they are defined. The next exec() ends that.
    exec("")
