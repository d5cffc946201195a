"""The command line.

``workbench optimize | search | rules | verify | certify | extract | cost | device | bench | run | demo``.

Exit codes: 0 done; 1 the certificate failed (the original is written), a rule was refuted, two models
differ, a run of a study failed, or another failure; 2 usage or bad input; 3 a result cannot be written;
130 interrupted before there was a result. Ctrl-C during saturation or search keeps what is there and goes
on with it, and during a study keeps the runs that are done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, interrupted_at_start)
    from workbench.cli.commands import app

    try:
        app(prog_name="workbench")
    finally:
        # All is said and written: a Ctrl-C that comes now changes neither, nor the exit code.
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def interrupted_at_start(signum: int, frame: FrameType | None) -> None:
    """End at once: no command has begun, and no code that is being imported expects an exception."""
    print("workbench: interrupted; nothing was written", file=sys.stderr, flush=True)
    os._exit(130)


def begun() -> None:
    """Let a Ctrl-C raise KeyboardInterrupt from here on: a command has begun."""
    if signal.getsignal(signal.SIGINT) is interrupted_at_start:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def __getattr__(name: str) -> Any:
    """Return the application, which is imported when it is asked for: the start is short without it."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.cli.commands import app

    return app
