"""Pause Python's garbage collector while millions of objects are created."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the search for unreachable cycles, which visits all objects again and again.

    For code that creates very many objects and no cycles among them: it then takes a third of the time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
