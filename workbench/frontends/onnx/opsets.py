"""Operator sets and IR versions: the ones a model is written in, and the ones ONNX Runtime reads."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import onnx
from onnx import ModelProto

from workbench.frontends.onnx.file import ModelError, ir_version_for
from workbench.frontends.onnx.mmap_weights import Apart
from workbench.frontends.onnx.opaque import changed_operators
from workbench.frontends.onnx.shape_inference import type_proto
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.types import TensorType

#: The operator set for a graph that was not read from a file: old enough for every runtime in use.
DEFAULT_OPSET: Final = 21
#: The newest operator set that is tried if an operator cannot be written in an older one.
NEWER_OPSET: Final = 22
OLDEST_OPSET: Final = 9


def default_opset(model: ModelProto) -> int | None:
    """Return the version of the default operator set that a model uses, or None if it does not use one."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)


def candidate_opsets(pieces: Sequence[ModelProto], asked: int | None, own: int | None) -> list[int]:
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


def opset_imports(payloads: Sequence[ModelProto], opset: int) -> dict[str, int]:
    """Return the operator sets of a model with this version of the default one.

    Raise :class:`OpsetTooOld` if an opaque operator has another meaning in that version.
    """
    imports: dict[str, int] = {}
    for payload in payloads:
        for entry in payload.opset_import:
            known = imports.setdefault(entry.domain, entry.version)
            if entry.domain and known != entry.version:
                raise ModelError(
                    f"opaque operators need {entry.domain} in versions {known} and {entry.version}"
                )
        changed = changed_operators(payload, opset)
        if changed:
            raise OpsetTooOld(
                f"operator set {opset} defines {', '.join(changed)} differently from the model's"
            )
    return dict(sorted((imports | {"": opset}).items()))


def loadable_ir(version: int) -> int:
    """Return the newest IR version up to ``version`` that ONNX Runtime reads."""
    known = ir_version_for({"": DEFAULT_OPSET})
    return next(
        (v for v in range(version, known, -1) if _loads_version(DEFAULT_OPSET, v)), min(version, known)
    )


@functools.cache
def _loads_version(opset: int, ir_version: int) -> bool:
    """Return whether ONNX Runtime reads models of these versions."""
    kind = type_proto(TensorType("float32", (1,)))
    given, made = (onnx.helper.make_value_info(name, kind) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "one", [given], [made])
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, ir_version=ir_version, opset_imports=opsets)
    return loads(Apart(model, {}))


def loads(apart: Apart) -> bool:
    """Return whether ONNX Runtime loads a model."""
    from workbench.frontends.onnx.sessions import shared_session
    from workbench.frontends.runtime import RuntimeFailure

    model = ModelProto()
    model.CopyFrom(apart.model)  # loading modifies the model
    try:
        shared_session(model, apart.arrays, threads=1, optimise=False)
    except RuntimeFailure:
        return False
    return True
