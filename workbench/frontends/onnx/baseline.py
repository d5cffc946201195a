"""The cleaned form of a given model: the reference for optimised models, kept if none of them is faster.

A caller may override initialisers that are listed among the inputs, so a runtime must neither fold nor
pack them. Cleaning takes them out of the inputs. It changes nothing else: the operators, the operator sets,
names, metadata and tensors are those of the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx import ModelProto, TensorProto, numpy_helper

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import (
    MAPPED_TENSOR,
    Apart,
    Source,
    copied,
    internalise_attributes,
    placeholder,
    read_model,
    taken_apart,
    tensor_array,
    weight_bytes,
    write_apart,
)
from workbench.ops.types import TensorType
from workbench.support.mmap import file_of

if TYPE_CHECKING:
    import numpy as np
    from onnx import ValueInfoProto

    from workbench.frontends.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """A model without initialisers among its inputs, and the names of the inputs that were removed.

    Large weights are stored apart from the model, mapped from their file.
    """

    apart: Apart = field(repr=False)
    removed: tuple[str, ...] = ()

    @property
    def weights(self) -> int:
        """Return the size of the weights in bytes."""
        large = sum(array.nbytes for array in self.apart.arrays.values())
        return large + weight_bytes(self.apart.model)

    def given(self) -> Apart:
        """Return the model as it was given, with the removed initialisers among its inputs."""
        from onnx import helper

        model = copied(self.apart.model)
        shapes = {t.name: (t.data_type, list(t.dims)) for t in model.graph.initializer}
        for name in self.removed:
            model.graph.input.append(helper.make_tensor_value_info(name, *shapes[name]))
        return Apart(model, self.apart.arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file atomically; raise OSError if it cannot be written."""
        write_apart(self.apart, path)


def cleaned_model(model: Model, *, fixed: bool = True) -> Cleaned:
    """Return a model as it was given, with its initialisers taken out of the inputs.

    Dimensions that were fixed on purpose are fixed in it, unless ``fixed`` is false.
    """
    return clean(model.source, dims=model.dims if fixed else None, keep_inputs=model.keep_inputs)


def clean(source: Source, *, dims: Mapping[str, Any] | None = None, keep_inputs: bool = False) -> Cleaned:
    """Return a model with its initialisers removed from the inputs, unless ``keep_inputs`` is true.

    ``dims`` fixes symbolic dimensions; dimensions that it does not name stay as they are. Raise
    :class:`~workbench.frontends.model.ModelError` if the source is not a model.
    """
    apart = read_with_data(source)
    model, graph = apart.model, apart.model.graph
    # Before version 4 of the format every initialiser had to be an input too, and none could be overridden.
    stored = {t.name for t in graph.initializer}
    overridable = model.ir_version >= 4 and not keep_inputs
    removed = tuple(v.name for v in graph.input if v.name in stored) if overridable else ()
    if removed:
        inputs = [v for v in graph.input if v.name not in stored]
        del graph.input[:]
        graph.input.extend(inputs)
    if dims:
        for value in (*graph.input, *graph.value_info, *graph.output):
            _fix(value, dims)
    return Cleaned(apart, removed)


def read_with_data(source: Source) -> Apart:
    """Read a model with its external data: large weights are apart, all other tensors are inside.

    Raise :class:`~workbench.frontends.model.ModelError` if the source is not a model or lacks its data.
    """
    file = read_model(source)
    model, arrays = file.model, dict(file.arrays)
    internalise_attributes(file)
    for tensor in model.graph.initializer:
        if tensor.name not in arrays and tensor.data_location == TensorProto.EXTERNAL:
            array = tensor_array(tensor, file.folder)
            if array.nbytes < MAPPED_TENSOR:
                # Shapes and tables, which a runtime reads when it rewrites a model.
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            else:
                arrays[tensor.name] = array
        if tensor.name in arrays:
            _set_apart(tensor, arrays[tensor.name])
    return Apart(model, arrays)


def apart_of(source: Apart | ModelProto | str | os.PathLike[str]) -> Apart | None:
    """Return a copy of a model with its large weights apart, or ``None`` for a file to be loaded unchanged."""
    if isinstance(source, str | os.PathLike):
        try:
            apart = read_with_data(source)
        except ModelError:
            return None  # the runtime reports the fault, or accepts the file nevertheless
        mapped = any(file_of(array) is not None for array in apart.arrays.values())
        return apart if mapped else None  # all weights are small
    return Apart(copied(source.model), source.arrays) if isinstance(source, Apart) else taken_apart(source)


def _set_apart(tensor: Any, array: np.ndarray) -> None:
    said = tensor.doc_string
    tensor.CopyFrom(placeholder(tensor.name, TensorType.of(array)))
    tensor.doc_string = said


def _fix(value: ValueInfoProto, dims: Mapping[str, Any]) -> None:
    """Set the dimensions of a value from ``dims``; an entry under the value's name is its whole shape."""
    if not value.type.HasField("tensor_type"):
        return
    tensor = value.type.tensor_type
    shape = dims.get(value.name)
    if isinstance(shape, Sequence):
        del tensor.shape.dim[:]
        for extent in shape:
            tensor.shape.dim.add().dim_value = int(extent)
    for axis, dim in enumerate(tensor.shape.dim):
        extent = dims.get(f"{value.name}[{axis}]", dims.get(dim.dim_param) if dim.dim_param else None)
        if isinstance(extent, int) and not dim.HasField("dim_value"):
            dim.dim_value = extent
