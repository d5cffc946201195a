"""Arrays mapped from a file: the operating system reads them when they are used."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

#: Seconds after which memory is given back once more.
_EVERY: Final = 0.002


class ChangedFile(ValueError):
    """Raised when a file has been changed in place after its arrays were mapped, so that they are lost."""


class FileMap(mmap.mmap):
    """A file mapped into memory, read page by page on use; writes to the memory never reach the file."""

    path: Path
    #: Device, inode, size and time of the last change when the file was mapped.
    stamp: tuple[int, int, int, int]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FileMap:
        """Return the map of a whole file; all readers of a file share one map.

        Raise OSError if the file cannot be read and ValueError if it is empty.
        """
        place = Path(path).resolve()
        with place.open("rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))
            found = _OPEN.get((place, stamp))
            if found is None:
                found = cls(file.fileno(), 0, access=mmap.ACCESS_COPY)
                found.path, found.stamp = place, stamp
                _OPEN[place, stamp] = found
        return found

    def _now(self) -> tuple[int, ...]:
        """Return the stamp of the file to which the path leads now; nothing if it leads to none."""
        with contextlib.suppress(OSError):
            return _stamp(self.path.stat())
        return ()

    def check(self) -> None:
        """Raise :class:`ChangedFile` if the file was changed in place; it may be replaced or deleted."""
        now = self._now()  # nothing if the file was deleted: the mapping keeps its contents
        if now[:2] == self.stamp[:2] and now != self.stamp:
            raise ChangedFile(
                f"{self.path} must stay unchanged while its weights are in use, but was changed "
                "(try to load the model again)"
            )

    def there(self) -> bool:
        """Return whether the path still leads to the file; it may have been replaced or deleted."""
        return self._now()[:2] == self.stamp[:2]

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a part of the file as a read-only array; ``offset`` (in bytes) need not be aligned.

        Raise ValueError if the part does not lie inside the file.
        """
        count = int(np.prod(shape, dtype=np.int64))
        if offset < 0 or offset + count * dtype.itemsize > len(self):
            span = f"{offset} to {offset + count * dtype.itemsize}"
            raise ValueError(f"bytes {span} must lie inside the file, got a file of {len(self)} bytes")
        found: np.ndarray = np.ndarray(shape, dtype, self, offset)
        found.flags.writeable = False
        return found


_OPEN: WeakValueDictionary[tuple[Path, tuple[int, int, int, int]], FileMap] = WeakValueDictionary()


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def file_of(array: np.ndarray) -> FileMap | None:
    """Return the mapped file that holds an array's elements, or ``None`` if they are in memory.

    A view of a mapped array (a slice, a transpose) is mapped too.
    """
    base: object = array
    while True:
        if isinstance(base, FileMap):
            return base
        if isinstance(base, memoryview):
            base = base.obj
        elif isinstance(base, np.ndarray):
            base = base.base
        else:
            return None


def offset_of(array: np.ndarray) -> int | None:
    """Return an array's offset in bytes in its mapped file, or ``None`` if it is not a contiguous part."""
    file = file_of(array)
    if file is None or not array.flags.c_contiguous or sys.byteorder != "little":
        return None
    return int(array.ctypes.data) - np.frombuffer(file, np.uint8).ctypes.data


def place_of(array: np.ndarray) -> tuple[FileMap, int] | None:
    """Return an array's mapped file and its offset there, or ``None`` unless it is a part of a file that is there."""
    file, offset = file_of(array), offset_of(array)
    return (file, offset) if file is not None and offset is not None and file.there() else None


def release(array: np.ndarray) -> None:
    """Release the memory of a mapped array that is not needed soon; it is read again on the next use."""
    file, offset = file_of(array), offset_of(array)
    if file is None or offset is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (offset + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > begin:
        file.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def release_all() -> None:
    """Release the memory of all mapped files; it is read again on the next use."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for file in list(_OPEN.values()):
            file.madvise(mmap.MADV_DONTNEED)


def give_back() -> None:
    """Return freed memory to the operating system, as far as the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


@contextlib.contextmanager
def kept_small() -> Iterator[None]:
    """Release the memory of mapped files repeatedly while a block runs that reads them once."""
    done = threading.Event()

    def release_often() -> None:
        while not done.wait(_EVERY):
            release_all()

    thread = threading.Thread(target=release_often, name="kept_small", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        release_all()


def checked(array: np.ndarray) -> np.ndarray:
    """Return the array if its elements are available; raise :class:`ChangedFile` if its file has changed."""
    file = file_of(array)
    if file is not None:
        file.check()
    return array
