"""ONNX Runtime sessions that read weights where they are instead of copying them.

A runtime that is given a serialised model holds its weights three times while it loads: in the bytes, in
the parsed message and in its own tensors. Here the message holds none of the large ones: those of a file
are mapped by the runtime itself, those in memory are handed over as they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import ModelProto, TensorProto

from workbench.frontends.onnx_file import ModelError, internalise_attributes, read_model, tensor_array
from workbench.frontends.onnx_stream import placeholder
from workbench.mapped import ChangedFile, FileMap, checked, file_of, offset_of, release_all
from workbench.ops.types import DTYPE_CODES, TensorType

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: A file that has a size and no content, in whose place the runtime is given memory.
_NOTHING: Final = "nothing.bin"

_FOLDER: Final = "session.model_external_initializers_file_folder_path"


def shared_session(
    source: ModelProto | str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray] | None = None,
    *,
    threads: int | None = None,
    optimise: bool = True,
    spin: bool = True,
    prepack: bool = False,
    arena: bool = True,
) -> InferenceSession:
    """Load a model into ONNX Runtime on the CPU without copies of its large weights.

    ``source`` is a saved file, or a model whose large initializers are placeholders (see
    :func:`~workbench.frontends.onnx_export.to_onnx_apart`) with their data in ``arrays`` by name; these
    may be changed by the call. Arrays that are mapped from a file
    (:mod:`workbench.mapped`) are mapped by the runtime too; others are shared, and copied for the moment
    of loading only. They must stay as they are while the session lives, and the session keeps them alive.

    ``prepack`` lets kernels keep weights in a layout of their own: faster runs, a second copy of what is
    multiplied; without it a session is for checking, not for timing. ``arena=False`` gives the memory of
    values back after a run. For the other options see :func:`workbench.frontends.runtime.session`. Raise
    :class:`~workbench.frontends.RuntimeFailure` where the runtime refuses the model.

    >>> shared_session("large.onnx", threads=1)  # doctest: +SKIP
    """
    import onnxruntime as ort

    from workbench.frontends.runtime import RuntimeFailure

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    if not spin:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    name = str(source) if not isinstance(source, ModelProto) else repr(source.graph.name)
    try:
        with tempfile.TemporaryDirectory(prefix="workbench-") as scratch:
            found = _source(source, arrays)
            if found is None:
                content: str | bytes = str(source)
                kept: list[Any] = []
            else:
                model, given = found
                kept = _hand_over(model, given, options, Path(scratch), read=optimise)
                content = model.SerializeToString()
            loaded = ort.InferenceSession(
                content, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
    except (OSError, ChangedFile):
        raise
    except Exception as error:
        raise RuntimeFailure(f"ONNX Runtime does not load {name}: {error}") from None
    loaded._workbench_keeps = kept  # what the session reads lives as long as it does
    return loaded


def _source(
    source: ModelProto | str | os.PathLike[str], arrays: Mapping[str, np.ndarray] | None
) -> tuple[ModelProto, Mapping[str, np.ndarray]] | None:
    """Return a model and the data of its placeholders; ``None`` for a file that is loaded as it is."""
    if isinstance(source, ModelProto):
        return source, arrays or {}
    try:
        file = read_model(source)
        arrays = dict(file.arrays)
        for tensor in file.model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL and tensor.name not in arrays:
                arrays[tensor.name] = tensor_array(tensor, file.folder)
    except ModelError:
        return None  # the runtime says what is wrong with it, or takes it all the same
    if not any(file_of(array) is not None for array in arrays.values()):
        return None  # small
    for tensor in file.model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(placeholder(tensor.name, TensorType.of(arrays[tensor.name])))
    internalise_attributes(file.model, file.folder)
    return file.model, arrays


def _hand_over(
    model: ModelProto, arrays: Mapping[str, np.ndarray], options: Any, scratch: Path, *, read: bool
) -> list[Any]:
    """Say in a session's options, and in the model, where the data are; return what must stay alive.

    The runtime's optimiser reads data where the model says that they are, kernels where the options do.
    Without the optimiser (``read=False``) the place in the model need only exist: it is a file in
    ``scratch`` that takes no room, or one that is mapped anyway.
    """
    kept: list[Any] = []
    values: dict[str, Any] = {}
    home: FileMap | None = None
    wanted = [t for t in model.graph.initializer if t.name in arrays]
    wanted = [t for t in wanted if t.data_location == TensorProto.EXTERNAL]
    for tensor in wanted:
        array = checked(arrays[tensor.name])
        kept.append(array)
        file, offset = file_of(array), offset_of(array)
        if file is None or offset is None or not _there(file):
            continue
        if home is None or file.path.parent == home.path.parent:
            home = file if home is None or len(file) > len(home) else home
            tensor.CopyFrom(placeholder(tensor.name, TensorType.of(array), file.path.name, offset))
            values[tensor.name] = _value(array)  # all sessions then read one mapping, which counts once
    rest = [t for t in wanted if t.name not in values]
    elsewhere: dict[str, Any] = {}
    for tensor in rest:
        array = np.require(arrays[tensor.name], requirements=["C", "A"])
        kept.append(array)
        values[tensor.name] = _value(array)
        if not read and (home is None or array.nbytes <= len(home)):
            name = _NOTHING if home is None else home.path.name
            tensor.CopyFrom(placeholder(tensor.name, TensorType.of(array), name))
        else:
            elsewhere[tensor.name] = values[tensor.name]
    if rest and home is None:
        with (scratch / _NOTHING).open("wb") as file_of_nothing:
            file_of_nothing.truncate(max(int(arrays[t.name].nbytes) for t in rest))
    options.add_session_config_entry(_FOLDER, str(scratch if home is None else home.path.parent))
    if elsewhere:
        release_all()  # room for the copies that are made while the model is loaded
        options.add_external_initializers(list(elsewhere), list(elsewhere.values()))
    for name, value in values.items():
        options.add_initializer(name, value)
    return [*kept, values]


def _there(file: FileMap) -> bool:
    """Say whether the path of a mapped file still leads to it: it may have been replaced or deleted."""
    try:
        found = file.path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == file.stamp[:2]


def _value(array: np.ndarray) -> Any:
    import onnxruntime as ort

    if array.dtype.kind in "biufc":
        return ort.OrtValue.ortvalue_from_numpy(array)
    code = DTYPE_CODES[TensorType.of(array).dtype]
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.dtype.itemsize}"), code)
