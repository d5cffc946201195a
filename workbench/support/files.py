"""Write result files atomically, and check early whether they can be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


class UnwritableOutput(OSError):
    """Raised when a result cannot be written to the requested place; the message suggests a remedy."""


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if a file can be written there; raise :class:`UnwritableOutput` otherwise.

    It is called before long work. An existing file is not changed.
    """
    target = Path(path)
    if target.is_dir():
        raise UnwritableOutput(f"the output must be a file, but {target} is a folder (try a file in it)")
    if not target.parent.is_dir():
        raise UnwritableOutput(f"the folder {target.parent} does not exist; create it first")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise UnwritableOutput(f"{target.parent} must be a writable folder, got: {error.strerror}") from None
    if target.exists() and not os.access(target, os.W_OK):
        raise UnwritableOutput(f"{target} must be writable, but it is write-protected (try another file)")
    return target


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) to a temporary file and rename it; raise OSError on failure."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file that takes the name ``path`` at the end of the block; after an error it is deleted."""
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cache_folder() -> Path:
    """Return the folder of measured costs and compiled rules: WORKBENCH_CACHE, or the user's cache."""
    given = os.environ.get("WORKBENCH_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("tamago-workbench")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
