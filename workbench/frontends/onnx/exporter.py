"""Export of graphs as ONNX models, in an operator set and an IR version that ONNX Runtime loads.

Work on weights alone is computed first, in float64, and rounded once. Each operator writes itself. The writer
adds the changes that need the whole graph: slices that partition an axis become one Split, a constant added
to a convolution becomes its bias, and chains of reshapes become one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Final

import onnx
from onnx import ModelProto

from workbench.frontends.model import ModelError, SymbolTable
from workbench.frontends.onnx.file import Apart, ir_version_for, joined, taken_apart, type_proto, write_apart
from workbench.frontends.onnx.opaque import changed_operators, payload_of
from workbench.frontends.onnx.writer import Writer
from workbench.frontends.runtime import RuntimeFailure, one_node, session
from workbench.graph import Graph, fold_constants
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.types import TensorType

#: The operator set for a graph that was not read from a file: old enough for every runtime in use.
DEFAULT_OPSET: Final = 21
#: The newest operator set that is tried if an operator cannot be written in an older one.
NEWER_OPSET: Final = 22
OLDEST_OPSET: Final = 9


def save_onnx(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    symbols: SymbolTable | None = None,
) -> None:
    """Write a graph to an ONNX file atomically; the other arguments are those of :func:`to_onnx`.

    If the weights exceed 1.8 GiB, the large ones are written to ``<name>.data`` next to it. Raise OSError if
    the files cannot be written.
    """
    write_apart(to_onnx_apart(graph, opset=opset, symbols=symbols), path)


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

    In the model they are placeholders, as :func:`~workbench.frontends.runtime.session` accepts.
    The arguments and errors are those of :func:`to_onnx`.
    """
    if fold:
        # A part that overflows, or has an index out of range, must do so at run time: its operators stay.
        graph = fold_constants(graph, keep_overflow=True, keep_transposed=True)
    shell = shell_of(graph)
    payloads = {key: payload_of(record) for key, record in graph.opaques.items()}
    tail = ModelProto.FromString(graph.info.tail if whole and graph.info is not None else b"")
    pieces = [*payloads.values(), *([tail] if tail.graph.output else [])]
    own, ir_version = default_opset(shell), _loadable_ir(shell.ir_version)
    failure, written = list[ValueError](), list[Apart]()
    for version in _candidate_opsets(pieces, opset, own):
        try:
            imports = _opset_imports(pieces, version)
            table = symbols or SymbolTable()
            model = Writer(graph, payloads, imports, shell, ir_version, tail, whole, table).run()
        except (OpsetTooOld, ModelError) as error:
            failure.append(error)
            continue
        if own is None or opset is not None or version == own or _loads(model):
            return model
        written = written or [model]
    if written:  # perhaps the runtime does not load the original model either
        return written[0]
    raise ModelError(f"{graph.name!r} cannot be written: {failure[0]}") from None


def model_apart(given: Graph | ModelProto | Apart) -> Apart:
    """Return a model with its large weights apart, as it is if they are so already."""
    if isinstance(given, Apart):
        return given
    return to_onnx_apart(given) if isinstance(given, Graph) else taken_apart(given)


def shell_of(graph: Graph) -> ModelProto:
    """Return the content of a graph's file except its nodes; an empty model for a graph without a file."""
    return ModelProto() if graph.info is None else ModelProto.FromString(graph.info.shell)


def default_opset(model: ModelProto) -> int | None:
    """Return the version of the default operator set that a model uses, or None if it does not use one."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)


def _candidate_opsets(pieces: Sequence[ModelProto], asked: int | None, own: int | None) -> list[int]:
    """Return the versions of the default operator set to try, best first.

    ``pieces`` are written unchanged; ``asked`` is the version that the caller requires, if any; ``own`` is
    the version of the file that the graph was read from, if any.
    """
    newest = onnx.defs.onnx_opset_version()
    if asked is not None:
        if not OLDEST_OPSET <= asked <= newest:
            raise ModelError(f"opset must be from {OLDEST_OPSET} to {newest}, got {asked}")
        return [asked]
    if own is not None and (own <= NEWER_OPSET or _loads_version(own, ir_version_for({"": DEFAULT_OPSET}))):
        first = max(own, OLDEST_OPSET)
        return [*range(first, max(first, NEWER_OPSET) + 1), *([own] if own < first else [])]
    known = (own, *(default_opset(piece) for piece in pieces))
    theirs = {version for version in known if version is not None}
    theirs |= {max(v, OLDEST_OPSET) for v in theirs}
    return list(dict.fromkeys([DEFAULT_OPSET, NEWER_OPSET, *sorted(theirs, reverse=True)]))


def _opset_imports(payloads: Sequence[ModelProto], opset: int) -> dict[str, int]:
    """Return the operator sets of a model with this version of the default one.

    Raise :class:`OpsetTooOld` if an opaque operator has another meaning in that version.
    """
    imports: dict[str, int] = {}
    for payload in payloads:
        for entry in payload.opset_import:
            name, version = entry.domain, entry.version
            known = imports.setdefault(name, version)
            if name and known != version:
                raise ModelError(f"opaque operators need {name} in versions {known} and {version}")
        if changed := ", ".join(changed_operators(payload, opset)):
            raise OpsetTooOld(f"operator set {opset} defines {changed} differently from the model's")
    return dict(sorted((imports | {"": opset}).items()))


def _loadable_ir(version: int) -> int:
    """Return the newest IR version up to ``version`` that ONNX Runtime reads."""
    known = ir_version_for({"": DEFAULT_OPSET})
    loaded = (v for v in range(version, known, -1) if _loads_version(DEFAULT_OPSET, v))
    return next(loaded, min(version, known))


@functools.cache
def _loads_version(opset: int, ir_version: int) -> bool:
    """Return whether ONNX Runtime reads models of these versions."""
    kind = type_proto(TensorType("float32", (1,)))
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = one_node(node, {"x": kind}, {"y": kind}, opset_imports=opsets, ir_version=ir_version)
    return _loads(Apart(model, {}))


def _loads(apart: Apart) -> bool:
    """Return whether ONNX Runtime loads a model."""
    try:
        session(apart, threads=1, optimise=False, prepack=False)
    except RuntimeFailure:
        return False
    return True
