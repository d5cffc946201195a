"""Products on the AMX tile registers of this machine's processor, compiled by the system's compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from workbench.support.files import cache_folder

SOURCE: Final = Path(__file__).with_name("amx_int8.c")
_FLAGS: Final = ("-O2", "-shared", "-fPIC", "-mamx-tile", "-mamx-int8")
_ROWS, _INNER, _COLUMNS = 16, 64, 16


class AmxMissing(RuntimeError):
    """Raised when this machine cannot run AMX; the message names the missing part."""


@dataclass(frozen=True, slots=True)
class Done:
    """A product computed by AMX: the sums in int32, the stationary tiles loaded, the calls."""

    result: np.ndarray
    loads: int
    calls: int


def missing(information: Path = Path("/proc/cpuinfo")) -> str:
    """Return why AMX cannot run on this machine, or an empty text if nothing is known against it.

    ``information`` is the file in which Linux lists the features of the processor.
    """
    try:
        features = information.read_text(errors="replace").split()
    except OSError:
        return f"AMX needs Linux on an x86 processor; {information} cannot be read"
    absent = [name for name in ("amx_tile", "amx_int8") if name not in features]
    if absent:
        return f"this processor has no {' and no '.join(absent)}"
    if compiler() is None:
        return "AMX needs a C compiler, and neither cc, gcc nor clang is on the path"
    return ""


def compiler() -> str | None:
    """Return the path of the system's C compiler, or None."""
    named = os.environ.get("CC")
    return next(
        (found for name in (named, "cc", "gcc", "clang") if name and (found := shutil.which(name))), None
    )


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    reason = missing()
    if reason:
        raise AmxMissing(reason)
    library = ctypes.CDLL(str(compiled()))
    if library.amx_begin() != 0:
        raise AmxMissing("the kernel does not let this process use the tile registers")
    return library


def compiled() -> Path:
    """Compile the source, once per content and compiler, and return the shared library.

    Raise :class:`AmxMissing` with the compiler's first line if it does not know AMX.
    """
    chosen = compiler()
    if chosen is None:
        raise AmxMissing("AMX needs a C compiler, and neither cc, gcc nor clang is on the path")
    digest = hashlib.blake2b(SOURCE.read_bytes() + chosen.encode(), digest_size=8).hexdigest()
    place = cache_folder() / "amx" / f"amx_int8-{digest}.so"
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [chosen, *_FLAGS, str(SOURCE), "-o", str(part)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            first = (done.stderr.strip() or "no message").splitlines()[0]
            raise AmxMissing(f"{chosen} must compile AMX intrinsics, got: {first}")
        part.replace(place)
    return place


def packed(right: np.ndarray) -> np.ndarray:
    """Return a matrix [inner, columns] with four bytes of each column side by side: [inner / 4, columns * 4].

    >>> packed(np.arange(8, dtype=np.int8).reshape(4, 2)).tolist()
    [[0, 2, 4, 6, 1, 3, 5, 7]]
    """
    inner, columns = right.shape
    return np.ascontiguousarray(right.reshape(inner // 4, 4, columns).transpose(0, 2, 1)).reshape(
        inner // 4, -1
    )


def multiply(left: np.ndarray, right: np.ndarray) -> Done:
    """Multiply two matrices of int8 on the tile registers; the sums are int32.

    Raise :class:`AmxMissing` if this machine cannot, TypeError for other element types, and
    :class:`~workbench.kernels.accelerators.AccumulatorOverflow` if the sums may exceed int32.
    """
    from workbench.kernels.accelerators.reading import unit

    if left.dtype != np.int8 or right.dtype != np.int8:
        raise TypeError(f"the operands must be int8, got {left.dtype} and {right.dtype}")
    unit("amx_int8").check_sums(left.shape[1])
    library = _library()
    (rows, inner), columns = left.shape, right.shape[1]
    across = (0, -inner % _INNER)
    filled = np.ascontiguousarray(np.pad(left, ((0, -rows % _ROWS), across)))
    tiles = packed(np.pad(right, (across, (0, -columns % _COLUMNS))))
    sums = np.zeros((filled.shape[0], tiles.shape[1] // 4), dtype=np.int32)
    counts = (ctypes.c_long * 2)()
    library.amx_multiply(
        *(_pointer(x) for x in (filled, tiles, sums)),
        *(ctypes.c_long(v) for v in (filled.shape[0], filled.shape[1], sums.shape[1])),
        ctypes.byref(counts, 0),
        ctypes.byref(counts, ctypes.sizeof(ctypes.c_long)),
    )
    return Done(sums[:rows, :columns], counts[0], counts[1])


def _pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)
