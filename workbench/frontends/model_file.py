"""Models by the extension of their file: ``.model`` is TASO's text format, all else is ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbench.frontends.onnx_export import save_onnx
from workbench.frontends.onnx_file import ModelError
from workbench.frontends.onnx_import import Imported, import_onnx
from workbench.frontends.onnx_prepare import Dims
from workbench.graph import Graph


def is_taso_model(source: Any) -> bool:
    """Say whether a source is the path of a file of TASO's text format, by its extension."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix == ".model"


def load_model(source: Any, *, dims: Dims | None = None) -> Graph:
    """Return a model as a graph; :func:`import_model` also reports what is modelled in it."""
    return import_model(source, dims=dims).graph


def import_model(source: Any, *, dims: Dims | None = None, keep_inputs: bool = False) -> Imported:
    """Import a model from a path, or from what else :func:`~workbench.frontends.import_onnx` takes.

    A path that ends in ``.model`` is read by :func:`~workbench.frontends.import_taso_model`; its
    dimensions are fixed, so that ``dims`` is refused, and no input of it has an initial value. Raise as
    these two do.
    """
    if not is_taso_model(source):
        return import_onnx(source, dims=dims, keep_inputs=keep_inputs)
    if dims:
        raise ModelError(f"{source} has no symbolic dimensions; leave out {', '.join(sorted(dims))}")
    from workbench.frontends.taso_import import import_taso_model

    return import_taso_model(source)


def save_model(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as TASO's text where the path ends in ``.model``, else as ONNX; raise as they do."""
    if is_taso_model(path):
        from workbench.frontends.taso_export import save_taso_model

        save_taso_model(graph, path)
    else:
        save_onnx(graph, path)
