"""Execution of models in ONNX Runtime, in sessions that share weights with this process or a file.

When the runtime loads a serialised model, it stores the weights three times: in the bytes, in the parsed
message and in its own tensors. So large weights can stay apart from the message: the runtime maps those of a
file itself and uses those in memory directly.

The cleaned form of a given model is the reference for optimised models, kept if none of them is faster. A caller
may override initialisers that are listed among the inputs, so a runtime must neither fold nor pack them.
Cleaning takes them out of the inputs. It changes nothing else: the operators, the operator sets, names, metadata
and tensors are those of the file.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto

from workbench.frontends.onnx import file
from workbench.frontends.onnx.file import Apart, Source, apart_of, read_with_data
from workbench.frontends.onnx.prepare import read_in_place, walk
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, TensorType
from workbench.support.files import check_library
from workbench.support.mmap import ChangedFile, release_all

if TYPE_CHECKING:
    from onnx import ValueInfoProto
    from onnxruntime import InferenceSession, OrtValue, SessionOptions

    from workbench.frontends.model import Model


# -- the cleaned form of a model --------------------------------------------------------------------------
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
        return large + file.weight_bytes(self.apart.model)

    def given(self) -> Apart:
        """Return the model as it was given, with the removed initialisers among its inputs."""
        model = file.copied(self.apart.model)
        shapes = {t.name: (t.data_type, list(t.dims)) for t in model.graph.initializer}
        for name in self.removed:
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, *shapes[name]))
        return Apart(model, self.apart.arrays)


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


# -- models in ONNX Runtime -------------------------------------------------------------------------------
#: Kinds of numpy dtypes that ONNX Runtime accepts directly.
_PLAIN = frozenset("biufcO")

#: The option with the folder of external data of a model that is loaded from bytes.
FOLDER: Final = "session.model_external_initializers_file_folder_path"

#: The time limit in seconds of one run of a model with a loop, if no caller needs its result.
LOOP_SECONDS = 15.0


class RuntimeFailure(RuntimeError):
    """Raised when ONNX Runtime refuses a model, or fails while running it; ``late`` if its time was up."""

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


def session_options(
    *,
    threads: int | None = None,
    optimise: bool = True,
    spin: bool = True,
    prepack: bool = True,
    arena: bool = True,
) -> SessionOptions:
    """Return the options of a quiet session; the arguments are those of :func:`session`."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    if not spin:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not prepack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    return options


