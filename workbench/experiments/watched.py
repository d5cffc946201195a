"""Run a command and see what it takes: seconds, and memory of all its processes together."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Seconds between two looks at the processes.
_GLANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """What a command came to.

    ``peak`` is the most memory, in bytes, that one of its processes held at once, ``together`` the most that
    all held at once as far as was seen (None where the system does not say); memory that is mapped from a
    file counts while it is there. ``code`` is negative where a signal ended the command.
    """

    code: int
    output: str
    errors: str
    seconds: float
    peak: int | None = None
    together: int | None = None
    late: bool = False


def watch(command: Sequence[str], *, seconds: float, environment: Mapping[str, str] | None = None) -> Watched:
    """Run a command to its end, or kill it after ``seconds``; what it prints is kept."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as failed:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=failed, env=environment
        )
        sampler = _Sampler(process.pid)
        sampler.start()
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            sampler.stop()
            if process.poll() is None:
                _end(process)
        spent = time.perf_counter() - began
        texts = []
        for file in (said, failed):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Watched(
        process.returncode, texts[0], texts[1], spent, sampler.largest or None, sampler.together or None, late
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and let it end its own first."""
    process.terminate()
    try:
        process.wait(3.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Sampler(threading.Thread):
    """A thread that looks at the memory of a process and of those that it started."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.together = self.largest = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._over.wait(_GLANCE):
            held = [memory_of(pid) for pid in family(self.root)]
            self.together = max(self.together, sum(now for now, _ in held))
            self.largest = max([self.largest, *(most for _, most in held)])

    def stop(self) -> None:
        """Stop, after a last look."""
        self._over.set()
        self.join()


def family(root: int) -> list[int]:
    """Return a process and all that it or they started, as far as the system says."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def memory_of(pid: int) -> tuple[int, int]:
    """Return the bytes that a process holds and the most it has held; zeros where nothing says so."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    known = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return tuple(int(known[k][0]) * 1024 if k in known else 0 for k in ("VmRSS", "VmHWM"))  # type: ignore[return-value]
