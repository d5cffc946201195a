"""Writing of models whose large weights are stored apart, one array after the other.

No array is copied into a message. A small model is one file: the message, with its large tensors appended. A
large model has a separate data file next to it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import numpy as np
from onnx import ModelProto, TensorProto

from workbench.frontends.onnx import file as onnx_file
from workbench.frontends.onnx.mmap_weights import Apart, tag, varint
from workbench.ops.types import DTYPE_CODES, TensorType
from workbench.support.files import atomic_file, check_writable, is_device
from workbench.support.mmap import checked, release

#: Tensors of at least this many bytes are stored apart from their model.
APART_BYTES: Final = 1 << 16

#: The location of a tensor that is passed in memory.
IN_MEMORY: Final = "in-memory"

#: Data in a separate file start at multiples of this, as runtimes that map the file require.
_PAGE: Final = 4096

#: Numbers of fields: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9


def may_be_apart(array: np.ndarray) -> bool:
    """Return whether a tensor is large enough to be stored apart and has a suitable element type."""
    kind = TensorType.of(array)
    return kind.dtype != "string" and kind.nbytes >= max(APART_BYTES, kind.elements)


def placeholder(name: str, kind: TensorType, location: str = IN_MEMORY, offset: int = 0) -> TensorProto:
    """Return a stored tensor whose data are elsewhere.

    Args:
        name: The name of the tensor.
        kind: Its type.
        location: The file of the data, relative to the model's folder.
        offset: The first byte of the data in that file.
    """
    tensor = TensorProto(name=name, data_type=DTYPE_CODES[kind.dtype], data_location=TensorProto.EXTERNAL)
    tensor.dims.extend(kind.shape)
    for key, value in (("location", location), ("offset", offset), ("length", int(kind.nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def joined(apart: Apart) -> ModelProto:
    """Return the model with all its data inside; this modifies and returns the same object."""
    for tensor in apart.model.graph.initializer:
        if tensor.name in apart.arrays:
            array = checked(apart.arrays[tensor.name])
            tensor.CopyFrom(_bare(tensor))
            tensor.raw_data = _bytes(array).tobytes()
            release(array)
    return apart.model


def write_apart(apart: Apart, path: str | os.PathLike[str]) -> None:
    """Write a model to a file atomically.

    If the weights exceed :data:`~workbench.frontends.onnx.file.EXTERNAL_BEYOND`, the large ones are written
    to ``<name>.data`` next to it. Raise OSError if the files cannot be written.
    """
    target = check_writable(path)
    large = sum(array.nbytes for array in apart.arrays.values())
    whole = large + onnx_file.weight_bytes(apart.model) <= onnx_file.EXTERNAL_BEYOND
    if whole or is_device(target):  # nothing can be next to a device
        with atomic_file(target) as file:
            _write_whole(apart, file)
        return
    data = target.with_name(target.name + ".data")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        scratch = Path(folder)
        with (scratch / data.name).open("wb") as file:
            places = _write_data(apart.arrays, file)
        model = ModelProto()
        model.CopyFrom(apart.model)
        for tensor in model.graph.initializer:
            if tensor.name in places:
                kind = TensorType.of(apart.arrays[tensor.name])
                tensor.CopyFrom(placeholder(tensor.name, kind, data.name, places[tensor.name]))
        (scratch / target.name).write_bytes(model.SerializeToString())
        (scratch / data.name).replace(data)
        (scratch / target.name).replace(target)


def _write_data(arrays: Mapping[str, np.ndarray], file: IO[bytes]) -> dict[str, int]:
    places: dict[str, int] = {}
    at = 0
    for name, array in arrays.items():
        file.write(bytes(-at % _PAGE))
        places[name] = at = at + -at % _PAGE
        at += file.write(_bytes(checked(array)).data)
        release(array)
    return places


def _write_whole(apart: Apart, file: IO[bytes]) -> None:
    """Write the message; a message field may come in several parts, which a reader merges."""
    outer, graph = ModelProto(), apart.model.graph
    outer.CopyFrom(_without_graph(apart.model))
    file.write(outer.SerializeToString())
    tensors = list(graph.initializer)
    inner = type(graph)()
    inner.CopyFrom(graph)
    del inner.initializer[:]
    head = inner.SerializeToString()
    pieces: list[tuple[bytes, np.ndarray | None]] = []
    for tensor in tensors:
        array = apart.arrays.get(tensor.name)
        rest = _bare(tensor).SerializeToString() if array is not None else tensor.SerializeToString()
        if array is not None:
            rest += tag(_RAW_DATA) + varint(array.nbytes)
        length = len(rest) + (0 if array is None else array.nbytes)
        pieces.append((tag(_INITIALIZER) + varint(length) + rest, array))
    total = len(head) + sum(len(p) + (0 if a is None else a.nbytes) for p, a in pieces)
    file.write(tag(_GRAPH) + varint(total) + head)
    for piece, array in pieces:
        file.write(piece)
        if array is not None:
            file.write(_bytes(checked(array)).data)
            release(array)


def _without_graph(model: ModelProto) -> ModelProto:
    bare = ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        if field.message_type is not None:
            getattr(bare, field.name).extend(value)
        else:
            setattr(bare, field.name, value)
    return bare


def _bare(tensor: TensorProto) -> TensorProto:
    """Return a placeholder as a tensor inside the model, without its data so far."""
    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, doc_string=tensor.doc_string)
    bare.dims.extend(tensor.dims)
    return bare


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the elements of an array in order, as bytes; an array that is not contiguous is copied."""
    return array.reshape(-1).view(np.uint8)
