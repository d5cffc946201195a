"""Engines in processes of their own, which can be killed and repeat their work, and are kept for later runs.

The engine cannot be interrupted, aborts when memory runs out, and may take minutes for one iteration. Here
each of these costs a replay of earlier iterations, but never the process of the user.

Starting a process takes 0.2 s, and loading the rules as long again. A process that has done its work is
therefore kept: it drops the terms of its run and keeps the rules
(:meth:`workbench.saturation.egglog_session.Base.rest`). It ends when its owner ends, when it has grown too large, after
any failure, and when enough others are kept. ``WORKBENCH_KEPT_ENGINES`` is the number of processes to keep: 1
by default, 0 for none.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from workbench.saturation.egglog_session import EngineError
from workbench.support.deadline import OutOfTime
from workbench.support.processes import Child, out_of_memory

if TYPE_CHECKING:
    from workbench.egraph.egraph import EGraph
    from workbench.saturation.compile import CompiledRule
    from workbench.saturation.engine import Outcome, Plan, Program

#: Seconds that a kept process may take to become ready; after that another one is started.
PATIENCE: Final = 10.0
#: Largest number of rule sets that a process holds.
SETS: Final = 4


class EngineProcess(Child):
    """A process of :mod:`workbench.saturation.worker`."""

    def __init__(self) -> None:
        super().__init__("workbench.saturation.worker")
        self._owed = 1  # number of unread answers; the first one is that the process is ready
        self._sent: list[tuple[CompiledRule, ...]] = []  # rule sets that the process has

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until the process is ready for a request; return whether it is."""
        try:
            while self._owed:
                if not self.answered(seconds):
                    return False
                kind, _ = self.receive()
                self._owed -= 1
                if kind not in ("ready", "ok"):
                    return False
        except EOFError:
            return False
        return self.running

    def begin(self, program: Program, memory: int) -> None:
        """Request to load a program with a memory limit in bytes; rules already sent are not sent again."""
        place = next((i for i, rules in enumerate(self._sent) if rules is program.rules), None)
        if place is None and len(self._sent) < SETS:
            place = len(self._sent)
            self._sent.append(program.rules)
            self.send(("rules", program.rules))
        if program.operators:  # the process cannot read a graph whose operators it does not know
            self.send(("operators", program.operators))
        bare = program if place is None else replace(program, rules=())
        self.send(("begin", (bare, place, memory)))

    def rest(self) -> None:
        """Ask the process to drop the terms of its last run, without waiting for it."""
        self.send(("rest", None))
        self._owed += 1


_lock = threading.Lock()
_idle: list[EngineProcess] = []


def kept() -> int:
    """Return the largest number of idle processes to keep."""
    given = os.environ.get("WORKBENCH_KEPT_ENGINES", "")
    return int(given) if given.isdigit() else 1


def warm() -> None:
    """Start a process unless one is idle, without waiting, so that it is ready when it is needed."""
    with _lock:
        if not _idle and kept():
            _idle.append(EngineProcess())


def take() -> EngineProcess:
    """Return a process that is ready for requests, preferably an idle one; no one else uses it."""
    while True:
        with _lock:
            idle = _idle.pop() if _idle else None
        process = EngineProcess() if idle is None else idle
        try:
            if process.settle(None if idle is None else PATIENCE):
                return process
        except BaseException:
            process.kill()
            raise
        process.kill()
        if idle is None:
            raise EngineError("the engine's process ended before it was ready")


def keep(process: EngineProcess) -> None:
    """Take back a process that has answered all requests, for the next run; end it if enough are kept."""
    try:
        process.rest()
    except OSError:
        process.kill()
        return
    with _lock:
        if len(_idle) < kept():
            _idle.append(process)
            return
    process.kill()


def end_idle() -> None:
    """End the idle processes."""
    with _lock:
        ended = list(_idle)
        _idle.clear()
    for process in ended:
        process.kill()


def _forget() -> None:
    """Forget the idle processes in a fork, as they belong to the parent."""
    global _lock
    _lock = threading.Lock()
    end_idle()


