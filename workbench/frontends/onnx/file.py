"""Reading and writing of ONNX files, with a check of all contents before they are used.

External data must lie in the model's own folder. Large weights are mapped from the file and written one after
the other, without a copy in a message. Files are written under a temporary name and renamed, so that writing is
atomic.

A file is a protobuf message, a sequence of fields with a number, a kind and a content. Only the fields of the
model, its graph and large initializers are read here; all others are parsed by protobuf. A file of another
form than expected is parsed by protobuf as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Final, TypeAlias, TypeVar

import numpy as np
import onnx
import onnx.checker
import onnx.external_data_helper
import onnx.shape_inference
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, TypeProto

from workbench.frontends.model import ModelError, check_elements
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, TensorType, TypeMismatch
from workbench.support.files import atomic_file, check_writable, is_device
from workbench.support.mmap import FileMap, checked, file_of, place_of, release

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
    file, arrays = FileMap.open(path), dict[str, np.ndarray]()
    try:
        pieces, taken = _without_data(file)
        if not taken:
            return None
        model = ModelProto.FromString(b"".join(pieces))
    except (_Unexpected, DecodeError):
        return None
    for position, (begin, end) in taken.items():
        tensor = model.graph.initializer[position]
        array = _array(file, tensor, begin, end) if isinstance(tensor.name, str) else None
        if array is None or tensor.name in arrays:
            tensor.raw_data = file[begin:end]  # the reader of tensors reports the fault
        else:
            arrays[tensor.name] = array
    return Apart(model, arrays)


def _fits(kind: TensorType, length: int) -> bool:
    """Return whether data of this length are those of a large tensor and can be mapped on this machine."""
    whole = kind.dtype != "string" and kind.nbytes == length
    return whole and length >= max(MAPPED_TENSOR, kind.elements) and sys.byteorder == "little"


def _array(file: FileMap, tensor: TensorProto, begin: int, end: int) -> np.ndarray | None:
    with contextlib.suppress(ModelError):  # the reader of tensors reports the fault
        kind = tensor_type(tensor)
        if tensor.data_location != TensorProto.EXTERNAL and _fits(kind, end - begin):
            return file.array(begin, kind.shape, kind.numpy_dtype())
    return None


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
            tensor = (inner, how) == (_INITIALIZER, _BYTES)
            data = _raw_data(file, body, last) if tensor and last - body >= MAPPED_TENSOR else None
            if data is None:
                inside.append(file[first:last])
            else:
                field_start, begin, stop = data
                rest = file[body:field_start] + file[stop:last]
                inside.append(tag(_INITIALIZER) + varint(len(rest)) + rest)
                taken[seen] = (begin, stop)
            seen += tensor
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


#: A protobuf message cannot exceed 2 GiB; larger weights are written to a separate file.
EXTERNAL_BEYOND: Final = int(1.8 * 2**30)

#: A stored tensor may declare at most this many elements; its data must be present.
MAX_STORED_ELEMENTS: Final = 1 << 32

#: Most elements of a tensor whose elements are among the numbers of a model.
SMALL: Final = 16

M = TypeVar("M", bound=Message)

Source: TypeAlias = str | os.PathLike[str] | bytes | ModelProto | Apart


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model that its reader may modify, and the folder of its external data.

    ``arrays`` are stored tensors by name: large initializers that stay in the file and have no data in the model,
    or all stored tensors (:func:`read_tensors`), with the ``small`` ones inside attributes.
    """

    model: ModelProto
    folder: Path | None
    name: str
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    small: tuple[np.ndarray, ...] = ()


