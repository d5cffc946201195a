"""Engine processes: started early, kept for the next run, never more than a few, gone with their owner.

To start one takes 0.2 s and to load the rules as much again, so that one that has done its work is kept: it
drops the terms of its run and keeps the rules (:meth:`workbench.saturation.base.Base.rest`). It ends when
its owner does, when it has grown, when anything went wrong, and when there are more than are kept.
``WORKBENCH_KEPT_ENGINES`` says how many are kept: 1 unless given, 0 for none.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import subprocess
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from workbench.frames import command, environment, receive, send

if TYPE_CHECKING:
    from workbench.saturation.compile import CompiledRule
    from workbench.saturation.engine import Program

#: Seconds that a kept process may take to be ready again, before another one is started.
PATIENCE: Final = 10.0
#: Sets of rules that a process holds at most.
SETS: Final = 4


class EngineProcess:
    """A process of :mod:`workbench.saturation.worker` and the pipes to it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._popen = subprocess.Popen(
            command("workbench.saturation.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        self._owed = 1  # answers that nobody has read: that it is ready
        self._sent: list[tuple[CompiledRule, ...]] = []  # rules that the process has

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
        return self._popen.poll() is None

    def begin(self, program: Program, memory: int) -> None:
        """Ask for a program to be loaded, within so many bytes; rules that are there are not sent again."""
        place = next((i for i, rules in enumerate(self._sent) if rules is program.rules), None)
        if place is None and len(self._sent) < SETS:
            place = len(self._sent)
            self._sent.append(program.rules)
            self.request("rules", program.rules)
        bare = program if place is None else replace(program, rules=())
        self.request("begin", (bare, place, memory))

    def request(self, name: str, argument: Any) -> None:
        """Ask for something; raise BrokenPipeError where the process has gone."""
        assert self._popen.stdin is not None
        send(self._popen.stdin, (name, argument))

    def rest(self) -> None:
        """Have the process drop what its last run put in, without waiting for it."""
        self.request("rest", None)
        self._owed += 1

    def answered(self, seconds: float | None) -> bool:
        """Wait for an answer and say whether there is one; ``None`` waits for ever."""
        if seconds is None:
            return True
        assert self._popen.stdout is not None
        ready, _, _ = select.select([self._popen.stdout], [], [], max(0.0, seconds))
        return bool(ready)

    def receive(self) -> Any:
        """Read an answer; raise EOFError where the process has gone."""
        assert self._popen.stdout is not None
        return receive(self._popen.stdout)

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        return self._popen.wait()

    @property
    def number(self) -> int:
        """Return the process's number."""
        return self._popen.pid

    def kill(self) -> None:
        """End the process at once; in a fork of its owner only close the pipes."""
        mine = os.getpid() == self._owner
        if mine:
            with contextlib.suppress(OSError):
                self._popen.kill()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if mine:
            self._popen.wait()


_lock = threading.Lock()
_idle: list[EngineProcess] = []


def kept() -> int:
    """Return how many idle processes are kept at most."""
    given = os.environ.get("WORKBENCH_KEPT_ENGINES", "")
    return int(given) if given.isdigit() else 1


def warm() -> None:
    """Start a process unless one is idle, so that it is ready when it is needed; wait for nothing."""
    with _lock:
        if not _idle and kept():
            _idle.append(EngineProcess())


def take() -> EngineProcess:
    """Return a process that is ready for requests, an idle one if there is one; it is the caller's alone."""
    while True:
        with _lock:
            process = _idle.pop() if _idle else None
        if process is None:
            break
        try:
            if process.settle(PATIENCE):
                return process
        except BaseException:
            process.kill()
            raise
        process.kill()
    process = EngineProcess()
    try:
        if process.settle():
            return process
        raise EOFError("the engine's process ended before it was ready")
    except BaseException:
        process.kill()
        raise


def keep(process: EngineProcess) -> None:
    """Take back a process that has answered all requests, for the next run; end it where one is kept."""
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
    """In a fork: its parent's processes are not its own."""
    global _lock
    _lock = threading.Lock()
    for process in _idle:
        process.kill()
    _idle.clear()


atexit.register(end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
