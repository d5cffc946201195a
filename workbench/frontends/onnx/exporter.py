"""Export of graphs as ONNX models.

Work on weights alone is computed first, in float64, and rounded once. Each operator writes itself. The writer
adds the changes that need the whole graph: slices that partition an axis become one Split, a constant added
to a convolution becomes its bias, and chains of reshapes become one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from onnx import ModelProto

from workbench.frontends.onnx.file import Apart, ModelError, joined, write_apart
from workbench.frontends.onnx.opaque import payload_of
from workbench.frontends.onnx.symbolic_writer import SymbolTable
from workbench.frontends.onnx.writer import (
    Writer,
    candidate_opsets,
    default_opset,
    loads,
    opset_imports,
    shell_of,
)
from workbench.graph import Graph, fold_constants
from workbench.ops.onnx_form import OpsetTooOld


def save_onnx(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    fold: bool = True,
    symbols: SymbolTable | None = None,
) -> None:
    """Write a graph to an ONNX file atomically; the other arguments are those of :func:`to_onnx`.

    If the weights exceed 1.8 GiB, the large ones are written to ``<name>.data`` next to it. Raise OSError if
    the files cannot be written.
    """
    write_apart(to_onnx_apart(graph, opset=opset, fold=fold, symbols=symbols), path)


def to_onnx(
    graph: Graph,
    *,
    opset: int | None = None,
    fold: bool = True,
    whole: bool = True,
    symbols: SymbolTable | None = None,
) -> ModelProto:
    """Return a graph as an ONNX model with the same inputs and outputs, with their names and order.

    Opaque operators are written back unchanged. If the graph was read from a file, so is the rest of the
    file: documentation, properties, names of nodes and values that still exist, and the nodes after the
    graph.

    Args:
        graph: The graph.
        opset: The version of the default operator set. By default it is that of the file, or the oldest
            later one in which all operators can be written and that ONNX Runtime loads; 21 or 22 for a graph
            that was not read from a file.
        fold: Whether parts that depend on weights alone are computed first.
        whole: Whether the nodes that the file has after the graph are written too.
        symbols: The symbolic dimensions; generic extents are written as these dimensions.

    Returns:
        The model.

    Raises:
        ModelError: The graph has no form in the operator set.
    """
    return joined(to_onnx_apart(graph, opset=opset, fold=fold, whole=whole, symbols=symbols))


def to_onnx_apart(
    graph: Graph,
    *,
    opset: int | None = None,
    fold: bool = True,
    whole: bool = True,
    symbols: SymbolTable | None = None,
) -> Apart:
    """Return a graph as an ONNX model with its large weights stored apart, in memory or in a mapped file.

    In the model they are placeholders, as :func:`~workbench.frontends.onnx.sessions.shared_session` accepts.
    The arguments and errors are those of :func:`to_onnx`.
    """
    if fold:
        # A part that overflows, or has an index out of range, must do so at run time: its operators stay.
        graph = fold_constants(graph, keep_overflow=True, keep_transposed=True)
    shell = shell_of(graph)
    payloads = {key: payload_of(record) for key, record in graph.opaques.items()}
    tail = ModelProto()
    if whole and graph.info is not None:
        tail.ParseFromString(graph.info.tail)
    pieces = [*payloads.values(), tail] if tail.graph.output else list(payloads.values())
    own = default_opset(shell)
    failure: ValueError | None = None
    written: Apart | None = None
    for version in candidate_opsets(pieces, opset, own):
        try:
            imports = opset_imports(pieces, version)
            model = _writer(symbols)(graph, payloads, imports, shell, tail, whole).run()
        except (OpsetTooOld, ModelError) as error:
            failure = failure or error
            continue
        if own is None or opset is not None or version == own or loads(model):
            return model
        written = written or model
    if written is not None:  # perhaps the runtime does not load the original model either
        return written
    raise ModelError(f"{graph.name!r} cannot be written: {failure}") from None


def _writer(symbols: SymbolTable | None) -> Callable[..., Writer]:
    if symbols is None:
        return Writer
    from workbench.frontends.onnx.symbolic_writer import symbolic_writer

    return symbolic_writer(symbols)
