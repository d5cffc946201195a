"""Ctrl-C before a command has begun, while Python still imports."""

from __future__ import annotations

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
