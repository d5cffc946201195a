"""Drive the engine in a process of its own, so that it can be killed and repeated.

The engine cannot be interrupted, aborts when memory runs out, and one iteration may take minutes. Here
all of that costs a replay of the iterations done, never the process that uses the workbench.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from dataclasses import replace
from typing import Any

from workbench.extraction.egraph import EGraph
from workbench.frames import command, environment, receive, send
from workbench.saturation.engine import EngineError, Outcome, Plan, Program


class OutOfTime(TimeoutError):
    """Say that the engine was stopped because its time was up."""


class OutOfMemory(MemoryError):
    """Say that the engine was stopped because it needed more memory than allowed."""


class RemoteEngine:
    """Own an engine process; restart it and repeat its history whenever it was lost."""

    def __init__(self, program: Program, memory: int) -> None:
        # The engine needs the graph's structure, not hundreds of megabytes of weights.
        self.program = replace(program, graph=program.graph.skeleton())
        self.memory = memory
        self.history: list[Plan] = []
        self.start_seconds = 0.0
        self.rules_used = 0
        self.e_nodes = 0
        self.e_classes = 0
        self._process: subprocess.Popen[bytes] | None = None

    # -- the process ------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the process and load the program, unless it runs already."""
        if self._process is not None:
            return
        began = time.perf_counter()
        self._process = subprocess.Popen(
            command("workbench.saturation.worker", str(self.memory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        try:
            self._answer(None)
            self.e_nodes, self.e_classes, self.rules_used = self._call("begin", self.program, None)
            for plan in self.history:
                outcome = self._call("iterate", plan, None)
                self.e_nodes, self.e_classes = outcome.e_nodes, outcome.e_classes
        except BaseException:
            self.kill()
            raise
        self.start_seconds += time.perf_counter() - began

    def load(self, program: Program) -> None:
        """Take up another program; a process that runs already is used again."""
        self.program = replace(program, graph=program.graph.skeleton())
        self.history = []
        if self._process is not None:
            began = time.perf_counter()
            self.e_nodes, self.e_classes, self.rules_used = self._call("begin", self.program, None)
            self.start_seconds += time.perf_counter() - began

    def kill(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()

    def _call(self, name: str, argument: Any, seconds: float | None) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, (name, argument))
        except BrokenPipeError:
            return self._lost()
        return self._answer(seconds)

    def _answer(self, seconds: float | None) -> Any:
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        try:
            if seconds is not None:
                ready, _, _ = select.select([stream], [], [], max(0.0, seconds))
                if not ready:
                    raise OutOfTime("the engine did not finish its iteration in time")
            kind, value = receive(stream)
        except EOFError:
            return self._lost()
        except BaseException:
            # Interrupted half-way (Ctrl-C, time): the engine cannot be asked to stop, only ended.
            self.kill()
            raise
        if kind == "error":
            self.kill()
            raise value
        if kind == "memory":
            self.kill()
            raise OutOfMemory(value)
        return value

    def _lost(self) -> Any:
        process = self._process
        code = process.wait() if process is not None else None
        self.kill()
        # Rust aborts (signal 6) when an allocation fails; the kernel's killer sends signal 9.
        if code in (-6, 134, -9, 137):
            raise OutOfMemory(f"the engine needed more than the {self.memory / 2**30:.1f} GiB it may use")
        raise EngineError(f"the engine's process ended unexpectedly (exit code {code})")

    # -- what it does -----------------------------------------------------------------------------
    def iterate(self, plan: Plan, seconds: float | None = None) -> Outcome:
        """Run one iteration; raise :class:`OutOfTime` or :class:`OutOfMemory` with the state kept."""
        self.start()
        outcome: Outcome = self._call("iterate", plan, seconds)
        self.history.append(plan)
        self.e_nodes, self.e_classes = outcome.e_nodes, outcome.e_classes
        return outcome

    def snapshot(self) -> EGraph:
        """Return the e-graph as columns."""
        self.start()
        return EGraph(**self._call("snapshot", None, None))

    def classes(self) -> list[int]:
        """Return a number for the e-class of every node of the graph."""
        self.start()
        found: list[int] = self._call("classes", None, None)
        return found
