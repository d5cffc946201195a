"""Reading and writing of ONNX files, with a check of all contents before they are used.

External data must lie in the model's own folder. Files are written under a temporary name and renamed, so
that writing is atomic.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
import onnx.checker
import onnx.external_data_helper
import onnx.shape_inference
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from workbench.frontends.onnx.mmap_weights import mapped_array, read_apart
from workbench.ops.types import DTYPE_NAMES, TensorType, TypeMismatch
from workbench.support.files import check_writable, is_device, write_atomic

#: A protobuf message cannot exceed 2 GiB; larger weights are written to a separate file.
EXTERNAL_BEYOND: Final = int(1.8 * 2**30)

#: A stored tensor may declare at most this many elements; its data must be present.
MAX_STORED_ELEMENTS: Final = 1 << 32

#: A computed value, and all inputs together, may have at most this many elements (1 GiB of float32), unless
#: the environment allows more; this bounds the memory used.
MAX_VALUE_ELEMENTS: Final = 1 << 28
ELEMENTS_VARIABLE: Final = "WORKBENCH_MAX_ELEMENTS"

#: The domain of operators that are in no operator set, while the other operators are checked.
UNKNOWN_DOMAIN: Final = "workbench.unknown"

Source: TypeAlias = str | os.PathLike[str] | bytes | ModelProto


class ModelError(ValueError):
    """Raised when a model is not valid: the message names the node or tensor, the norm and a remedy."""


class DimensionError(ModelError):
    """Raised when a symbolic dimension is not bound, or a given name is not that of a dimension.

    ``on_command_line`` is the message for users of the command line, with ``--dim`` and ``--size``.
    """

    def __init__(self, message: str, on_command_line: str) -> None:
        super().__init__(message)
        self.on_command_line = on_command_line

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.on_command_line)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model that its reader may modify, and the folder of its external data.

    ``arrays`` are large initializers, by name, that stay in the file; they have no data in the model.
    """

    model: ModelProto
    folder: Path | None
    name: str
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def read_model(source: Source) -> ModelFile:
    """Parse a model from a path or from bytes, or copy a ``ModelProto``.

    External tensors stay in their files and nothing is evaluated. Raise FileNotFoundError (or another
    OSError) if the file cannot be read, and :class:`ModelError` if it is not an ONNX model.
    """
    if isinstance(source, ModelProto):
        model = ModelProto()
        model.CopyFrom(source)
        return ModelFile(model, None, "the model")
    if isinstance(source, bytes):
        return ModelFile(_parse(source, "the bytes given"), None, "the bytes given")
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a model must be a graph, a path, bytes or a ModelProto, got {type(source).__name__}"
        )
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no model file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder (try the model file in it)")
    if not path.is_file():
        raise ModelError(f"{path} is not a regular file")
    apart = read_apart(path)
    if apart is not None and _is_model(apart.model):
        return ModelFile(apart.model, path.parent, str(path), apart.arrays)
    return ModelFile(_parse(path.read_bytes(), str(path)), path.parent, str(path))


def _parse(data: bytes, name: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{name}: not an ONNX model, or a truncated one ({error})") from None
    if not _is_model(model):
        raise ModelError(f"{name}: not an ONNX model: {len(data)} bytes that contain no graph")
    return model


def _is_model(model: ModelProto) -> bool:
    return model.HasField("graph") and bool(model.graph.node or model.graph.output)


def label(node: NodeProto) -> str:
    """Return the description of a node in messages: operator, name if it has one, first output."""
    name = f" {node.name!r}" if node.name else ""
    made = next((o for o in node.output if o), "")
    return f"node {node.op_type}{name}" + (f" (makes {made!r})" if made else "")


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs among a node's attributes (branches of If, bodies of Loop and Scan)."""
    for attr in node.attribute:
        if attr.type == AttributeProto.GRAPH:
            yield attr.g
        elif attr.type == AttributeProto.GRAPHS:
            yield from attr.graphs


def _attribute_tensors(nodes: Any) -> Iterator[TensorProto]:
    for node in nodes:
        for attr in node.attribute:
            if attr.type == AttributeProto.TENSOR:
                yield attr.t
            elif attr.type == AttributeProto.TENSORS:
                yield from attr.tensors
        for graph in subgraphs(node):
            yield from graph.initializer
            yield from _attribute_tensors(graph.node)


def internalise_attributes(model: ModelProto, folder: Path | None) -> None:
    """Load external data of tensors inside attributes and subgraphs, in place."""
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        for tensor in _attribute_tensors(nodes):
            if tensor.data_location == TensorProto.EXTERNAL:
                array = tensor_array(tensor, folder)
                name = tensor.name
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))