def read_model(source: Source) -> ModelFile:
    """Parse a model from a path or from bytes, or copy a ``ModelProto``.

    External tensors stay in their files and nothing is evaluated. Raise FileNotFoundError (or another
    OSError) if the file cannot be read, and :class:`ModelError` if it is not an ONNX model.
    """
    if isinstance(source, ModelProto):
        own = taken_apart(source)
        return ModelFile(own.model, None, "the model", own.arrays)
    if isinstance(source, Apart):
        return ModelFile(copied(source.model), None, source.model.graph.name, source.arrays)
    if isinstance(source, bytes):
        return ModelFile(_parse(source, "the bytes given"), None, "the bytes given")
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise TypeError(f"a model must be a graph, a path, bytes or a ModelProto, got {kind}")
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"no such model file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder (try the model file in it)")
    if not path.is_file():
        raise ModelError(f"{path} is not a regular file")
    apart = read_apart(path)
    if apart is None or not _is_model(apart.model):
        apart = Apart(_parse(path.read_bytes(), str(path)), {})
    return ModelFile(apart.model, path.parent, str(path), apart.arrays)


@contextlib.contextmanager
def names_as_text() -> Iterator[None]:
    """Raise :class:`ModelError` if a name that this block reads is not text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ModelError(f"the model contains a name that is not text ({error})") from None


def as_given(source: Source) -> ModelProto | Apart | str | os.PathLike[str]:
    """Return a model for later, as it was given: its path, or a message that nobody else modifies."""
    if isinstance(source, bytes):
        return _parse(source, "the bytes given")
    return copied(source) if isinstance(source, ModelProto) else source


def copied(message: M) -> M:
    """Return a copy of a model or of a part of one, for functions that may modify it."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


#: Endings of other formats' files, and the program that writes them.
_FORMATS: Final = {
    ".h5": "TensorFlow", ".keras": "TensorFlow", ".pb": "TensorFlow", ".tflite": "TensorFlow",
    ".bin": "torch", ".pt": "torch", ".pt2": "torch", ".pth": "torch", ".safetensors": "torch",
}  # fmt: skip


def _parse(data: bytes, name: str) -> ModelProto:
    # Where to read how a model of another format becomes one of ONNX.
    program = _FORMATS.get(Path(name).suffix.lower())
    guide = f" (a file of {program}? docs/how-to/torch-tensorflow.md converts it)" if program else ""
    try:
        model = ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"{name}: not an ONNX model, or a truncated one ({error}){guide}") from None
    if not _is_model(model):
        raise ModelError(f"{name}: not an ONNX model: {len(data)} bytes that contain no graph{guide}")
    return model


def _is_model(model: ModelProto) -> bool:
    return model.HasField("graph") and bool(model.graph.node or model.graph.output)


def type_proto(kind: TensorType) -> TypeProto:
    """Return a type in ONNX's form."""
    return onnx.helper.make_tensor_type_proto(DTYPE_CODES[kind.dtype], kind.shape)


