"""Child processes: frames on their pipes (a length and a pickle), their memory limit, their command line."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

#: Bytes that the process of a solver may use.
SOLVER_MEMORY: Final = 6 << 30


def send(stream: IO[bytes], message: object) -> None:
    """Write a message as a frame: its length in bytes and its pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame; raise EOFError at the end of the stream."""
    (size,) = struct.unpack("<Q", _exactly(stream, 8))
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    """Read exactly ``size`` bytes; an unbuffered pipe may return fewer at a time."""
    found = bytearray()
    while len(found) < size:
        found += (chunk := stream.read(min(size - len(found), 1 << 20)))
        if not chunk:
            raise EOFError
    return found


def limit_memory(limit: int | None) -> None:
    """Limit this process to ``limit`` bytes: larger allocations fail instead of exhausting the machine."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard if limit is None else limit, hard))


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the package as a process.

    The working folder is not on the process's path, as it may contain, say, a ``random.py`` of the user.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return the environment in which a child process finds the package."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}


def out_of_memory(code: int | None) -> bool:
    """Return whether an exit code is that of a process that got no memory.

    Rust and C++ abort (signal 6) if an allocation fails; the kernel's killer sends signal 9.
    """
    return code in (-6, 134, -9, 137)


def served() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes of a child, in and out, from inside it.

    The child then ignores Ctrl-C, which its parent handles, and all its other output goes to the
    standard error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb", buffering=0), answers


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

        The standard error goes to ``errors`` if that is given. Raise NotImplementedError on Windows, whose pipes
        cannot be waited for.
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
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        #: The pipes that the process reads and writes.
        self.inlet, self.outlet = self._popen.stdin, self._popen.stdout

    def fileno(self) -> int:
        """Return the descriptor of the pipe that the process writes."""
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
