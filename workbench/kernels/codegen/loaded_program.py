"""Saved mixed programs: an ONNX model with the library of its kernels beside it, loaded again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workbench.kernels.codegen.partitioned import library_beside


class SavedProgram:
    """A model file that is loaded into ONNX Runtime, with the kernels of the library beside it.

    A call takes the inputs by name and returns the outputs by name. ``library`` is the file of the kernels,
    and None if there is none: the operators of every kernel then run as they are written in the model.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1) -> None:
        import onnx

        from workbench.frontends.runtime import session

        beside = library_beside(Path(path).resolve())  # a name alone would be looked up elsewhere
        self.path, self.threads = Path(path), threads
        self.library = beside if beside.is_file() else None
        model = onnx.load(self.path)
        self._session = session(model, threads=threads, spin=False, operators=self.library)
        self._names = [output.name for output in self._session.get_outputs()]

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for inputs by name."""
        return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))

    def __repr__(self) -> str:
        kernels = "no kernels" if self.library is None else f"kernels from {self.library.name}"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"SavedProgram: {self.path.name}, {kernels}, {threads}"


def load_program(path: str | os.PathLike[str], *, threads: int = 1) -> SavedProgram:
    """Load a mixed program that was saved, to be called with its inputs by name.

    Args:
        path: The ONNX file. The library of its kernels has the same name with the ending ``.so``; a model
            without one is loaded as it is.
        threads: The number of threads of one operator; kernels run on as many as they were made for.

    Raises:
        FileNotFoundError: There is no such file.
        RuntimeFailure: ONNX Runtime refuses the model or the library.
    """
    return SavedProgram(path, threads)
