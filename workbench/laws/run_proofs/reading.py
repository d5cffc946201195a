"""The reader of files for proofs: every operator as it is written.

It is the import of the optimiser without what that changes afterwards: nothing is recognised as an idiom, left out
as neutral, or computed, except shapes and the arithmetic on them, which the types decide.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from workbench.frontends.onnx.file import names_as_text, read_tensors
from workbench.frontends.onnx.importer import import_prepared
from workbench.frontends.onnx.prepare import prepare
from workbench.graph import Graph


def read_plainly(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> Graph:
    """Return an ONNX file as a graph, operator by operator.

    Args:
        path: The file.
        dims: Sizes of its symbolic dimensions.

    Raises:
        ModelError: The file is no valid model, or a dimension has no size.
        OSError: The file cannot be read.
    """
    with names_as_text():
        prepared = prepare(read_tensors(path), dims or {})
        return import_prepared(replace(prepared, plain=True)).graph
