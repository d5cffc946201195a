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
import gc
import signal
import sys
from typing import Any, Final

from workbench.faces.cli.process import UNWRITABLE, ended, flush_output, interrupted_at_start, open_closed

#: New objects after which the collector looks for cycles; most objects of a command live until its end.
_COLLECT: Final = 10_000


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