def tensor_type(tensor: TensorProto) -> TensorType:
    """Return the declared type of a stored tensor; raise :class:`ModelError` if it is not valid."""
    what = f"tensor {tensor.name!r}"
    if tensor.data_type not in DTYPE_NAMES:
        raise ModelError(f"{what} has element type {tensor.data_type}, which is unknown")
    try:
        kind = TensorType(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
    except TypeMismatch as error:
        raise ModelError(f"{what}: {error}") from None
    if kind.elements > MAX_STORED_ELEMENTS:
        raise ModelError(
            f"{what} must have at most {MAX_STORED_ELEMENTS:.3g} elements, got {kind.elements:.3g}"
        )
    return kind


def tensor_array(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """Return the data of a stored tensor, from the model or from its external file.

    Raise :class:`ModelError` if the data do not fit the declared type or lie outside ``folder``, and
    FileNotFoundError if the external file is missing.
    """
    kind = tensor_type(tensor)
    what = f"tensor {tensor.name!r}, declared {kind},"
    if tensor.data_location == TensorProto.EXTERNAL:
        stored = copied(tensor)  # a copy, so that loaded data are freed with it
        _check_location(stored, folder)
        mapped = _mapped(stored, kind, folder)
        if mapped is not None:
            return mapped
        try:
            onnx.external_data_helper.load_external_data_for_tensor(stored, str(folder))
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ModelError(f"{what} cannot be read from its file: {error}") from None
        tensor = stored
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        held = f" ({len(tensor.raw_data)} bytes)" if tensor.HasField("raw_data") else ""
        raise ModelError(f"{what} contains other data{held}: {error}") from None
    if TensorType.of(array) != kind:
        raise ModelError(f"{what} contains {TensorType.of(array)}")
    return array


def _mapped(tensor: TensorProto, kind: TensorType, folder: Path | None) -> np.ndarray | None:
    """Return large external data as an array mapped from its file, or ``None`` if the data must be read."""
    entries = {e.key: e.value for e in tensor.external_data}
    place = Path(folder or "") / entries["location"]
    if not _fits(kind, int(entries.get("length", kind.nbytes))) or place.stat().st_size < MAP_BEYOND:
        return None
    with contextlib.suppress(ValueError):
        return FileMap.open(place).array(int(entries.get("offset", "0")), kind.shape, kind.numpy_dtype())
    return None


def dense_array(sparse: SparseTensorProto, folder: Path | None) -> np.ndarray:
    """Return the data of a sparse tensor as a dense array; raise :class:`ModelError` if it is malformed."""
    values, indices = tensor_array(sparse.values, folder), tensor_array(sparse.indices, folder)
    what = f"the sparse tensor {sparse.values.name!r}"
    kind = TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims)
    shape = tensor_type(kind).shape
    check_elements(math.prod(shape), what)
    dense = np.zeros(shape, values.dtype)
    try:
        at = tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, shape)
        if indices.size and indices.min() < 0:
            raise ValueError("an index is negative")
        dense[at] = values
    except (ValueError, IndexError, TypeError) as error:
        raise ModelError(f"{what} of shape {shape} is malformed: {error}") from None
    return dense


def _check_location(tensor: TensorProto, folder: Path | None) -> None:
    """Raise if external data is missing or lies outside the model's folder, after resolving links."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    what = f"tensor {tensor.name!r} is stored in {location!r}"
    if folder is None:
        raise ModelError(f"{what}, next to a model file (try the path of the model instead of its content)")
    for key in ("offset", "length"):
        if not entries.get(key, "0").isdecimal():
            raise ModelError(f"{what}: {key} {entries[key]!r} is not a size")
    pure = (PurePosixPath(location), PureWindowsPath(location))
    if not location or any(p.is_absolute() or p.drive or ".." in p.parts for p in pure):
        raise ModelError(f"{what}: external data must lie in the model's folder")
    target = folder / location
    if not target.exists():
        raise FileNotFoundError(f"{what}, and {target} does not exist (try copying it next to the model)")
    if not target.resolve().is_relative_to(folder.resolve()) or not target.is_file():
        raise ModelError(f"{what}, outside the model's folder (try copying the file next to the model)")


def read_tensors(source: Source) -> ModelFile:
    """Read a model with all of its stored tensors; external data of those inside attributes are loaded.

    Raise :class:`ModelError` if two tensors have one name, or if one is malformed; also see :func:`read_model`.
    """
    file = read_model(source)
    graph = file.model.graph
    internalise_attributes(file)
    arrays: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.name in arrays:
            raise ModelError(f"two initializers are called {tensor.name!r}")
        mapped = file.arrays.get(tensor.name)
        arrays[tensor.name] = mapped if mapped is not None else tensor_array(tensor, file.folder)
    arrays |= {s.values.name: dense_array(s, file.folder) for s in graph.sparse_initializer}
    tensors = (a.t for a in _attributes(file.model) if a.type == a.TENSOR)
    small = tuple(tensor_array(t, None) for t in tensors if math.prod(t.dims) <= SMALL)
    return replace(file, arrays=arrays, small=small)


def _attributes(model: ModelProto) -> Iterator[AttributeProto]:
    """Yield the attributes of all nodes of a model, of its functions and of their subgraphs."""
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for attr in (attr for node in waiting.pop() for attr in node.attribute):
            yield attr
            waiting += [graph.node for graph in (attr.g, *attr.graphs)]


def internalise_attributes(file: ModelFile) -> None:
    """Load external data of tensors inside attributes of a model's nodes and inside their subgraphs, in place."""
    for attr in _attributes(file.model):
        inside = [t for graph in (attr.g, *attr.graphs) for t in graph.initializer]
        for tensor in [attr.t, *attr.tensors, *inside]:
            if tensor.data_location == TensorProto.EXTERNAL:
                array, name = tensor_array(tensor, file.folder), tensor.name
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))


