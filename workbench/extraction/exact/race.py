"""Run several solvers at once, each in its own process; they share selections and bounds.

The incumbent of one solver and the bound of another together prove an optimum. If a process dies or runs
out of memory or time, everything that it has reported is kept.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.extraction.exact.types import Best, Job, Solved
from workbench.extraction.result import Ending, Limit
from workbench.support.messages import require
from workbench.support.processes import SOLVER_MEMORY, Child, frame

#: Callback with seconds, cost and bound; returns whether to go on.
Patience = Callable[[float, float, float], bool]


@dataclass(slots=True, eq=False)
class Runner:
    """A solver in a process of its own; ``ending`` is the reason for which it ended early, if it did."""

    name: str
    child: Child
    done: bool = False
    ending: Ending | None = None
    unsent: bytes = b""
    newest: bytes = b""

    @classmethod
    def start(cls, name: str, memory: int) -> Runner:
        """Start a solver's process."""
        return cls(name, Child("workbench.extraction.exact.worker", name, str(memory)))

    def begin(self, job: Job) -> None:
        """Hand over the job; if the process has died, the next read notices it."""
        with contextlib.suppress(BrokenPipeError):
            self.child.send(job)
        os.set_blocking(self.child.inlet.fileno(), False)

    def post(self, message: object) -> None:
        """Queue a frame to be sent when the process reads; it replaces an older frame that still waits."""
        self.newest = frame(message)

    @property
    def waiting(self) -> bool:
        """Return whether a frame waits to be sent."""
        return bool(self.unsent or self.newest) and not self.done

    def push(self) -> None:
        """Write as much as the pipe takes without blocking, as a solver might not read for a long time."""
        if not self.unsent:
            self.unsent, self.newest = self.newest, b""
        try:
            self.unsent = self.unsent[os.write(self.child.inlet.fileno(), self.unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = self.newest = b""

    def read(self) -> tuple[Any, ...] | None:
        """Return the next frame, or None when the process has ended."""
        try:
            return self.child.receive()
        except EOFError:
            code = self.child.wait()
            self.done = True
            self.ending = (
                Ending(Limit.FAILED, self.name, f"its process ended with code {code}")
                if code >= 0
                else Ending(Limit.KILLED, self.name)
            )
            return None


@dataclass(slots=True, eq=False)
class Race:
    """Several solvers on one job, until one proves an optimum, all end, or the time is up."""

    job: Job
    names: Sequence[str]
    memory: int = SOLVER_MEMORY
    proved: bool = False
    best: Best = field(init=False)
    endings: list[Ending] = field(default_factory=list)
    runners: list[Runner] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any(name.startswith("cp-sat") for name in self.names):
            require("ortools", "solvers")
        self.best = Best.of(self.job)

    def run(self, patience: Patience | None = None) -> Iterator[None]:
        """Run to the end; yield at every improvement of cost or bound.

        ``patience`` is called regularly with seconds, cost and bound and returns whether to go on. However
        the iteration ends, all processes end with it.
        """
        began = time.perf_counter()
        until, best = began + self.job.seconds, self.best
        try:
            for name in self.names:
                self.runners.append(Runner.start(name, self.memory))
            for runner in self.runners:
                runner.begin(self.job)
            known = best.cost, best.bound
            while not self.proved and not all(r.done for r in self.runners):
                left = until - time.perf_counter()
                if left <= 0:
                    self.endings.append(Ending(Limit.TIME))
                    break
                self._listen(min(left, 0.2))
                if (best.cost, best.bound) != known:
                    known = best.cost, best.bound
                    yield
                if patience and not patience(time.perf_counter() - began, best.cost, best.bound):
                    self.endings.append(Ending(Limit.PATIENCE))
                    break
        finally:
            for runner in self.runners:
                runner.child.kill()
        self.endings += [r.ending for r in self.runners if r.ending is not None]
        if not self.proved and not self.endings:
            self.endings.append(Ending(Limit.TIME))  # the solvers observe it themselves

    @property
    def solved(self) -> Solved:
        """Return the best selection and bound found so far."""
        return Solved(self.best.picked, self.best.bound, self.proved, tuple(self.endings))

    def _listen(self, seconds: float) -> None:
        incoming = {r.child.outlet: r for r in self.runners if not r.done}
        outgoing = {r.child.inlet: r for r in self.runners if r.waiting}
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
            runner.ending = (
                Ending(Limit.MEMORY, runner.name)
                if kind == "memory"
                else Ending(Limit.FAILED, runner.name, str(message[1]))
            )
            return
        picked, bound = message[1], message[2]
        # Cost and acyclicity are checked here, as a solver may err.
        if picked is not None and self.best.offer(picked):
            for other in self.runners:
                if other is not runner and not other.done:
                    other.post(picked)
        self.best.raise_bound(min(bound, self.best.cost))
        if kind == "done":
            runner.done = True
            self.proved |= message[3]
        else:
            self.best.formulas = max(self.best.formulas, message[3])
        self.proved |= self.best.met
