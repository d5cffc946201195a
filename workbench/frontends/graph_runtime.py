"""Execution of graphs and their opaque operators in ONNX Runtime, or in ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto

from workbench.graph import Graph, Opaque
from workbench.graph.evaluate import OpaqueRunner

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator
    from onnxruntime import InferenceSession

from workbench.frontends.onnx.exporter import to_onnx
from workbench.frontends.onnx.opaque import payload_of
from workbench.frontends.runtime import RuntimeFailure, packed, run_model, run_session, session

#: The time limit of an opaque operator in seconds; a loop might never end.
OPAQUE_SECONDS = 20.0


def run_graph(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a graph in ONNX Runtime, as it would be exported, and return its outputs by name."""
    return run_model(to_onnx(graph), inputs)


class OpaqueSessions:
    """A runner of opaque operators, with one loaded session for each distinct operator.

    ONNX Runtime runs them if it can, with one thread and without its optimiser, so that repeated runs are
    equal; ONNX's reference evaluator runs the others.
    """

    def __init__(self) -> None:
        self._sessions: dict[bytes, InferenceSession | ReferenceEvaluator] = {}

    def _loaded(self, record: Opaque) -> InferenceSession | ReferenceEvaluator:
        if record.payload not in self._sessions:
            model = payload_of(record)
            try:
                self._sessions[record.payload] = session(model, threads=1, optimise=False)
            except RuntimeFailure as refusal:
                self._sessions[record.payload] = _reference(model, refusal)
        return self._sessions[record.payload]

    def __call__(self, record: Opaque, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the results of an opaque operator; raise :class:`RuntimeFailure` if nothing can run it."""
        from onnx.reference import ReferenceEvaluator

        runner = self._loaded(record)
        if not isinstance(runner, ReferenceEvaluator) and any(packed(v) for v in operands):
            # Elements smaller than a byte cannot be passed to ONNX Runtime.
            runner = self._sessions[record.payload] = ReferenceEvaluator(payload_of(record))
        if isinstance(runner, ReferenceEvaluator):
            return _by_reference(runner, operands)
        names = [i.name for i in runner.get_inputs()]
        feeds = dict(zip(names, operands, strict=True))
        try:
            return list(run_session(runner, feeds, seconds=OPAQUE_SECONDS).values())
        except RuntimeFailure as refusal:
            if refusal.late:
                raise
            # Some kernels load but then refuse their operands' types; the reference evaluator accepts them.
            try:
                return _by_reference(_reference(payload_of(record), refusal), operands)
            except Exception:
                raise refusal from None


def _by_reference(runner: ReferenceEvaluator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    feeds = dict(zip(runner.input_names, operands, strict=True))
    try:
        results = [np.asarray(r) for r in runner.run(None, feeds)]
    except Exception as error:
        raise RuntimeFailure(f"ONNX's reference evaluator failed: {error}") from None
    return [r.astype(object) if r.dtype.kind == "U" else r for r in results]


def _reference(model: ModelProto, refusal: RuntimeFailure) -> ReferenceEvaluator:
    from onnx.reference import ReferenceEvaluator

    try:
        return ReferenceEvaluator(model)
    except Exception:
        raise refusal from None


def opaque_runner() -> OpaqueRunner:
    """Return the runner of opaque operators for :func:`workbench.graph.evaluate`."""
    return OpaqueSessions()
