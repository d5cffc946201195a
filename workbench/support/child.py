"""Child processes, from the side of the parent."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Mapping
from typing import IO, Any, Final

from workbench.support.processes import command, environment, receive, send

#: Most seconds of one wait, a year: ``select`` does not take every number.
_LONGEST: Final = 31_536_000.0


class Child:
    """A Python process that runs one module of the package, and the pipes to it.

    The process has a session of its own, so that a Ctrl-C reaches the parent alone. Messages are frames.
    ``select`` takes a child: it is ready when the process has written something or has ended.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        errors: IO[bytes] | None = None,
    ) -> None:
        """Start ``module`` with ``arguments``; ``variables`` are added to the environment.

        The standard error goes to ``errors`` if that is given.

        Raises:
            NotImplementedError: The system is Windows, whose pipes cannot be waited for.
        """
        if os.name == "nt":
            raise NotImplementedError("the operating system must be Linux or macOS, got Windows (try WSL)")
        self._owner = os.getpid()
        self._popen = subprocess.Popen(
            command(module, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment() | dict(variables or {}),
            start_new_session=True,
        )

    @property
    def inlet(self) -> IO[bytes]:
        """Return the pipe that the process reads."""
        assert self._popen.stdin is not None
        return self._popen.stdin

    @property
    def outlet(self) -> IO[bytes]:
        """Return the pipe that the process writes."""
        assert self._popen.stdout is not None
        return self._popen.stdout

    def fileno(self) -> int:
        """Return the descriptor of :attr:`outlet`."""
        return self.outlet.fileno()

    @property
    def number(self) -> int:
        """Return the number of the process."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Return whether the process has not ended."""
        return self._popen.poll() is None

    def send(self, message: object) -> None:
        """Send a message; raise BrokenPipeError if the process has ended."""
        send(self.inlet, message)

    def answered(self, seconds: float | None) -> bool:
        """Wait at most ``seconds``, or without a limit, and return whether there is something to read."""
        if seconds is None:
            return True  # reading waits by itself
        return bool(select.select([self.outlet], [], [], min(max(0.0, seconds), _LONGEST))[0])

    def receive(self) -> Any:
        """Wait for a message and return it; raise EOFError if the process has ended."""
        return receive(self.outlet)

    def wait(self, seconds: float | None = None) -> int:
        """Return the exit code, waiting at most ``seconds`` for the end; raise TimeoutExpired after them."""
        return self._popen.wait(seconds)

    def terminate(self, patience: float) -> None:
        """Ask the process to end, wait ``patience`` seconds for it, then end it at once."""
        if self.running:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(patience)
        self.kill()

    def kill(self) -> None:
        """End the process at once and close the pipes; in a fork of the owner only close the pipes."""
        mine = os.getpid() == self._owner
        if mine:
            with contextlib.suppress(OSError):
                self._popen.kill()
        for stream in (self.inlet, self.outlet):
            with contextlib.suppress(OSError):
                stream.close()
        if mine:
            self._popen.wait()
