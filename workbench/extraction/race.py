"""Solvers side by side, each in a process of its own; they share what they find.

The incumbent of one and the bound of another together prove an optimum. A process that dies, runs out
of memory or of time takes nothing along: what it told stays.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from workbench.extraction.loops import unfounded
from workbench.extraction.solving import Job, Solved, met, selection_cost
from workbench.frames import command, environment, frame, receive, send

#: Bytes that each solver's process may use.
MEMORY: Final = 6 << 30

#: Asked with seconds, cost and bound whether to go on.
Patience = Callable[[float, float, float], bool]


@dataclass(slots=True, eq=False)
class Runner:
    """Own one solver's process."""

    name: str
    process: subprocess.Popen[bytes]
    done: bool = False
    note: str = ""
    unsent: bytes = b""
    newest: bytes = b""

    @classmethod
    def start(cls, name: str, memory: int) -> Runner:
        """Start a solver's process."""
        process = subprocess.Popen(
            command("workbench.extraction.worker", name, str(memory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        return cls(name, process)

    @property
    def inlet(self) -> IO[bytes]:
        """Return the pipe that the process reads."""
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def outlet(self) -> IO[bytes]:
        """Return the pipe that the process writes."""
        assert self.process.stdout is not None
        return self.process.stdout

    def begin(self, job: Job) -> None:
        """Hand the job over; a process that is gone is noticed when it is read from."""
        with contextlib.suppress(BrokenPipeError):
            send(self.inlet, job)
        os.set_blocking(self.inlet.fileno(), False)

    def post(self, message: Any) -> None:
        """Have a frame sent as soon as the process takes it; a newer one replaces one that waits."""
        self.newest = frame(message)

    @property
    def waiting(self) -> bool:
        """Say whether something is to be sent."""
        return bool(self.unsent or self.newest) and not self.done

    def push(self) -> None:
        """Write what the pipe takes without blocking: a solver may not read for a long time."""
        if not self.unsent:
            self.unsent, self.newest = self.newest, b""
        try:
            self.unsent = self.unsent[os.write(self.inlet.fileno(), self.unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = self.newest = b""

    def read(self) -> Any:
        """Return the next frame; None at the end of the process."""
        try:
            return receive(self.outlet)
        except EOFError:
            code = self.process.wait()
            self.done = True
            self.note = f"{self.name} ended with code {code}" if code >= 0 else f"{self.name} was killed"
            return None

    def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(OSError):
            self.process.kill()
        for stream in (self.inlet, self.outlet):
            with contextlib.suppress(OSError):
                stream.close()
        self.process.wait()


@dataclass(slots=True, eq=False)
class Race:
    """Run solvers on one job until one proves an optimum, all end, or the time is up."""

    job: Job
    names: Sequence[str]
    memory: int = MEMORY
    best: dict[int, int] | None = None
    cost: float = float("inf")
    bound: float = 0.0
    proved: bool = False
    cuts: int = 0
    notes: list[str] = field(default_factory=list)
    runners: list[Runner] = field(default_factory=list)

    def run(self, patience: Patience | None = None) -> Iterator[None]:
        """Run to the end, and stop at every improvement of cost or bound.

        ``patience`` is asked now and then with seconds, cost and bound whether to go on. However the
        iteration ends, the processes end with it.
        """
        began = time.perf_counter()
        until = began + self.job.seconds
        if self.job.start is not None:
            self.best, self.cost = self.job.start, selection_cost(self.job.problem, self.job.start)
        try:
            for name in self.names:
                self.runners.append(Runner.start(name, self.memory))
            for runner in self.runners:
                runner.begin(self.job)
            known = self.cost, self.bound
            while not self.proved and not all(r.done for r in self.runners):
                left = until - time.perf_counter()
                if left <= 0:
                    self.notes.append("time limit")
                    break
                self._listen(min(left, 0.2))
                if (self.cost, self.bound) != known:
                    known = self.cost, self.bound
                    yield
                if patience and not patience(time.perf_counter() - began, self.cost, self.bound):
                    self.notes.append("no progress worth waiting for")
                    break
        finally:
            for runner in self.runners:
                runner.kill()
        self.notes += [r.note for r in self.runners if r.note]
        if not self.proved and not self.notes:
            self.notes.append("time limit")  # the solvers keep it themselves

    @property
    def solved(self) -> Solved:
        """Return what has been found."""
        return Solved(self.best, self.bound, self.proved, tuple(self.notes))

    def _listen(self, seconds: float) -> None:
        incoming = {r.outlet: r for r in self.runners if not r.done}
        outgoing = {r.inlet: r for r in self.runners if r.waiting}
        readable, writable, _ = select.select(list(incoming), list(outgoing), [], seconds)
        for pipe in writable:
            outgoing[pipe].push()
        for pipe in readable:
            self._take(incoming[pipe])

    def _take(self, runner: Runner) -> None:
        message = runner.read()
        if message is None:
            return
        kind = message[0]
        if kind in ("memory", "error"):
            runner.done = True
            reason = "ran out of memory" if kind == "memory" else f"failed: {message[1]}"
            runner.note = f"{runner.name} {reason}"
            return
        picked, bound = message[1], message[2]
        if picked is not None:
            self._offer(runner, picked)
        self.bound = max(self.bound, min(bound, self.cost))
        if kind == "done":
            runner.done = True
            self.proved |= message[3]
        else:
            self.cuts = max(self.cuts, message[3])
        self.proved |= met(self.cost, self.bound)

    def _offer(self, runner: Runner, picked: dict[int, int]) -> None:
        """Keep a selection that is better, after checking it: a solver's word is not enough."""
        cost = selection_cost(self.job.problem, picked)
        if cost >= self.cost or unfounded(self.job.problem, picked):
            return
        self.best, self.cost = picked, cost
        for other in self.runners:
            if other is not runner and not other.done:
                other.post(picked)
