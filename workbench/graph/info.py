"""What a graph that was read from a model file keeps of it beside the computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class Label:
    """What a model calls a value, and the operator that makes it: name, documentation, properties."""

    value: str = ""
    op_type: str = ""
    name: str = ""
    doc: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelInfo:
    """What a model file says beside its computation, to be written back.

    ``shell`` is the ONNX model without nodes and stored tensors, serialised: producer, documentation,
    properties, inputs and outputs as they were declared, types of inner values. ``defaults`` are the
    initial values of inputs that a caller may leave out. ``tail`` is a serialised ONNX model of the nodes
    that follow the graph and stay as they came, because their values are no tensors of static shape: it
    reads ``shell``'s inputs that are no tensors and outputs of the graph by their names, and makes outputs
    of the model; ``tail_arrays`` are its stored tensors.
    """

    shell: bytes = field(repr=False)
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    tail: bytes = field(default=b"", repr=False)
    tail_arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    def bare(self) -> ModelInfo:
        """Return the record without the data of tensors."""
        return replace(self, defaults={}, tail_arrays={})