atexit.register(end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# -- an engine -----------------------------------------------------------------------------------------
class OutOfMemory(MemoryError):
    """Raised when the engine was stopped because it needed more memory than allowed."""


class RemoteEngine:
    """An engine in its own process, which is restarted and repeats its history whenever it was lost."""

    def __init__(self, program: Program, memory: int) -> None:
        # The engine needs only the graph's structure, not hundreds of megabytes of weights.
        self.program = replace(program, graph=program.graph.skeleton())
        self.memory = memory
        self.history: list[Plan] = []
        self.start_seconds = 0.0
        self.e_nodes = self.e_classes = 0
        #: The time, in seconds since the epoch, after which nothing is waited for.
        self.until = math.inf
        #: Work for other threads, begun once when a request was sent and this process waits for the answer.
        self.background: list[Callable[[], object]] = []
        self._process: EngineProcess | None = None
        self._busy = False
        #: Held for a whole request: a second thread would take the answer of the first one for its own.
        self.turn = threading.RLock()

    # -- the process ------------------------------------------------------------------------------
    def start(self) -> None:
        """Take a process and load the program, unless that is done already."""
        with self.turn:
            if self._process is not None:
                return
            began = time.perf_counter()
            self._process = take()
            try:
                self._begin()
                for plan in self.history:
                    outcome = self._call("iterate", plan, None)
                    self.e_nodes, self.e_classes = outcome.e_nodes, outcome.e_classes
            except BaseException:
                self.kill()
                raise
            self.start_seconds += time.perf_counter() - began

    def load(self, program: Program) -> None:
        """Switch to another program; a running process is reused."""
        self.program = replace(program, graph=program.graph.skeleton())
        self.history = []
        if self._process is not None:
            began = time.perf_counter()
            self._begin()
            self.start_seconds += time.perf_counter() - began

    def _begin(self) -> None:
        self.e_nodes, self.e_classes = self._call("begin", None, None)

    def release(self) -> None:
        """Let another run use the process; this engine takes a process again when it needs one."""
        if self._busy:  # another thread waits for an answer, which must not come from another run's process
            self.kill()
            return
        process, self._process = self._process, None
        if process is not None:
            keep(process)

    def kill(self) -> None:
        """End the process immediately."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()

    def _call(self, name: str, argument: Any, seconds: float | None) -> Any:
        process = self._process
        assert process is not None
        self._busy = True
        try:
            if name == "begin":
                process.begin(self.program, self.memory)
            else:
                process.send((name, argument))
            while self.background:
                self.background.pop(0)()
            if self.until < math.inf:
                left = self.until - time.time()
                seconds = left if seconds is None else min(seconds, left)
            if not process.answered(seconds):
                raise OutOfTime("the engine did not finish its iteration in time")
            kind, value = process.receive()
        except (BrokenPipeError, EOFError):
            self._lost()
        except BaseException:
            # Interrupted by Ctrl-C or the time limit: the engine cannot be stopped, only killed.
            self.kill()
            raise
        finally:
            self._busy = False
        if kind != "ok":
            self.kill()
            raise OutOfMemory(value) if kind == "memory" else value
        return value

    def _lost(self) -> NoReturn:
        code = self._process.wait() if self._process is not None else None
        self.kill()
        if out_of_memory(code):
            raise OutOfMemory(f"the engine needed more than the {self.memory / 2**30:.1f} GiB it may use")
        raise EngineError(f"the engine's process ended unexpectedly (exit code {code})")

    # -- requests ---------------------------------------------------------------------------------
    def iterate(self, plan: Plan, seconds: float | None = None) -> Outcome:
        """Run one iteration; raise :class:`OutOfTime` or :class:`OutOfMemory` and keep the last state."""
        with self.turn:
            self.start()
            outcome: Outcome = self._call("iterate", plan, seconds)
            self.history.append(plan)
            self.start_seconds += outcome.loading
            self.e_nodes, self.e_classes = outcome.e_nodes, outcome.e_classes
            return outcome

    def snapshot(self) -> EGraph:
        """Return the e-graph as columns."""
        from workbench.egraph.egraph import EGraph

        with self.turn:
            self.start()
            return EGraph(**self._call("snapshot", None, None))

    def classes(self) -> list[int]:
        """Return the number of the e-class of every node of the graph."""
        with self.turn:
            self.start()
            return self._call("classes", None, None)
