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
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from workbench.ops import Trait, with_trait
from workbench.ops.serialization import CannotTravel, install, packed
from workbench.studies.zoo import find_zoo
from workbench.support.plugins import unpack
from workbench.support.processes import Child, limit_memory, receive, send, served

#: The tables of things by name.
_TABLES: Final = ("costs.registry:cost_model", "extraction.registry:OWN", "devices.targets:target")


def registered() -> tuple[list[bytes], list[tuple[str, str, bytes]]]:
    """Return packed operators and things by name that this process registered, without those that no pickle takes."""
    operators = []
    for name in sorted(with_trait(Trait.OWN)):
        with contextlib.suppress(CannotTravel):
            operators.append(packed([name]))
    tables = [table.partition(":") for table in _TABLES]
    named = [t for m, _, name in tables for t in getattr(import_module(f"workbench.{m}"), name).packed()]
    return operators, named


def reach_zoo() -> None:
    """Make the model zoo importable if there is one: functions of its studies are read from a pipe."""
    with contextlib.suppress(FileNotFoundError):
        find_zoo()


#: Seconds in which a terminated process can end its own processes before it is killed.
PATIENCE: Final = 3.0
#: Seconds between two checks of whether to halt.
GLANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """A call of a module's function in its own process, killed after ``seconds``, with ``memory`` bytes at most."""

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


class _Run:
    """A job that runs, and its process."""

    def __init__(self, job: Job) -> None:
        self.job, seeded = job, {"PYTHONHASHSEED": str(job.seed)}
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  (closed in end)
        self.child = Child("workbench.studies.experiments.process", variables=seeded, errors=self.said)
        with contextlib.suppress(BrokenPipeError):
            self.child.send(registered())
            self.child.send((job.function, job.argument, job.memory))
        self.began = time.perf_counter()

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
    """Run jobs, ``at_once`` at a time, and yield each at its end; all end with the iteration, or after ``halt``."""
    waiting, running = deque(jobs), list[_Run]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_Run(waiting.popleft()))
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
    requests, answers = served()
    reach_zoo()
    operators, named = receive(requests)
    for shipment in operators:
        install(shipment)
    unpack(named)
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
