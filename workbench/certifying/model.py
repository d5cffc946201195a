"""ONNX models as they lie on disk, ready to be cut: no operator is translated, none is foreign.

A piece of a model is a model again: the nodes between some values and others, with the weights that they
read. Weights in external files stay there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from workbench.frontends.onnx_file import ModelError, Source, _check_location, read_model, tensor_array
from workbench.frontends.onnx_names import read_by
from workbench.mapped import file_of, offset_of
from workbench.ops.types import DTYPE_CODES, TensorType

#: What a value of a model may be: a tensor, a sequence of tensors, or nothing (an optional).
Value = Any

#: From this version on an initialiser need not be an input, too.
_FREE_INITIALISERS: Final = 4


@dataclass(slots=True, eq=False)
class Model:
    """An ONNX model with its nodes in topological order and an index of who makes what.

    ``inputs`` are those that must be fed: initialisers that are listed among the inputs, as old files have
    them, are no inputs here, and ``cleaned`` names them.
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

        Raise OSError when the file cannot be read, :class:`~workbench.frontends.onnx_file.ModelError`
        when it is no ONNX model.
        """
        file = read_model(source)
        for tensor in file.model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                _check_location(tensor, file.folder)
            elif tensor.name in file.arrays:
                _leave(tensor, file.arrays[tensor.name])
        return cls.of(file.model, file.folder, file.name)

    @classmethod
    def of(cls, proto: ModelProto, folder: Path | None, name: str) -> Model:
        """Return the index of a parsed model."""
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
        """Return the numbers of the nodes that make ``outputs`` from ``given``, in order."""
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
        """Return the piece of the model that makes ``outputs`` from the model's inputs and ``given`` values.

        ``given`` values replace what makes them; of them only the types matter. ``nodes`` replaces all
        nodes of the piece by others of the caller's.
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
            # The runtime infers the type; a graph input or weight that is an output is one too.
            graph.output.append(ValueInfoProto(name=name))
        return piece

    def fed(self, outputs: Sequence[str], given: Iterable[str] = ()) -> set[str]:
        """Return the inputs of the model that a piece reads."""
        chosen = [self.nodes[i] for i in self.needed(outputs, given)]
        reads = {name for node in chosen for name in read_by(node)} | set(outputs)
        return {name for name in self.inputs if name in reads}

    def weight(self, name: str) -> np.ndarray | None:
        """Return a dense weight, from the file beside the model if it lies there; None when it is none."""
        stored = self.weights.get(name)
        return tensor_array(stored, self.folder) if isinstance(stored, TensorProto) else None


def _leave(tensor: TensorProto, array: np.ndarray) -> None:
    """Let a weight that lies inside a mapped model file be external data of that same file."""
    file, offset = file_of(array), offset_of(array)
    if file is None or offset is None:
        raise ModelError(f"tensor {tensor.name!r} has no place in a file")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file.path.name), ("offset", offset), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))


def _sorted(nodes: list[NodeProto], name: str) -> list[NodeProto]:
    """Return nodes with operands first, in the order of the file as far as that goes."""
    made = {o for node in nodes for o in node.output if o}
    reads = [[n for n in read_by(node) if n in made] for node in nodes]
    if _ordered(nodes, reads):
        return nodes
    maker = {o: i for i, node in enumerate(nodes) for o in node.output if o}
    state = [0] * len(nodes)
    order: list[NodeProto] = []
    for root in range(len(nodes)):
        pending = [(root, False)]
        while pending:
            i, left = pending.pop()
            if left:
                state[i] = 2
                order.append(nodes[i])
            elif state[i] == 0:
                state[i] = 1
                pending.append((i, True))
                for operand in reversed(reads[i]):
                    j = maker[operand]
                    if state[j] == 1:
                        raise ModelError(f"{name}: the graph has a cycle through {operand!r}")
                    if state[j] == 0:
                        pending.append((j, False))
    return order


def _ordered(nodes: Sequence[NodeProto], reads: Sequence[Sequence[str]]) -> bool:
    done: set[str] = set()
    for node, names in zip(nodes, reads, strict=True):
        if not done.issuperset(names):
            return False
        done.update(node.output)
    return True


def type_of(value: Value) -> TypeProto:
    """Return the ONNX type of a value that is fed; of a tensor the element type, not the shape."""
    if isinstance(value, TypeProto):
        return value
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(type_of(value[0]))
    kind = TypeProto()
    kind.tensor_type.elem_type = DTYPE_CODES[TensorType.of(np.asarray(value)).dtype]
    return kind
