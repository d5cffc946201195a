"""ONNX models as stored on disk, ready to be cut; no operator is translated, so none is unsupported.

A piece of a model is itself a model: the nodes between some values and others, with the weights that they
read. Weights in external files stay in these files.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import Source, _check_location, placeholder, read_model, tensor_array
from workbench.frontends.onnx.prepare import read_by
from workbench.ops.types import DTYPE_CODES, TensorType
from workbench.support.mmap import place_of
from workbench.support.orders import topological

#: A value of a model: a tensor, a sequence of tensors, or None (an absent optional).
Value = Any

#: From this IR version on an initialiser does not have to be listed as an input.
_FREE_INITIALISERS: Final = 4


@dataclass(slots=True, eq=False)
class Model:
    """An ONNX model with its nodes in topological order and an index of the node that makes each value.

    ``inputs`` are the inputs that must be fed. Old files also list initialisers as inputs; these are left out
    here and named in ``cleaned``. ``maker`` maps the name of a value to the number of its node.
    """

    proto: ModelProto
    folder: Path | None
    name: str
    nodes: list[NodeProto]
    weights: dict[str, Any]
    inputs: dict[str, TypeProto]
    outputs: dict[str, TypeProto]
    cleaned: tuple[str, ...]
    maker: dict[str, int]

    @classmethod
    def read(cls, source: Source) -> Model:
        """Read a model from a path, from bytes or from a ``ModelProto``.

        Raise OSError if the file cannot be read, :class:`~workbench.frontends.model.ModelError` if it
        is not an ONNX model.
        """
        file = read_model(source)
        for tensor in file.model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                _check_location(tensor, file.folder)
            elif tensor.name in file.arrays:  # it stays in the mapped file
                place = place_of(file.arrays[tensor.name])
                if place is None:
                    raise ModelError(f"tensor {tensor.name!r} has no place in a file")
                kind = TensorType.of(file.arrays[tensor.name])
                tensor.CopyFrom(placeholder(tensor.name, kind, place[0].path.name, place[1]))
        return cls.of(file.model, file.folder, file.name)

    @classmethod
    def of(cls, proto: ModelProto, folder: Path | None, name: str) -> Model:
        """Return a parsed model with its index."""
        graph = proto.graph
        weights: dict[str, Any] = {t.name: t for t in graph.initializer}
        weights |= {t.values.name: t for t in graph.sparse_initializer}
        nodes = _sorted(list(graph.node), name)
        return cls(
            proto=proto,
            folder=folder,
            name=name,
            nodes=nodes,
            weights=weights,
            inputs={v.name: v.type for v in graph.input if v.name not in weights},
            outputs={v.name: v.type for v in graph.output},
            cleaned=tuple(v.name for v in graph.input if v.name in weights),
            maker={o: i for i, node in enumerate(nodes) for o in node.output if o},
        )

    def needed(self, outputs: Iterable[str], given: Iterable[str] = ()) -> list[int]:
        """Return the numbers of the nodes that compute ``outputs`` from ``given``, in order."""
        stop, found = set(given), set()
        pending = [name for name in outputs if name not in stop]
        while pending:
            i = self.maker.get(pending.pop())
            if i is not None and i not in found:
                found.add(i)
                pending += [name for name in read_by(self.nodes[i]) if name not in stop]
        return sorted(found)

    def cut(
        self,
        outputs: Sequence[str],
        given: Mapping[str, Value] | None = None,
        *,
        nodes: Sequence[NodeProto] | None = None,
    ) -> ModelProto:
        """Return the piece of the model that computes ``outputs`` from the model's inputs and ``given``.

        The ``given`` values replace their nodes; only the types of these values matter. ``nodes``, if any,
        are used as the nodes of the piece in place of the model's own.
        """
        given = given or {}
        chosen = [self.nodes[i] for i in self.needed(outputs, given)] if nodes is None else list(nodes)
        reads = {name for node in chosen for name in read_by(node)} | set(outputs)
        piece = ModelProto()
        piece.ir_version = max(self.proto.ir_version, _FREE_INITIALISERS)
        piece.opset_import.extend(self.proto.opset_import)
        piece.functions.extend(self.proto.functions)
        graph = piece.graph
        graph.name = self.proto.graph.name or "piece"
        graph.node.extend(chosen)
        for name, kind in self.inputs.items():
            if name in reads and name not in given:
                graph.input.append(onnx.helper.make_value_info(name, kind))
        for name, value in given.items():
            if name in reads:
                graph.input.append(onnx.helper.make_value_info(name, type_of(value)))
        for name, weight in self.weights.items():
            if name in reads and name not in given:
                kept = graph.initializer if isinstance(weight, TensorProto) else graph.sparse_initializer
                kept.append(weight)
        for name in outputs:
            # The runtime infers the type; a graph input or a weight may be an output as well.
            graph.output.append(ValueInfoProto(name=name))
        return piece

    def weight(self, name: str) -> np.ndarray | None:
        """Return a dense weight, read from its external file if it has one; None if the name is not one."""
        stored = self.weights.get(name)
        return tensor_array(stored, self.folder) if isinstance(stored, TensorProto) else None


def _sorted(nodes: list[NodeProto], name: str) -> list[NodeProto]:
    """Return nodes with operands first, otherwise in the order of the file; raise ModelError for a cycle."""
    maker = {o: i for i, node in enumerate(nodes) for o in node.output if o}
    reads = [[maker[n] for n in read_by(node) if n in maker] for node in nodes]
    try:
        return [nodes[i] for i in topological(range(len(nodes)), reads.__getitem__)]
    except graphlib.CycleError as error:
        made = nodes[error.args[1][0]].output[0]
        raise ModelError(f"{name}: the graph has a cycle through {made!r}") from None


def type_of(value: Value) -> TypeProto:
    """Return the ONNX type of a value that is fed; for a tensor the element type without the shape."""
    if isinstance(value, TypeProto):
        return value
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(type_of(value[0]))
    kind = TypeProto()
    kind.tensor_type.elem_type = DTYPE_CODES[TensorType.of(np.asarray(value)).dtype]
    return kind
