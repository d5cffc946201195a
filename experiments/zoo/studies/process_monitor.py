"""A command that is watched: its output, its seconds, and the memory of all its processes."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Seconds between two samples of the processes.
_SAMPLE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Watched:
    """The outcome of a command.

    ``peak`` is the largest memory, in bytes, of one of its processes; ``together`` is the largest sum over
    all processes in one sample. Both are None if the system does not report memory. Memory that is mapped
    from a file counts while it is resident. ``code`` is negative if a signal ended the command. ``late``
    means that the time limit was reached.
    """

    code: int
    output: str
    errors: str
    seconds: float
    peak: int | None = None
    together: int | None = None
    late: bool = False


def watch(command: Sequence[str], *, seconds: float, environment: Mapping[str, str] | None = None) -> Watched:
    """Run a command to its end, or end it after ``seconds``, and return its outcome with its output."""
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
    """End a process; it has three seconds to end its own processes first."""
    process.terminate()
    try:
        process.wait(3.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Sampler(threading.Thread):
    """A thread that samples the memory of a process and of its descendants."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.together = self.largest = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Take samples until the thread is stopped."""
        while not self._over.wait(_SAMPLE_SECONDS):
            held = [memory_of(pid) for pid in family(self.root)]
            self.together = max(self.together, sum(now for now, _ in held))
            self.largest = max([self.largest, *(most for _, most in held)])

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._over.set()
        self.join()


def family(root: int) -> list[int]:
    """Return the ids of a process and its descendants, as far as the system reports them."""
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
    """Return the current and the largest resident bytes of a process, zeros if they are unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    known = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return tuple(int(known[k][0]) * 1024 if k in known else 0 for k in ("VmRSS", "VmHWM"))  # type: ignore[return-value]
