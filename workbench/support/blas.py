"""The number of threads of numpy's matrix products, if its OpenBLAS can be asked."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[bool]:
    """Let numpy's products run on ``count`` threads; yield whether that was possible."""
    found = _functions()
    if found is None:
        yield False
        return
    get, put = found
    before = get()
    put(count)
    try:
        yield True
    finally:
        put(before)


@cache
def _functions() -> tuple[Callable[[], Any], Callable[[int], Any]] | None:
    """Return the functions that read and set the number of threads of the OpenBLAS in numpy's package."""
    root = Path(np.__file__).parent
    for file in sorted([*root.parent.glob("numpy.libs/*openblas*"), *root.glob(".libs/*openblas*")]):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for before, after in product(("", "scipy_"), ("", "64_", "_64")):
            names = [f"{before}openblas_{verb}_num_threads{after}" for verb in ("get", "set")]
            if all(hasattr(library, name) for name in names):
                return getattr(library, names[0]), getattr(library, names[1])
    return None
