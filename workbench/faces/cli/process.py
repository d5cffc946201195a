"""The process of a command: Ctrl-C before it has begun and after it has ended, standard streams that are closed."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from types import FrameType
from typing import Final


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


#: The exit code if a result cannot be written.
UNWRITABLE: Final = 3
#: The errors of a place that takes no more: a full disk, a quota, a limit on files, a broken medium.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def open_closed() -> None:
    """Open the null device for every standard stream that the caller has closed.

    Otherwise the next file that is opened takes its number, and what is printed is written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest free number
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def discard_output() -> None:
    """Send the standard output to the null device from now on, also what is written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush_output() -> OSError | None:
    """Write what is left of the standard output; return the error if it cannot be written.

    A pipe whose reader has gone away is not an error.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        return error
    return None
