"""The command line.

``workbench optimize | search | rules | verify | certify | synthesise | extract | why-not | cost | device |
bench | run | accelerators | composite | results | demo``.

Exit codes: 0 done; 1 the certificate failed (the original is written), a rule was refuted, two models
differ, a run of a study failed, or another failure; 2 usage or bad input; 3 a result cannot be written;
130 interrupted before there was a result. Ctrl-C during saturation or search ends that stage, and the
command continues with the graphs found so far; during a study it keeps the finished runs.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
from types import FrameType
from typing import Any, Final

#: New objects after which the collector looks for cycles; most objects of a command live until its end.
_COLLECT: Final = 10_000
#: The exit code if a result cannot be written.
UNWRITABLE: Final = 3
#: The errors of a place that takes no more: a full disk, a quota, a limit on files, a broken medium.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_COLLECT)
    open_closed()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, interrupted_at_start)
    from workbench.faces.cli.commands import application

    app = application(sys.argv[1] if len(sys.argv) > 1 else None)
    full: OSError | None = None
    try:
        app(prog_name="workbench")
    except OSError as error:  # help and version are printed before a command begins
        full = error
    finally:
        ended()
        gc.freeze()  # the interpreter does not search everything for cycles once more as it ends
        full = flush_output() or full
        if full is not None:
            print(f"workbench: cannot write the output: {full.strerror}", file=sys.stderr)
            sys.exit(UNWRITABLE)


def __getattr__(name: str) -> Any:
    """Return the application, imported on first access so that importing this module stays fast."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.faces.cli.commands import app

    return app


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
