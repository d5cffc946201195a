"""Standard streams that the caller has closed, or that nothing more can be written to."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

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

    A pipe whose reader has gone away is no error.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        return error
    return None
