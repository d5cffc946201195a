"""Small models that show a difference: the pieces of A and of B side by side on the same values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, TensorProto, helper

from workbench.certification.bisect import Located, Region
from workbench.certification.model import type_of
from workbench.certification.runner import Runner
from workbench.certification.tolerance import mismatch
from workbench.frontends.onnx.file import taken_apart, write_apart
from workbench.frontends.onnx.opaque import rename
from workbench.frontends.onnx.prepare import read_by
from workbench.frontends.runtime import RuntimeFailure
from workbench.ops.types import DTYPE_CODES, TensorType


def write_repro(located: Located, path: Path, runner: Runner) -> tuple[list[str], str]:
    """Write the differing pieces to one file, or to two if their operator sets are incompatible.

    The values that show the difference are defaults of the inputs, so the file runs without inputs. The
    outputs are called ``a`` and ``b``. Return the files and a sentence on the result of running them. Raise
    OSError if they cannot be written.
    """
    a = _piece(located.a, "a", {n: n for n in located.a.inputs})
    b = _piece(located.b, "b", dict(located.equal))
    models = {path: [a, b]}
    if not _together(a, b):
        models = {path.with_name(f"{path.stem}.{n}{path.suffix}"): [p] for n, p in (("a", a), ("b", b))}
    found: dict[str, Any] = {}
    said = "run by itself it shows the difference"
    for target, pieces in models.items():
        model = _model(pieces, located.values)
        try:
            found |= runner.once(model, None, {}, [o.name for o in model.graph.output])
        except RuntimeFailure as failure:
            said = f"run by itself it fails: {failure}"
        write_apart(taken_apart(model), target)
    if found.keys() >= {"a", "b"} and mismatch(found["a"], found["b"], ()) is None:
        said = "run by itself its outputs agree within the stated tolerance: the models differ by less"
    return [str(target) for target in models], said


def _piece(region: Region, side: str, names: Mapping[str, str]) -> ModelProto:
    """Return a region as a model with inner names prefixed by the side and an output called like the side."""
    source = region.side.model
    feeds = region.side.feeds[0]
    given = {n: feeds.get(n, np.zeros(1, np.float32)) for n in region.inputs}
    piece = source.cut([region.output], given, nodes=region.nodes)
    graph = piece.graph
    inside = {o for n in graph.node for o in n.output if o} | {t.name for t in graph.initializer}
    inside |= {t.values.name for t in graph.sparse_initializer}
    renamed = {n: f"{side}/{n}" for n in inside} | dict(names)
    for node in graph.node:
        rename(node, renamed)
        node.name = f"{side}/{node.name}" if node.name else ""
    for tensor in graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            array = source.weight(tensor.name)
            assert array is not None
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(array), tensor.name))
        tensor.name = renamed[tensor.name]
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed[sparse.values.name]
    graph.node.append(helper.make_node("Identity", [renamed.get(region.output, region.output)], [side]))
    del graph.input[:]
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name=side))
    return piece


def _domains(model: ModelProto) -> dict[str, int]:
    nodes = chain(model.graph.node, *(f.node for f in model.functions))
    used = {_short(n.domain) for n in nodes} | {""}
    return {_short(o.domain): o.version for o in model.opset_import if o.domain in used}


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _named(model: ModelProto) -> dict[tuple[str, str, str], FunctionProto]:
    return {(f.domain, f.name, f.overload): f for f in model.functions}


def _together(a: ModelProto, b: ModelProto) -> bool:
    """Return whether two pieces fit into one file: equal operator sets and no functions that clash."""
    first, second = _domains(a), _domains(b)
    if any(first[d] != second[d] for d in first.keys() & second.keys()):
        return False
    ours, theirs = _named(a), _named(b)
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _model(pieces: list[ModelProto], values: Mapping[str, Any]) -> ModelProto:
    """Return pieces as one model; the values that show the difference are the defaults of its inputs."""
    model = ModelProto()
    model.ir_version = max(p.ir_version for p in pieces)
    versions: dict[str, int] = {}
    for piece in pieces:
        versions |= _domains(piece)
        known = _named(model)
        model.functions.extend(f for name, f in _named(piece).items() if name not in known)
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in versions.items())
    model.producer_name = "tamago workbench"
    model.doc_string = (
        "The place at which two models diverge: output a as in A, output b as in B, on the same values."
    )
    graph = model.graph
    graph.name = "difference"
    reads: set[str] = set()
    for piece in pieces:
        graph.node.extend(piece.graph.node)
        graph.initializer.extend(piece.graph.initializer)
        graph.sparse_initializer.extend(piece.graph.sparse_initializer)
        graph.output.extend(piece.graph.output)
        reads |= {name for node in piece.graph.node for name in read_by(node)}
    for name, value in values.items():
        if name in reads:
            kind = type_of(value)
            if not isinstance(value, list):
                array = np.asarray(value)
                kind = helper.make_tensor_type_proto(DTYPE_CODES[TensorType.of(array).dtype], array.shape)
                graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            graph.input.append(helper.make_value_info(name, kind))
    return model


def differing_weights(located: Located) -> list[str]:
    """Return one line for each weight that both pieces read under the same name and that differs."""
    lines = []
    first = {n for node in located.a.nodes for n in read_by(node)} & set(located.a.side.model.weights)
    second = {n for node in located.b.nodes for n in read_by(node)} & set(located.b.side.model.weights)
    for name in sorted(first & second):
        x, y = located.a.side.model.weight(name), located.b.side.model.weight(name)
        if x is None or y is None:
            continue
        if TensorType.of(x) != TensorType.of(y):
            lines.append(f"weight {name!r} is {TensorType.of(x)} in A, {TensorType.of(y)} in B")
            continue
        with np.errstate(all="ignore"):
            wrong = np.argwhere((x != y) & ~((x != x) & (y != y)))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            more = f", and {len(wrong) - 1} more of {x.size}" if len(wrong) > 1 else ""
            lines.append(f"weight {name!r} is {x[at]:.9g} in A, {y[at]:.9g} in B at {list(at)}{more}")
    return lines
