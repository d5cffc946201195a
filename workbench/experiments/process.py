"""Run functions in processes of their own, with a limit that holds also when they hang.

As a program (``python -m workbench.experiments.process``) this is such a process: it reads a function
and its argument from a pipe and writes what the function returned, or how it failed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import IO, Any, Final

from workbench.frames import command, environment, limit_memory, receive, send

#: Seconds that a process has to end its own processes before it is killed.
PATIENCE: Final = 3.0

#: Seconds between two looks at whether to halt.
GLANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """Ask for a module's function to be called in a process of its own.

    It is killed after ``seconds``, and has ``memory`` bytes, as much as there is for None.
    """

    name: str
    function: Callable[[Any], Any]
    argument: Any
    seconds: float
    seed: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say how a job ended.

    ``status`` is ``"done"`` with a value, or ``"failed"`` (it raised), ``"crashed"`` (the process
    died), ``"killed"`` (it took too long) with a note.
    """

    status: str
    value: Any = None
    note: str = ""
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class _Child:
    job: Job
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def start(cls, job: Job) -> _Child:
        said = tempfile.TemporaryFile()  # noqa: SIM115  (closed in end)
        process = subprocess.Popen(
            command("workbench.experiments.process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment() | {"PYTHONHASHSEED": str(job.seed)},
            start_new_session=True,
        )
        child = cls(job, process, said)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            send(process.stdin, (job.function, job.argument, job.memory))
        return child

    @property
    def outlet(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def left(self) -> float:
        return self.began + self.job.seconds - time.perf_counter()

    def outcome(self) -> Outcome:
        """Read how the job ended; wait for it."""
        try:
            status, value, note = receive(self.outlet)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        except EOFError:
            code = self.process.wait()
            how = f"ended with code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
            self.said.seek(0)
            last = self.said.read().decode(errors="replace").strip().rpartition("\n")[2]
            status, value, note = "crashed", None, f"the process {how}" + (f": {last}" if last else "")
        return Outcome(status, value, note, time.perf_counter() - self.began)

    def end(self) -> None:
        """End the process, and let it end its own first."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def run_jobs(
    jobs: Iterable[Job], at_once: int = 1, halt: threading.Event | None = None
) -> Generator[tuple[Job, Outcome]]:
    """Run jobs, so many at a time, and return each with its outcome when it ends.

    However the iteration ends, the processes end with it; it ends soon after ``halt`` is set.
    """
    waiting, running = deque(jobs), list[_Child]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Child.start(waiting.popleft()))
            if halt is not None and halt.is_set():
                return
            wait = max(0.0, min(child.left for child in running))
            wait = wait if halt is None else min(wait, GLANCE)
            ready, _, _ = select.select([child.outlet for child in running], [], [], wait)
            for child in list(running):
                if child.outlet in ready:
                    outcome = child.outcome()
                elif child.left <= 0:
                    note = f"not over after {child.job.seconds:g} s"
                    outcome = Outcome("killed", None, note, time.perf_counter() - child.began)
                else:
                    continue
                child.end()
                running.remove(child)
                yield child.job, outcome
    finally:
        for child in running:
            child.end()


def _end_with_parent() -> None:
    """Wait for the end of the pipe, which comes when the parent dies, and end this process too."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def main() -> None:
    """Do one job; whatever else prints goes to the standard error."""
    # An exception, so that what started processes of its own ends them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function, argument, memory = receive(os.fdopen(os.dup(0), "rb", buffering=0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit_memory(memory)
    try:
        answer = ("done", function(argument), "")
    except MemoryError:
        answer = ("failed", None, "out of memory")
    except Exception as error:  # every failure is a row of the study
        answer = ("failed", None, f"{type(error).__name__}: {error}")
    send(answers, answer)


if __name__ == "__main__":
    main()
