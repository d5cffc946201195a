"""Functions that models carry for operators of the user's own, recognised by their definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import FunctionProto, ModelProto

from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.registry import own_form
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType


@dataclass(slots=True)
class _Recorder:
    """A writer that keeps the function of an operator and writes nothing."""

    opset: int
    given: Any = None

    def function(self, given: FunctionProto | str) -> None:
        """Keep a function."""
        self.given = given

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Return a name."""
        return "y"


def known_functions(model: ModelProto) -> Iterator[tuple[str, str]]:
    """Yield the functions of a model that are exactly those of registered operators, as (domain, name).

    A function of the same name that computes something else is not among them: the model's own definition
    counts.
    """
    for function in model.functions:
        spec = own_form(function.domain, function.name)
        if spec is None or spec.export is None or Trait.CARRIED not in spec.traits:
            continue
        recorder = _Recorder(next((o.version for o in function.opset_import if o.domain == ""), 0))
        unknown = TensorType("float32", ())
        try:
            spec.export(recorder, list(function.input), spec.unpack(spec.pack({})), [], unknown)
        except OpsetTooOld:
            continue
        if isinstance(recorder.given, FunctionProto) and _same(recorder.given, function):
            yield function.domain, function.name


def _same(a: FunctionProto, b: FunctionProto) -> bool:
    return (list(a.input), list(a.output), list(a.node)) == (list(b.input), list(b.output), list(b.node))