#: Generic extents of symbolic dimensions are numbers only and have no limit.
_unlimited: ContextVar[bool] = ContextVar("unlimited", default=False)


@contextlib.contextmanager
def any_extent() -> Iterator[None]:
    """Accept values of any size in this context; no data may be created for them."""
    token = _unlimited.set(True)
    try:
        yield
    finally:
        _unlimited.reset(token)


def check_elements(elements: int, what: str) -> None:
    """Raise :class:`ModelError` if the number of elements of a value (``what``) exceeds the limit."""
    if _unlimited.get():
        return
    text = os.environ.get(ELEMENTS_VARIABLE, "")
    limit = int(text) if text.isdecimal() else MAX_VALUE_ELEMENTS
    if elements > limit:
        raise ModelError(
            f"{what} must have at most {limit:.3g} elements, got {elements:.3g} "
            f"(try {ELEMENTS_VARIABLE}={elements} in the environment)"
        )


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
        stored = TensorProto()  # a copy, so that loaded data are freed with it
        stored.CopyFrom(tensor)
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
    length = int(entries["length"]) if "length" in entries else None
    place = Path(folder or "") / entries["location"]
    return mapped_array(place, kind, int(entries.get("offset", "0")), length)


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


def ir_version_for(opsets: Mapping[str, int], functions: bool = False) -> int:
    """Return the oldest IR version for these operator sets in which initializers need not be inputs."""
    entries = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
    needed = onnx.helper.find_min_ir_version_for(entries, ignore_unknown=True)
    # Local functions need version 8, their overloads version 10.
    return max(needed, 10 if functions else 4)


def check_model(model: ModelProto, *, full: bool = True) -> None:
    """Check a model with ``onnx``, with inference of all types if ``full``; raise :class:`ModelError`.

    Large weights are left out of the checked copy, because only their types matter for the check.
    """
    bare = ModelProto()
    for name in ("ir_version", "producer_name"):
        setattr(bare, name, getattr(model, name))
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph = model.graph
    bare.graph.name = graph.name
    bare.graph.node.extend(graph.node)
    bare.graph.input.extend(graph.input)
    # The checker requires shapes of tensor outputs, runtimes do not.
    bare.graph.output.extend(
        v for v in graph.output if not v.type.HasField("tensor_type") or v.type.tensor_type.HasField("shape")
    )
    for tensor in graph.initializer:
        if len(tensor.raw_data) <= 4096 and tensor.data_location != TensorProto.EXTERNAL:
            bare.graph.initializer.append(tensor)
        else:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tuple(tensor.dims))
            bare.graph.input.append(value)
    set_aside_unknown(bare)
    try:
        onnx.checker.check_model(bare, full_check=full)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise ModelError(f"{graph.name!r} is not valid ONNX: {one_line(error)}") from None


def set_aside_unknown(model: ModelProto) -> list[NodeProto]:
    """Move operators that are missing from the default operator set into a separate domain, in place.

    ONNX Runtime supports some of them (``LayerNormalization`` before operator set 17); the checker does not.
    Return the nodes that were moved.
    """
    opset = next((o.version for o in model.opset_import if o.domain == ""), 0)
    moved = []
    for node in walk(model.graph.node):
        if node.domain == "":
            try:
                onnx.defs.get_schema(node.op_type, opset, "")
            except onnx.defs.SchemaError:
                node.domain = UNKNOWN_DOMAIN
                moved.append(node)
    if moved:
        model.opset_import.append(onnx.helper.make_opsetid(UNKNOWN_DOMAIN, 1))
    return moved


def walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes and the nodes of their subgraphs, at any depth."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from walk(graph.node)


def one_line(error: Exception) -> str:
    """Return an error's message as one line."""
    return " ".join(str(error).replace("==> Context:", ";").split())


def weight_bytes(model: ModelProto) -> int:
    """Return the size in bytes of the raw data of a model's initializers."""
    return sum(len(t.raw_data) for t in model.graph.initializer)


def write_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a model to a file atomically; the model may be modified.

    If the weights exceed :data:`EXTERNAL_BEYOND`, they are written to ``<name>.data`` next to it. Raise
    OSError if the files cannot be written.
    """
    target = check_writable(path)
    if weight_bytes(model) <= EXTERNAL_BEYOND or is_device(target):  # nothing can be next to a device
        write_atomic(target, model.SerializeToString())
        return
    data = target.with_name(target.name + ".data")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        scratch = Path(folder)
        onnx.save_model(
            model,
            scratch / target.name,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=data.name,
            size_threshold=1024,
        )
        (scratch / data.name).replace(data)
        (scratch / target.name).replace(target)