def ir_version_for(opsets: Mapping[str, int], functions: bool = False) -> int:
    """Return the oldest IR version for these operator sets in which initializers need not be inputs."""
    entries = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
    needed = onnx.helper.find_min_ir_version_for(entries, ignore_unknown=True)
    # Local functions need version 8, their overloads version 10.
    return max(needed, 10 if functions else 4)


def weight_bytes(model: ModelProto) -> int:
    """Return the size in bytes of the raw data of a model's initializers, as their types declare it."""
    return sum(map(_declared_bytes, model.graph.initializer))


def _declared_bytes(tensor: TensorProto) -> int:
    """Return the declared size of a tensor's raw data, without a copy of them; 0 if there are none."""
    with contextlib.suppress(ModelError):
        return int(tensor_type(tensor).nbytes) if tensor.HasField("raw_data") else 0
    return 0


def taken_apart(model: ModelProto) -> Apart:
    """Return a copy of a model; if its weights are large, they are apart, and each is copied once."""
    if weight_bytes(model) < MAP_BEYOND:
        return Apart(copied(model), {})
    arrays: dict[str, np.ndarray] = {}
    bare, graph = _without(model, "graph"), _without(model.graph, "initializer")
    for tensor in model.graph.initializer:
        entry = graph.initializer.add()
        if _declared_bytes(tensor) >= APART_BYTES and tensor.name not in arrays:
            with contextlib.suppress(ModelError):  # the reader of tensors reports the fault
                arrays[tensor.name] = tensor_array(tensor, None)
                entry.CopyFrom(placeholder(tensor.name, tensor_type(tensor)))
                entry.doc_string = tensor.doc_string
                continue
        entry.CopyFrom(tensor)
    bare.graph.CopyFrom(graph)
    return Apart(bare, arrays)


def read_with_data(source: Source) -> Apart:
    """Read a model with its external data: large weights are apart, all other tensors are inside.

    Raise :class:`ModelError` if the source is not a model or lacks its data.
    """
    given = read_model(source)
    model, arrays = given.model, dict(given.arrays)
    internalise_attributes(given)
    for tensor in model.graph.initializer:
        if tensor.name not in arrays and tensor.data_location == TensorProto.EXTERNAL:
            array = tensor_array(tensor, given.folder)
            if array.nbytes < MAPPED_TENSOR:
                # Shapes and tables, which a runtime reads when it rewrites a model.
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            else:
                arrays[tensor.name] = array
        if tensor.name in arrays:
            said = tensor.doc_string
            tensor.CopyFrom(placeholder(tensor.name, TensorType.of(arrays[tensor.name])))
            tensor.doc_string = said
    return Apart(model, arrays)


def apart_of(source: Apart | ModelProto | str | os.PathLike[str]) -> Apart | None:
    """Return a copy of a model with its large weights apart, or ``None`` for a file to be loaded unchanged."""
    if isinstance(source, Apart):
        return Apart(copied(source.model), source.arrays)
    if isinstance(source, ModelProto):
        return taken_apart(source)
    try:
        apart = read_with_data(source)
    except ModelError:
        return None  # the runtime reports the fault, or accepts the file nevertheless
    mapped = any(file_of(array) is not None for array in apart.arrays.values())
    return apart if mapped else None  # all weights are small


