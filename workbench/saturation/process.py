"""Engine processes: started early, kept for later runs, few in number, and ended with their owner.

Starting a process takes 0.2 s, and loading the rules as long again. A process that has done its work is
therefore kept: it drops the terms of its run and keeps the rules
(:meth:`workbench.saturation.egglog_session.Base.rest`). It ends when its owner ends, when it has grown too large, after
any failure, and when enough others are kept. ``WORKBENCH_KEPT_ENGINES`` is the number of processes to keep: 1
by default, 0 for none.
"""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from workbench.support.processes import Child

if TYPE_CHECKING:
    from workbench.saturation.compile import CompiledRule
    from workbench.saturation.engine import Program

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
            self.request("rules", program.rules)
        if program.operators:  # the process cannot read a graph whose operators it does not know
            self.request("operators", program.operators)
        bare = program if place is None else replace(program, rules=())
        self.request("begin", (bare, place, memory))

    def request(self, name: str, argument: object) -> None:
        """Send a request; raise BrokenPipeError if the process has ended."""
        self.send((name, argument))

    def rest(self) -> None:
        """Ask the process to drop the terms of its last run, without waiting for it."""
        self.request("rest", None)
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
            raise EOFError("the engine's process ended before it was ready")


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
