"""Write result files atomically, and check early whether they can be written."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal


class UnwritableOutput(OSError):
    """Raised when a result cannot be written to the requested place; the message suggests a remedy."""


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if a file can be written there; raise :class:`UnwritableOutput` otherwise.

    It is called before long work. An existing file is not changed. A link stands for the file that it names.
    """
    target = Path(path)
    if is_device(target):
        if not os.access(target, os.W_OK):
            raise UnwritableOutput(f"{target} must be writable, but it is write-protected (try a file)")
        return target
    if target.is_symlink():
        target = Path(os.path.realpath(target))
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
    """Yield a file that takes the name ``path`` at the end of the block; after an error it is deleted.

    If ``path`` is a link, the file that it names is replaced and the link stays. A device, such as
    ``/dev/null``, or a named pipe is written directly: a file with its name would end its service.
    """
    target = Path(path)
    if is_device(target):
        with target.open("wb") as device:
            yield device
        return
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    # The name has a limit on its length, often 255 bytes, that the temporary name must keep as well.
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:32]}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.umask(mask := os.umask(0o077))  # it can be read only by setting it
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def data_folder(name: str, what: str) -> Path:
    """Return a folder of data files by its name: inside an installed package, or in the repository.

    Raise FileNotFoundError, whose subject and verb are ``what``, if it is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for place in (package / f"_{name}", package.parent / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"{what} missing from this installation")


def cache_folder() -> Path:
    """Return the folder of measured costs and compiled rules: WORKBENCH_CACHE, or the user's cache."""
    if given := os.environ.get("WORKBENCH_CACHE"):
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("tamago-workbench")


def check_library(path: str | os.PathLike[str]) -> None:
    """Raise OSError if a file is not a library of this system, or was cut off: loading it would end the process."""
    with Path(path).open("rb") as file:
        head = file.read(64)
        size = os.fstat(file.fileno()).st_size
    if not sys.platform.startswith("linux"):
        return
    if head[:5] != b"\x7fELF\x02":
        raise OSError(f"{path} must be a library (try writing it again)")
    order: Literal["little", "big"] = "little" if head[5:6] == b"\x01" else "big"
    table, entry, entries = (int.from_bytes(head[a:b], order) for a, b in ((40, 48), (58, 60), (60, 62)))
    whole = max(len(head), table + entry * entries) if len(head) == 64 else 64
    if size < whole:
        raise OSError(f"{path} must be a whole library of {whole} bytes, got {size} (try writing it again)")


def is_device(path: Path) -> bool:
    """Return whether a path is a device or a named pipe: it can be written, but not be replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