#: Tensors of at least this many bytes are stored apart from their model.
APART_BYTES: Final = 1 << 16

#: The location of a tensor that is passed in memory.
IN_MEMORY: Final = "in-memory"

#: A file with a size but no content, in whose place the runtime is given memory.
_NOTHING: Final = "nothing.bin"

#: Bytes that the system copies at once, so that Ctrl-C is soon seen.
_COPIED: Final = 1 << 28

#: Data in a separate file start at multiples of this, as runtimes that map the file require.
_PAGE: Final = 4096


def may_be_apart(array: np.ndarray) -> bool:
    """Return whether a tensor is large enough to be stored apart and has a suitable element type."""
    kind = TensorType.of(array)
    return kind.dtype != "string" and kind.nbytes >= max(APART_BYTES, kind.elements)


def placeholder(name: str, kind: TensorType, place: tuple[str, int] = (IN_MEMORY, 0)) -> TensorProto:
    """Return a stored tensor whose data are at a ``place``: a file in the model's folder, and their first byte."""
    location, offset = place
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


def place_weights(
    apart: Apart, scratch: Path, *, read: bool
) -> tuple[Path, dict[str, np.ndarray], list[str]]:
    """Write into a model in which files its weights are; ``scratch`` is an empty folder.

    If ``read``, data are read from the place in the model. Otherwise it only has to exist: it is a file in ``scratch``
    that occupies no space, or a file that is mapped anyway. Return the folder of the files, the arrays by name, and
    the names of those to be handed over.
    """
    wanted = [t for t in apart.model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    held = {t.name: checked(apart.arrays[t.name]) for t in wanted if t.name in apart.arrays}
    found = {name: place for name, array in held.items() if (place := place_of(array)) is not None}
    folder = next((file.path.parent for file, _ in found.values()), scratch)
    # All sessions share one mapping, which counts once.
    mapped = {name: place for name, place in found.items() if place[0].path.parent == folder}
    home = max((file for file, _ in mapped.values()), key=len, default=None)
    if held and home is None:
        with (scratch / _NOTHING).open("wb") as file_of_nothing:
            file_of_nothing.truncate(max(array.nbytes for array in held.values()))
    held |= {n: np.require(a, requirements=["C", "A"]) for n, a in held.items() if n not in mapped}
    elsewhere: list[str] = []
    for tensor in (t for t in wanted if t.name in held):
        name, array = tensor.name, held[tensor.name]
        if name in mapped or (not read and (home is None or array.nbytes <= len(home))):
            file, offset = mapped.get(name, (home, 0))
            location = _NOTHING if file is None else file.path.name
            at = {"location": location, "offset": str(offset)}  # a tensor apart has both entries
            for entry in tensor.external_data:
                entry.value = at.get(entry.key, entry.value)
        else:
            elsewhere.append(name)
    return folder, held, elsewhere


def write_apart(apart: Apart, path: str | os.PathLike[str]) -> None:
    """Write a model to a file atomically.

    If the weights exceed :data:`EXTERNAL_BEYOND`, the large ones are written to ``<name>.data`` next to it.
    Raise OSError if the files cannot be written.
    """
    target = check_writable(path)
    large = sum(array.nbytes for array in apart.arrays.values())
    whole = large + weight_bytes(apart.model) <= EXTERNAL_BEYOND
    if whole or is_device(target):  # nothing can be next to a device
        with atomic_file(target) as file:
            _write_whole(apart, file)
        return
    data = target.with_name(target.name + ".data")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        scratch = Path(folder)
        with (scratch / data.name).open("wb") as file:
            places = _write_data(apart.arrays, file)
        model = copied(apart.model)
        for tensor in model.graph.initializer:
            if tensor.name in places:
                kind = TensorType.of(apart.arrays[tensor.name])
                tensor.CopyFrom(placeholder(tensor.name, kind, (data.name, places[tensor.name])))
        (scratch / target.name).write_bytes(model.SerializeToString())
        (scratch / data.name).replace(data)
        (scratch / target.name).replace(target)


def _write_data(arrays: Mapping[str, np.ndarray], file: IO[bytes]) -> dict[str, int]:
    places: dict[str, int] = {}
    at = 0
    for name, array in arrays.items():
        file.write(bytes(-at % _PAGE))
        places[name] = at = at + -at % _PAGE
        if not _copied_within(array, file, at):
            file.write(_bytes(checked(array)).data)
            release(array)
        at += array.nbytes
    return places


def _copied_within(array: np.ndarray, file: IO[bytes], at: int) -> bool:
    """Let the system copy an array that is mapped from a file to a place of another; return whether it can.

    The data are not read into this process, and holes of a sparse file stay holes.
    """
    place = place_of(checked(array))
    if place is None or not hasattr(os, "copy_file_range"):
        return False
    file.flush()
    end = place[1] + array.nbytes
    try:
        with place[0].path.open("rb") as given:
            to, shift, begin = file.fileno(), at - place[1], place[1]
            while (begin := _next_data(given.fileno(), begin, end)) < end:
                stop = min(os.lseek(given.fileno(), begin, os.SEEK_HOLE), end, begin + _COPIED)
                done = os.copy_file_range(given.fileno(), to, stop - begin, begin, begin + shift)
                if not done:
                    return False
                begin += done
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        return False
    file.truncate(at + array.nbytes)
    file.seek(0, os.SEEK_END)
    return True


def _next_data(file: int, begin: int, end: int) -> int:
    """Return the first byte of an open file from ``begin`` on that is in no hole, or ``end``."""
    try:
        return os.lseek(file, begin, os.SEEK_DATA) if begin < end else end
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return end


def _write_whole(apart: Apart, file: IO[bytes]) -> None:
    """Write the message; a message field may come in several parts, which a reader merges."""
    graph = apart.model.graph
    file.write(_without(apart.model, "graph").SerializeToString())
    head = _without(graph, "initializer").SerializeToString()
    pieces: list[tuple[bytes, np.ndarray | None]] = []
    for tensor in graph.initializer:
        array = apart.arrays.get(tensor.name)
        size = 0 if array is None else array.nbytes
        rest = (tensor if array is None else _bare(tensor)).SerializeToString()
        rest += b"" if array is None else tag(_RAW_DATA) + varint(size)
        pieces.append((tag(_INITIALIZER) + varint(len(rest) + size) + rest, array))
    total = len(head) + sum(len(piece) + (0 if array is None else array.nbytes) for piece, array in pieces)
    file.write(tag(_GRAPH) + varint(total) + head)
    for piece, array in pieces:
        file.write(piece)
        if array is not None:
            file.write(_bytes(checked(array)).data)
            release(array)


def _without(message: M, left_out: str) -> M:
    """Return a copy of a message without one of its fields."""
    bare = type(message)()
    for descriptor, value in message.ListFields():
        if descriptor.name == left_out:
            continue
        if hasattr(value, "extend"):  # a field of several values
            getattr(bare, descriptor.name).extend(value)
        elif descriptor.message_type is not None:
            getattr(bare, descriptor.name).CopyFrom(value)
        else:
            setattr(bare, descriptor.name, value)
    return bare


def _bare(tensor: TensorProto) -> TensorProto:
    """Return a placeholder as a tensor inside the model, without its data so far."""
    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, doc_string=tensor.doc_string)
    bare.dims.extend(tensor.dims)
    return bare


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the elements of an array in order, as bytes; an array that is not contiguous is copied."""
    return array.reshape(-1).view(np.uint8)
