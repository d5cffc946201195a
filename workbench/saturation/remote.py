"""Drive the engine in a separate process, so that it can be killed and its work repeated.

The engine cannot be interrupted, aborts when memory runs out, and may take minutes for one iteration. Here
each of these costs a replay of earlier iterations, but never the process of the user.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.egraph.egraph import EGraph
from workbench.saturation.egglog_session import EngineError
from workbench.saturation.engine import Outcome, Plan, Program
from workbench.saturation.process import EngineProcess, keep, take
from workbench.support.deadline import OutOfTime
from workbench.support.processes import out_of_memory


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
        self.rules_used = 0
        self.e_nodes = 0
        self.e_classes = 0
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
            try:
                self._process = take()
            except EOFError as error:
                raise EngineError(str(error)) from None
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
        self.e_nodes, self.e_classes, self.rules_used = self._call("begin", None, None)

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
                process.request(name, argument)
            while self.background:
                self.background.pop(0)()
            if self.until < math.inf:
                left = self.until - time.time()
                seconds = left if seconds is None else min(seconds, left)
            if not process.answered(seconds):
                raise OutOfTime("the engine did not finish its iteration in time")
            kind, value = process.receive()
        except (BrokenPipeError, EOFError):
            return self._lost()
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

    def _lost(self) -> Any:
        process = self._process
        code = process.wait() if process is not None else None
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
        with self.turn:
            self.start()
            return EGraph(**self._call("snapshot", None, None))

    def classes(self) -> list[int]:
        """Return the number of the e-class of every node of the graph."""
        with self.turn:
            self.start()
            return self._call("classes", None, None)
