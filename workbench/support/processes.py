"""Child processes: frames on their pipes (a length and a pickle), their memory limit, their command line."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any, Final

#: Bytes that the process of a solver may use.
SOLVER_MEMORY: Final = 6 << 30


def frame(message: object) -> bytes:
    """Return a message as a frame: its length in bytes and its pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return struct.pack("<Q", len(data)) + data


def send(stream: IO[bytes], message: object) -> None:
    """Write one frame."""
    stream.write(frame(message))
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame; raise EOFError at the end of the stream."""
    (size,) = struct.unpack("<Q", _exactly(stream, 8))
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """Read exactly ``size`` bytes; an unbuffered pipe may return fewer at a time."""
    chunks = []
    while size:
        chunk = stream.read(min(size, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


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
    root = Path(__file__).resolve().parents[2]
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
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
