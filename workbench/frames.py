"""Processes of our own: frames on the pipe to them (a length and a pickle), and their memory's limit."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import sys
from pathlib import Path
from typing import IO, Any

import workbench


def frame(message: Any) -> bytes:
    """Return a message as a frame."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return struct.pack("<Q", len(data)) + data


def send(stream: IO[bytes], message: Any) -> None:
    """Write one frame."""
    stream.write(frame(message))
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame; raise EOFError at the end of the stream."""
    (size,) = struct.unpack("<Q", _exactly(stream, 8))
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """Read so many bytes: a pipe without a buffer hands over what it has."""
    chunks = []
    while size:
        chunk = stream.read(size)
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def limit_memory(limit: int | None) -> None:
    """Let allocations of this process beyond ``limit`` bytes fail instead of taking the machine along."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard if limit is None else limit, hard))


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules as a process.

    The working folder stays off its path: a file there that is called ``random.py`` is the user's.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return the environment in which a process of ours finds the package."""
    root = Path(workbench.__file__).resolve().parent.parent
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}
