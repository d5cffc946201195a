"""Arrays that stay in the file they came from: the operating system reads them when they are used."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np


class ChangedFile(ValueError):
    """Raised when a file was changed in place after its arrays were mapped, so that they are lost."""


class FileMap(mmap.mmap):
    """A file in memory, page by page as it is read; what is written to the memory never reaches the file."""

    path: Path
    #: Device, inode, size and time of the last change when the file was mapped.
    stamp: tuple[int, int, int, int]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FileMap:
        """Map a whole file, once for all that read it.

        Raise OSError where it cannot be read and ValueError where it is empty.
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

    def check(self) -> None:
        """Raise :class:`ChangedFile` where the file was changed in place; it may be replaced or deleted."""
        try:
            now = _stamp(self.path.stat())
        except OSError:
            return  # deleted: the mapping keeps what the file held
        if now[:2] == self.stamp[:2] and now != self.stamp:
            raise ChangedFile(
                f"{self.path} was written over after its weights were read: load the model again"
            )

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a part of the file as an array that cannot be written to; it need not be aligned.

        Raise ValueError where the part does not lie inside the file.
        """
        count = int(np.prod(shape, dtype=np.int64))
        if offset < 0 or offset + count * dtype.itemsize > len(self):
            raise ValueError(f"bytes {offset} to {offset + count * dtype.itemsize} of {len(self)}")
        found = np.frombuffer(self, np.uint8, count * dtype.itemsize, offset).view(dtype).reshape(shape)
        found.flags.writeable = False
        return found


_OPEN: WeakValueDictionary[tuple[Path, tuple[int, int, int, int]], FileMap] = WeakValueDictionary()


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def file_of(array: np.ndarray) -> FileMap | None:
    """Return the mapped file that holds an array's elements, ``None`` where they are in memory.

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
    """Return where in its mapped file an array begins; ``None`` where it is no contiguous part of one."""
    file = file_of(array)
    if file is None or not array.flags.c_contiguous or sys.byteorder != "little":
        return None
    begin = np.frombuffer(file, np.uint8).ctypes.data
    return int(array.ctypes.data) - begin


def release(array: np.ndarray) -> None:
    """Say that a mapped array is not needed soon: its memory is given back, and read again when it is."""
    file, offset = file_of(array), offset_of(array)
    if file is None or offset is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (offset + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > begin:
        file.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def release_all() -> None:
    """Give back the memory of all mapped files: it is read again when it is needed."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for file in list(_OPEN.values()):
            file.madvise(mmap.MADV_DONTNEED)


def checked(array: np.ndarray) -> np.ndarray:
    """Return an array whose elements are there; raise :class:`ChangedFile` where its file was changed."""
    file = file_of(array)
    if file is not None:
        file.check()
    return array
