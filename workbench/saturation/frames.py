"""Frames on the private pipe between the engine's process and its parent: a length and a pickle."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any


def send(stream: IO[bytes], message: Any) -> None:
    """Write one frame."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame; raise EOFError at the end of the stream."""
    header = stream.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
