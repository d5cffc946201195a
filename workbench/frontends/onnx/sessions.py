"""ONNX Runtime sessions that share weights with this process or a file instead of copying them.

When a runtime loads a serialised model, it stores the weights three times: in the bytes, in the parsed
message and in its own tensors. Here the message contains no large weights: the runtime maps those of a
file itself and uses those in memory directly.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import ModelProto, TensorProto

from workbench.frontends.onnx.file import (
    ModelError,
    internalise_attributes,
    placeholder,
    read_model,
    tensor_array,
)
from workbench.frontends.onnx.nodes import all_nodes
from workbench.frontends.runtime import RuntimeFailure, ort_value, session_options
from workbench.ops.types import TensorType
from workbench.support.mmap import ChangedFile, FileMap, checked, file_of, offset_of, release_all

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: A file with a size but no content, in whose place the runtime is given memory.
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
    profile: Path | None = None,
) -> InferenceSession:
    """Load a model into ONNX Runtime on the CPU without copies of its large weights.

    Arrays that are mapped from a file (:mod:`workbench.support.mmap`) are mapped by the runtime too. Other
    arrays are shared, and copied only while the model loads. They must not change during the life of the
    session, which keeps them alive.

    Args:
        source: A saved file, or a model whose large initializers are placeholders (see
            :func:`~workbench.frontends.onnx.exporter.to_onnx_apart`). Loading may modify the model.
        arrays: The data of the placeholders, by name.
        threads: The number of threads of one operator; by default the machine's cores.
        optimise: Whether the runtime's own graph optimisations are on.
        spin: Whether idle threads spin instead of sleeping.
        prepack: Whether kernels keep weights in a layout of their own: runs are faster, but multiplied
            weights are stored twice. A session without it is for checking, not for timing.
        arena: Whether the memory of values is kept after a run.
        profile: How the name of the file begins that records the runs of the session until its
            ``end_profiling`` is called; without it nothing is recorded.

    Returns:
        The session.

    Raises:
        RuntimeFailure: The runtime refuses the model. (:class:`~workbench.frontends.RuntimeFailure`)

    >>> shared_session("large.onnx", threads=1)  # doctest: +SKIP
    """
    import onnxruntime as ort

    options = session_options(threads=threads, optimise=optimise, spin=spin)
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
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
    loaded._workbench_keeps = kept  # keeps the session's data alive as long as the session
    return loaded


def _source(
    source: ModelProto | str | os.PathLike[str], arrays: Mapping[str, np.ndarray] | None
) -> tuple[ModelProto, Mapping[str, np.ndarray]] | None:
    """Return a model and the data of its placeholders, or ``None`` for a file to be loaded unchanged."""
    if isinstance(source, ModelProto):
        return source, arrays or {}
    try:
        file = read_model(source)
        arrays = dict(file.arrays)
        for tensor in file.model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL and tensor.name not in arrays:
                arrays[tensor.name] = tensor_array(tensor, file.folder)
    except ModelError:
        return None  # the runtime reports the fault, or accepts the file nevertheless
    if not any(file_of(array) is not None for array in arrays.values()):
        return None  # all weights are small
    for tensor in file.model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(placeholder(tensor.name, TensorType.of(arrays[tensor.name])))
    internalise_attributes(all_nodes(file.model), file.folder)
    return file.model, arrays


def _hand_over(
    model: ModelProto, arrays: Mapping[str, np.ndarray], options: Any, scratch: Path, *, read: bool
) -> list[Any]:
    """Set the places of the data in a session's options and in the model; return the objects to keep alive.

    The runtime's optimiser reads data from the place in the model, kernels from the place in the options.
    Without the optimiser (``read=False``) the place in the model only has to exist: it is a file in
    ``scratch`` that occupies no space, or a file that is mapped anyway.
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
            values[tensor.name] = ort_value(array)  # all sessions then share one mapping, which counts once
    rest = [t for t in wanted if t.name not in values]
    elsewhere: dict[str, Any] = {}
    for tensor in rest:
        array = np.require(arrays[tensor.name], requirements=["C", "A"])
        kept.append(array)
        values[tensor.name] = ort_value(array)
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
        release_all()  # free memory for the copies made while the model is loaded
        options.add_external_initializers(list(elsewhere), list(elsewhere.values()))
    for name, value in values.items():
        options.add_initializer(name, value)
    return [*kept, values]


def _there(file: FileMap) -> bool:
    """Return whether the path of a mapped file still leads to it; it may have been replaced or deleted."""
    try:
        found = file.path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == file.stamp[:2]
