"""Functions run in separate processes, with a time limit that is enforced even if they hang.

Run as a program (``python -m workbench.studies.experiments.process``), this module is such a process: it reads a
function and its argument from a pipe and writes the function's result, or the reason of its failure.
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
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from workbench.ops import Trait, with_trait
from workbench.ops.serialization import CannotTravel, install, packed
from workbench.support.plugins import unpack
from workbench.support.processes import Child, limit_memory, receive, send

#: The tables of things by name.
_TABLES: Final = ("costs.registry:cost_model", "extraction.registry:OWN", "devices.targets:target")
#: Packed operators, and things by name.
Registered = tuple[list[bytes], list[tuple[str, str, bytes]]]


def registered() -> Registered:
    """Return the entries that this process registered; entries that cannot be pickled are left out."""
    operators = []
    for name in sorted(with_trait(Trait.OWN)):
        try:
            operators.append(packed([name]))
        except CannotTravel:
            continue
    tables = [table.partition(":") for table in _TABLES]
    named = [t for m, _, name in tables for t in getattr(import_module(f"workbench.{m}"), name).packed()]
    return operators, named


def register(things: Registered) -> None:
    """Register the entries of the parent's process."""
    operators, named = things
    for shipment in operators:
        install(shipment)
    unpack(named)


#: Seconds in which a terminated process can end its own processes before it is killed.
PATIENCE: Final = 3.0

#: Seconds between two checks of whether to halt.
GLANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """A call of a module's function in its own process.

    The process is killed after ``seconds`` and may use ``memory`` bytes; None means no limit.
    """

    name: str
    function: Callable[[Any], Any]
    argument: Any
    seconds: float
    seed: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The way in which a job ended.

    ``status`` is ``"done"`` with a value, or, with a note, ``"failed"`` (the function raised),
    ``"crashed"`` (the process died) or ``"killed"`` (the time limit was reached).
    """

    status: str
    value: Any = None
    note: str = ""
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class _Run:
    """A job that runs, and its process."""

    job: Job
    child: Child
    said: IO[bytes]
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def start(cls, job: Job) -> _Run:
        said = tempfile.TemporaryFile()  # noqa: SIM115  (closed in end)
        seeded = {"PYTHONHASHSEED": str(job.seed)}
        child = Child("workbench.studies.experiments.process", variables=seeded, errors=said)
        with contextlib.suppress(BrokenPipeError):
            child.send(registered())
            child.send((job.function, job.argument, job.memory))
        return cls(job, child, said)

    @property
    def left(self) -> float:
        return self.began + self.job.seconds - time.perf_counter()

    def outcome(self) -> Outcome:
        """Wait until the job ends, and return its outcome."""
        try:
            status, value, note = self.child.receive()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(PATIENCE)
        except EOFError:
            code = self.child.wait()
            how = f"ended with code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
            self.said.seek(0)
            last = self.said.read().decode(errors="replace").strip().rpartition("\n")[2]
            status, value, note = "crashed", None, f"the process {how}" + (f": {last}" if last else "")
        return Outcome(status, value, note, time.perf_counter() - self.began)

    def end(self) -> None:
        """End the process; it has PATIENCE seconds to end its own children first."""
        self.child.terminate(PATIENCE)
        self.said.close()


def run_jobs(
    jobs: Iterable[Job], at_once: int = 1, halt: threading.Event | None = None
) -> Generator[tuple[Job, Outcome]]:
    """Run jobs, ``at_once`` at a time, and yield each with its outcome when it ends.

    All processes end with the iteration, however it ends. It ends soon after ``halt`` is set.
    """
    waiting, running = deque(jobs), list[_Run]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Run.start(waiting.popleft()))
            if halt is not None and halt.is_set():
                return
            wait = max(0.0, min(run.left for run in running))
            wait = wait if halt is None else min(wait, GLANCE)
            ready, _, _ = select.select([run.child for run in running], [], [], wait)
            for run in list(running):
                if run.child in ready:
                    outcome = run.outcome()
                elif run.left <= 0:
                    note = f"not finished after {run.job.seconds:g} s"
                    outcome = Outcome("killed", None, note, time.perf_counter() - run.began)
                else:
                    continue
                run.end()
                running.remove(run)
                yield run.job, outcome
    finally:
        for run in running:
            run.end()


def _end_with_parent() -> None:
    """Wait until the pipe closes, which happens when the parent dies, and then end this process too."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def main() -> None:
    """Do one job; all output that it prints goes to standard error."""
    # SIGTERM raises an exception, so that code which started further processes can end them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    register(receive(requests))
    function, argument, memory = receive(requests)
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


#: Seconds between two samples of the processes.
_GLANCE: Final = 0.05


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
        while not self._over.wait(_GLANCE):
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
