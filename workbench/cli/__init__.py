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
import signal
from typing import Any

from workbench.cli.interrupts import ended, interrupted_at_start


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, interrupted_at_start)
    from workbench.cli.commands import app

    try:
        app(prog_name="workbench")
    finally:
        ended()


def __getattr__(name: str) -> Any:
    """Return the application, imported on first access so that importing this module stays fast."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.cli.commands import app

    return app
