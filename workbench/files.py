"""Write results so that a file appears whole or not at all, and find out early whether it can."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


class UnwritableOutput(OSError):
    """Say that a result cannot be written where it was asked for, and what to do."""


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` when a file can be written there; raise :class:`UnwritableOutput` otherwise.

    Called before long work. A file that is there already is left as it is.
    """
    target = Path(path)
    if target.is_dir():
        raise UnwritableOutput(f"{target} is a folder; name the file to write in it")
    if not target.parent.is_dir():
        raise UnwritableOutput(f"the folder {target.parent} does not exist; create it first")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise UnwritableOutput(f"nothing can be written in {target.parent}: {error.strerror}") from None
    if target.exists() and not os.access(target, os.W_OK):
        raise UnwritableOutput(f"{target} is write-protected; name another file")
    return target


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) under a temporary name and rename it; raise OSError on failure."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes its name at the end of the block; after an error there is none."""
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
    """Return where measured costs and compiled rules are kept: WORKBENCH_CACHE, or the user's cache."""
    given = os.environ.get("WORKBENCH_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("tamago-workbench")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
