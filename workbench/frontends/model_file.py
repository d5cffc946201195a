"""Models by what is given: a graph, or a file; ``.model`` is TASO's text format, any other extension is ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from workbench.frontends.model import Dims, Model, ModelError, ModelLike, check_names
from workbench.graph import Graph
from workbench.graph.graph import without_neutral
from workbench.support.wings import offered

if TYPE_CHECKING:
    from workbench.frontends.onnx.file import Source
    from workbench.frontends.onnx.importer import Imported


def open_model(
    model: ModelLike,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    keep_inputs: bool = False,
) -> Model:
    """Read a model with its symbolic dimensions kept as far as they can be, and without neutral operators.

    Args:
        model: A graph, a model file, or a model that was read.
        dims: Sizes at which dimensions are fixed on purpose.
        sizes: Sizes to price at.
        keep_inputs: Whether initialisers that are also inputs stay inputs.

    Raises:
        ValueError: ``sizes`` names a dimension that is not left open, or the model cannot be imported at any
            size (see :func:`~workbench.frontends.import_onnx`).
        OSError: The file cannot be read.
    """
    if isinstance(model, Model):
        return model.priced_at(sizes or {})
    if not isinstance(model, Graph):
        return _open_file(model, dims or {}, sizes or {}, keep_inputs)
    check_names(dims or {}, (), "dims")
    check_names(sizes or {}, ())
    cleaned = without_neutral(model)  # as an import does
    return Model(cleaned, cleaned, cleaned_from=None if cleaned is model else model)


def _open_file(model: Source, dims: Mapping[str, int], sizes: Mapping[str, int], keep_inputs: bool) -> Model:
    if is_taso_model(model):
        check_names(sizes, ())
        return _import_taso(model, dims).model(dims=dims)
    from workbench.frontends.onnx.file import as_given, names_as_text, read_tensors
    from workbench.frontends.onnx.importer import import_symbolic
    from workbench.frontends.onnx.prepare import prepare

    with names_as_text():
        file, given = read_tensors(model), as_given(model)
        opened = import_symbolic(prepare(file, dims, keep_inputs=keep_inputs, open_dimensions=True))
    return replace(opened.priced_at(sizes), source=given, dims=dims, keep_inputs=keep_inputs)


def fixed_model(model: ModelLike, dims: Mapping[str, int] | None = None) -> Model:
    """Read a model with all of its dimensions fixed; ``dims`` are sizes of symbolic ones."""
    if isinstance(model, Graph) or is_taso_model(model):
        return open_model(model, dims)
    from workbench.frontends.onnx.file import as_given

    return import_model(model, dims=dims).model(source=as_given(model), dims=dims)


def is_taso_model(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a source is the path of a file in TASO's text format, judged by its extension."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix == ".model"


def load_model(source: object, *, dims: Dims | None = None, sizes: Mapping[str, int] | None = None) -> Graph:
    """Return a model as a graph; :func:`import_model` also reports which operators are modelled.

    Symbolic dimensions that ``dims`` does not fix have the sizes of ``sizes``, or usual ones.
    """
    if is_taso_model(source):
        check_names(sizes or {}, ())
        return _import_taso(source, dims).graph
    from workbench.frontends.onnx.importer import load_onnx

    return load_onnx(source, dims=dims, sizes=sizes)


def import_model(source: object, *, dims: Dims | None = None, keep_inputs: bool = False) -> Imported:
    """Import a model from a path, or from any other source of :func:`~workbench.frontends.import_onnx`.

    A path that ends in ``.model`` is read by :func:`~workbench.studies.taso.model_reader.import_taso_model`. The
    dimensions of such a model are fixed, so ``dims`` is rejected, and ``keep_inputs`` has no effect, because its
    inputs have no initial values. Errors are those of the two functions.
    """
    if is_taso_model(source):
        return _import_taso(source, dims)
    from workbench.frontends.onnx.importer import import_onnx

    return import_onnx(source, dims=dims, keep_inputs=keep_inputs)


def _import_taso(source: str | os.PathLike[str], dims: Dims | None) -> Imported:
    if dims:
        raise ModelError(f"{source} has no symbolic dimensions (try without {', '.join(sorted(dims))})")
    return offered("import_taso_model")(source)


def save_model(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as TASO text if the path ends in ``.model``, otherwise as ONNX.

    Errors are those of :func:`~workbench.studies.taso.model_writer.save_taso_model` and
    :func:`~workbench.frontends.save_onnx`.
    """
    from workbench.frontends.onnx.exporter import save_onnx

    (offered("save_taso_model") if is_taso_model(path) else save_onnx)(graph, path)