def session(
    source: Apart | ModelProto | str | os.PathLike[str],
    *,
    threads: int | None = None,
    optimise: bool = True,
    spin: bool = True,
    prepack: bool = True,
    arena: bool = True,
    profile: Path | None = None,
    operators: str | os.PathLike[str] | None = None,
    providers: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> InferenceSession:
    """Load a model into ONNX Runtime without copies of its large weights.

    Arrays that are mapped from a file (:mod:`workbench.support.mmap`) are mapped by the runtime too. Other
    arrays are shared, and copied only while the model loads. They must not change during the life of the
    session, which keeps them alive.

    Args:
        source: A saved file, or a model, whose large weights may be apart (see
            :func:`~workbench.frontends.onnx.exporter.to_onnx_apart`).
        threads: The number of threads of one operator; by default the machine's cores. Use 1 for exactly
            repeatable results and for measuring.
        optimise: Whether the runtime's own graph optimisations are on.
        spin: Whether idle threads spin; otherwise they sleep, so that they do not disturb another session.
        prepack: Whether kernels keep weights in a layout of their own: runs are faster, but multiplied
            weights are stored twice. A session without it is for checking, not for timing.
        arena: Whether the memory of values is kept after a run.
        profile: How the name of the file begins that records the runs of the session until its
            ``end_profiling`` is called; without it nothing is recorded.
        operators: A library of operators that the model needs.
        providers: The runtime's execution providers with their options, which come before the CPU's.

    Raises:
        RuntimeFailure: The runtime refuses the model or the library.

    >>> session("large.onnx", threads=1)  # doctest: +SKIP
    """
    import onnxruntime as ort

    options = session_options(threads=threads, optimise=optimise, spin=spin, prepack=prepack, arena=arena)
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    message = source.model if isinstance(source, Apart) else source
    name = repr(message.graph.name) if isinstance(message, ModelProto) else str(message)
    kept: list[Any] = []
    try:
        if operators is not None:
            check_library(operators)
            options.register_custom_ops_library(os.fspath(operators))
        with tempfile.TemporaryDirectory(prefix="workbench-") as scratch:
            apart = apart_of(source)
            content: str | bytes
            if apart is None:
                content = str(source)  # a path; the text of a model with weights takes a minute
            else:
                folder, held, elsewhere = file.place_weights(apart, Path(scratch), read=optimise)
                if not optimise:
                    read_in_place(apart.model)
                values = {name: ort_value(array) for name, array in held.items()}
                kept = [*held.values(), values]
                # The optimiser reads data from the place in the model, kernels from the place in the options.
                options.add_session_config_entry(FOLDER, str(folder))
                if elsewhere:
                    release_all()  # free memory for the copies made while the model is loaded
                    options.add_external_initializers(elsewhere, [values[n] for n in elsewhere])
                for name_of, value in values.items():
                    options.add_initializer(name_of, value)
                content = apart.model.SerializeToString()
            on = [*providers, "CPUExecutionProvider"]
            loaded = ort.InferenceSession(content, options, providers=on, enable_fallback=0)
    except (OSError, ChangedFile):
        raise
    except Exception as error:
        raise RuntimeFailure(f"ONNX Runtime does not load {name}: {error}") from None
    loaded._workbench_keeps = kept  # keeps the session's data alive as long as the session
    return loaded


def packed(array: np.ndarray) -> bool:
    """Return whether ONNX stores several elements of the array in one byte."""
    kind = TensorType.of(array)
    return kind.elements > kind.nbytes


def ort_value(array: np.ndarray) -> OrtValue:
    """Return an array as a value of ONNX Runtime, also of an element type that numpy lacks."""
    import onnxruntime as ort

    if array.dtype.kind in "biufc":
        return ort.OrtValue.ortvalue_from_numpy(array)
    code = DTYPE_CODES[TensorType.of(array).dtype]
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.dtype.itemsize}"), code)


def _to_runtime(array: Any) -> Any:
    if array is None or isinstance(array, list):
        return array  # an absent optional, a sequence
    array = np.asarray(array, order="C")
    if array.dtype.kind in _PLAIN:
        return array
    if packed(array):
        raise RuntimeFailure(f"ONNX Runtime does not accept {TensorType.of(array)} from Python")
    return ort_value(array)


def may_not_end(model: ModelProto) -> bool:
    """Return whether a model contains a loop, at any depth; a loop might never end."""
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    return any(node.op_type == "Loop" for body in bodies for node in walk(body))


def run_session(
    loaded: InferenceSession, inputs: Mapping[str, np.ndarray], *, seconds: float | None = None
) -> dict[str, np.ndarray]:
    """Run a loaded model and return its outputs by name.

    With ``seconds``, a run that takes longer is ended, and so is a run interrupted by Ctrl-C. Raise
    :class:`RuntimeFailure` if the runtime fails; it is ``late`` if the time limit is reached.
    """
    try:
        if seconds is not None:
            return _run_within(loaded, inputs, seconds)
        return _run(loaded, {i.name: _to_runtime(inputs[i.name]) for i in loaded.get_inputs()})
    except RuntimeFailure:
        raise
    except Exception as error:
        raise RuntimeFailure(f"ONNX Runtime failed: {error}") from None


