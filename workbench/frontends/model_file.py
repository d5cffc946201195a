"""Model files by extension: ``.model`` is TASO's text format, any other extension is ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeGuard

from workbench.frontends.onnx.exporter import save_onnx
from workbench.frontends.onnx.file import ModelError
from workbench.frontends.onnx.importer import Imported, import_onnx
from workbench.frontends.onnx.prepare import Dims
from workbench.graph import Graph
from workbench.support.wings import offered


def is_taso_model(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a source is the path of a file in TASO's text format, judged by its extension."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix == ".model"


def load_model(source: object, *, dims: Dims | None = None) -> Graph:
    """Return a model as a graph; :func:`import_model` also reports which operators are modelled."""
    return import_model(source, dims=dims).graph


def import_model(source: object, *, dims: Dims | None = None, keep_inputs: bool = False) -> Imported:
    """Import a model from a path, or from any other source of :func:`~workbench.frontends.import_onnx`.

    A path that ends in ``.model`` is read by
    :func:`~workbench.studies.taso.model_reader.import_taso_model`. The dimensions of such a model are fixed, so
    ``dims`` is rejected, and ``keep_inputs`` has no effect, because its inputs have no initial values. Errors are
    those of the two functions.
    """
    if not is_taso_model(source):
        return import_onnx(source, dims=dims, keep_inputs=keep_inputs)
    if dims:
        raise ModelError(f"{source} has no symbolic dimensions (try without {', '.join(sorted(dims))})")
    imported: Imported = offered("import_taso_model")(source)
    return imported


def save_model(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as TASO text if the path ends in ``.model``, otherwise as ONNX.

    Errors are those of :func:`~workbench.studies.taso.model_writer.save_taso_model` and
    :func:`~workbench.frontends.save_onnx`.
    """
    if is_taso_model(path):
        offered("save_taso_model")(graph, path)
    else:
        save_onnx(graph, path)
