"""Reading of an ONNX file without its large weights, which are mapped from the file.

A file is a protobuf message, a sequence of fields with a number, a kind and a content. Only the fields of the
model, its graph and large initializers are read here; all others are parsed by protobuf. A file of another
form than expected is parsed by protobuf as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from workbench.ops.types import DTYPE_NAMES, TensorType, TypeMismatch
from workbench.support.mmap import FileMap

#: Files smaller than this are read as a whole.
MAP_BEYOND: Final = 1 << 26

#: Tensors smaller than this are parsed with the model.
MAPPED_TENSOR: Final = 1 << 20

#: Numbers of fields: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Apart:
    """A model without the data of its large weights, and these data by name.

    The model lists all initializers; the large ones have no data.
    """

    model: ModelProto
    arrays: Mapping[str, np.ndarray]


class _Unexpected(ValueError):
    """Raised when a file has another form than expected and must be parsed by protobuf."""


def read_apart(path: Path) -> Apart | None:
    """Read an ONNX file with its large initializers mapped; return ``None`` if it must be parsed as a whole.

    This is the case for a small file, a file without large initializers and a file that is not an ONNX model.
    Raise OSError if the file cannot be read.
    """
    if sys.byteorder != "little" or path.stat().st_size < MAP_BEYOND:
        return None
    file = FileMap.open(path)
    try:
        pieces, taken = _without_data(file)
        if not taken:
            return None
        model = ModelProto()
        model.ParseFromString(b"".join(pieces))
    except (_Unexpected, DecodeError):
        return None
    arrays: dict[str, np.ndarray] = {}
    for position, (begin, end) in taken.items():
        tensor = model.graph.initializer[position]
        array = _array(file, tensor, begin, end) if isinstance(tensor.name, str) else None
        if array is None or tensor.name in arrays:
            tensor.raw_data = file[begin:end]  # the reader of tensors reports the fault
        else:
            arrays[tensor.name] = array
    return Apart(model, arrays)


def mapped_array(path: Path, kind: TensorType, offset: int, length: int | None) -> np.ndarray | None:
    """Return external data as a mapped array, or ``None`` if they are small or do not fit their type.

    Args:
        path: The file of the data.
        kind: Their declared type.
        offset: Their first byte in the file.
        length: Their number of bytes; None for as many as the type has.
    """
    if not _fits(kind, int(kind.nbytes) if length is None else length) or sys.byteorder != "little":
        return None
    if path.stat().st_size < MAP_BEYOND:
        return None
    try:
        return FileMap.open(path).array(offset, kind.shape, kind.numpy_dtype())
    except ValueError:
        return None


def _fits(kind: TensorType, length: int) -> bool:
    return (
        kind.dtype != "string"
        and length >= MAPPED_TENSOR
        and kind.nbytes == length == kind.elements * kind.numpy_dtype().itemsize
    )


def _array(file: FileMap, tensor: TensorProto, begin: int, end: int) -> np.ndarray | None:
    if tensor.data_type not in DTYPE_NAMES or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        kind = TensorType(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
    except TypeMismatch:
        return None
    return file.array(begin, kind.shape, kind.numpy_dtype()) if _fits(kind, end - begin) else None


def _without_data(file: FileMap) -> tuple[list[bytes], dict[int, tuple[int, int]]]:
    """Return the bytes of the model without large data, and the data's bounds by initializer number."""
    pieces: list[bytes] = []
    taken: dict[int, tuple[int, int]] = {}
    seen = 0
    for number, kind, start, content, end in _fields(file, 0, len(file)):
        if (number, kind) != (_GRAPH, _BYTES):
            pieces.append(file[start:end])
            continue
        inside: list[bytes] = []
        for inner, how, first, body, last in _fields(file, content, end):
            if (inner, how) != (_INITIALIZER, _BYTES):
                inside.append(file[first:last])
                continue
            data = _raw_data(file, body, last) if last - body >= MAPPED_TENSOR else None
            if data is None:
                inside.append(file[first:last])
            else:
                field_start, begin, stop = data
                rest = file[body:field_start] + file[stop:last]
                inside.append(tag(_INITIALIZER) + varint(len(rest)) + rest)
                taken[seen] = (begin, stop)
            seen += 1
        joined = b"".join(inside)
        pieces += [tag(_GRAPH), varint(len(joined)), joined]
    return pieces, taken


def _raw_data(file: FileMap, begin: int, end: int) -> tuple[int, int, int] | None:
    """Return the start of a tensor's raw-data field and its content's start and end; ``None`` if small."""
    found = [
        (start, content, stop)
        for number, kind, start, content, stop in _fields(file, begin, end)
        if (number, kind) == (_RAW_DATA, _BYTES)
    ]
    if len(found) > 1:
        raise _Unexpected
    return found[0] if found and found[0][2] - found[0][1] >= MAPPED_TENSOR else None


def _fields(file: FileMap, begin: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the number, kind, start, content start and end of every field of a message."""
    at = begin
    while at < end:
        start = at
        key, at = _varint(file, at, end)
        number, kind = key >> 3, key & 7
        if kind == _BYTES:
            length, at = _varint(file, at, end)
            content, at = at, at + length
        elif kind == _VARINT:
            content = at
            _, at = _varint(file, at, end)
        elif kind in (_EIGHT, _FOUR):
            content, at = at, at + (8 if kind == _EIGHT else 4)
        else:
            raise _Unexpected
        if at > end or not number:
            raise _Unexpected
        yield number, kind, start, content, at


def _varint(file: FileMap, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = file[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _Unexpected


def varint(value: int) -> bytes:
    """Return a number in protobuf's variable-length encoding.

    >>> varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def tag(number: int) -> bytes:
    """Return the tag of a bytes field with this number; the length follows it."""
    return varint(number << 3 | _BYTES)
