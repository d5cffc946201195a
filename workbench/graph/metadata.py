"""The parts of a model file that are not computation, kept with the graph that was read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class Label:
    """A model's names for a value and for the operator that makes it, with documentation and properties."""

    value: str = ""
    op_type: str = ""
    name: str = ""
    doc: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelInfo:
    """The parts of a model file other than its computation, kept in order to be written back.

    ``shell`` is the serialised ONNX model without nodes and stored tensors: producer, documentation,
    properties, declared inputs and outputs, types of inner values. ``defaults`` are the initial values of
    inputs that a caller may omit. ``tail`` is a serialised ONNX model of the nodes that follow the graph
    and are kept unchanged, because their values are not tensors of static shape. It reads outputs of the
    graph and inputs of ``shell`` that are not tensors, by name, and computes outputs of the model.
    ``tail_arrays`` are its stored tensors.
    """

    shell: bytes = field(repr=False)
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    tail: bytes = field(default=b"", repr=False)
    tail_arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    def bare(self) -> ModelInfo:
        """Return the record without the data of tensors."""
        return replace(self, defaults={}, tail_arrays={})