def _run_within(
    loaded: InferenceSession, inputs: Mapping[str, np.ndarray], seconds: float
) -> dict[str, np.ndarray]:
    """Run in a thread that is asked to end at the time limit; the main thread stays open to Ctrl-C."""
    import onnxruntime as ort

    options = ort.RunOptions()
    options.log_severity_level = 4
    outcome: list[dict[str, np.ndarray] | BaseException] = []

    def run() -> None:
        try:
            feeds = {i.name: _to_runtime(inputs[i.name]) for i in loaded.get_inputs()}
            # Copies, because some operators write into their operands.
            own = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in feeds.items()}
            outcome.append(_run(loaded, own, options))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        late = thread.is_alive()
        options.terminate = True
        thread.join()
    if late:
        raise RuntimeFailure(f"ONNX Runtime did not finish within {seconds:g} s", late=True)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _run(loaded: InferenceSession, feeds: Mapping[str, Any], options: Any = None) -> dict[str, np.ndarray]:
    import onnxruntime as ort

    names = [o.name for o in loaded.get_outputs()]
    # Whether numpy has the element types of all inputs and outputs.
    lacking = any(kind in o.type for o in loaded.get_outputs() for kind in ("float8", "bfloat16", "int4"))
    if not lacking and all(v is None or isinstance(v, np.ndarray | list) for v in feeds.values()):
        return dict(zip(names, loaded.run(None, feeds, options), strict=True))
    of_numpy = ort.OrtValue.ortvalue_from_numpy
    values = {k: v if isinstance(v, ort.OrtValue) else of_numpy(v) for k, v in feeds.items()}
    results = loaded.run_with_ort_values(names, values, options)
    return {name: _from_runtime(value) for name, value in zip(names, results, strict=True)}


def _from_runtime(value: Any) -> np.ndarray:
    kind = TensorType(DTYPE_NAMES[value.element_type()], tuple(value.shape()))
    if kind.numpy_dtype().kind in _PLAIN:
        return np.asarray(value.numpy())
    # ONNX Runtime creates no array for element types that numpy lacks, so the memory is copied.
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(content, kind.numpy_dtype()).reshape(kind.shape)


def run_model(
    model: ModelProto, inputs: Mapping[str, np.ndarray], *, threads: int | None = None, optimise: bool = True
) -> dict[str, np.ndarray]:
    """Run a model once in ONNX Runtime and return its outputs by name.

    Further arguments are those of :func:`session`. Raise :class:`RuntimeFailure` if the runtime refuses the model or
    fails.
    """
    return run_session(session(model, threads=threads, optimise=optimise), inputs)


def one_node(
    node: NodeProto, inputs: Mapping[str, TypeProto], outputs: Mapping[str, TypeProto], **versions: Any
) -> ModelProto:
    """Return a node as a model of its own, with these ``opset_imports`` and this ``ir_version``."""
    info = onnx.helper.make_value_info
    given, made = ([info(name, kind) for name, kind in side.items()] for side in (inputs, outputs))
    return onnx.helper.make_model(onnx.helper.make_graph([node], "one", given, made), **versions)


def inferred_types(node: NodeProto, types: Mapping[str, TypeProto], **versions: Any) -> dict[str, TypeProto]:
    """Return the types that ONNX Runtime infers for a node's results; empty if it lacks the operator.

    The node is loaded, not run. Operands have these types; for the versions see :func:`one_node`.
    """
    made = {o: TypeProto() for o in node.output if o}
    try:
        loaded = session(one_node(node, types, made, **versions), threads=1, optimise=False)
    except RuntimeFailure:
        return {}
    names = {"float": "float32", "double": "float64"}
    found = {}
    for value in loaded.get_outputs():
        inner = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = names.get(inner, inner)
        if not value.type.startswith("tensor(") or dtype not in DTYPE_CODES or value.shape is None:
            continue
        shape = [d if isinstance(d, int) else None for d in value.shape]
        found[value.name] = onnx.helper.make_tensor_type_proto(DTYPE_CODES[dtype], shape)
    return found
