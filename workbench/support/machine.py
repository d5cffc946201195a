"""Facts about this machine that figures name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor() -> str:
    """Return the model name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> str:
    """Return the processor and the number of cores, as in ``AMD EPYC, 2 cores``."""
    return f"{processor()}, {os.cpu_count()} cores"
