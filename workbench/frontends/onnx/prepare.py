"""Preparation of an ONNX model for import: check it, take out its tensors, bind its dimensions, sort it."""

from __future__ import annotations

import difflib
import math
import operator
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto

from workbench.frontends.model import Dims, Symbol
from workbench.frontends.onnx.file import DimensionError, ModelError, ModelFile, take_tensors, tensor_array
from workbench.frontends.onnx.nodes import all_nodes, check_nodes, inlined, sort_nodes
from workbench.frontends.onnx.shape_inference import type_proto
from workbench.ops.types import TensorType
from workbench.symbolic.sizes import kind_of, pricing_size

#: The oldest operator set that is accepted; older ones have other broadcasting rules.
OLDEST_OPSET = 7

#: The largest extent that stands for a symbolic dimension until it gets a generic one.
_MARKERS: Final = 999_983

#: Most elements of an integer tensor whose elements are among the numbers of a model.
_SMALL: Final = 16


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model without its stored tensors, which it declares as inputs, and those tensors.

    ``inputs`` are the inputs that are tensors, ``foreign`` the other inputs, ``defaults`` the initial values
    of inputs that stay inputs, ``shell`` the model's content except its nodes and tensors. ``notes`` are for
    the coverage report. ``symbols`` are the dimensions that are left open, each with an extent that is none of
    the model's ``numbers``.
    """

    model: ModelProto
    inputs: tuple[ValueInfoProto, ...]
    arrays: dict[str, np.ndarray]
    shell: ModelProto
    foreign: tuple[ValueInfoProto, ...] = ()
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    numbers: frozenset[int] = frozenset()


def prepare(
    file: ModelFile, dims: Dims, *, keep_inputs: bool = False, open_dimensions: bool = False
) -> Prepared:
    """Check a model, bind its symbolic dimensions, sort and inline it; raise :class:`ModelError`.

    Args:
        file: The model as it was read.
        dims: The extent of a symbolic dimension by its name.
        keep_inputs: Whether an input that has an initial value stays an input.
        open_dimensions: Whether a dimension that is not bound gets an extent that stands for it.
    """
    model, graph = file.model, file.model.graph
    nodes = all_nodes(model)
    _check_names(model, nodes, file.name)
    _normalise_domains(model, nodes)
    _check_versions(model, file.name)
    _check_outputs(model, file.name)
    shell = _shell_of(model)
    arrays = take_tensors(file, nodes)
    numbers = _numbers(model, nodes, arrays) if open_dimensions else None
    both = [v.name for v in graph.input if v.name in arrays]
    # Before IR version 4 every initializer had to be an input as well.
    overridable = [name for name in both if model.ir_version >= 4]
    defaults = {name: arrays.pop(name) for name in overridable if keep_inputs}
    inputs = [v for v in graph.input if v.name not in arrays]
    for value in inputs:
        if value.name in defaults:
            value.type.CopyFrom(type_proto(TensorType.of(defaults[value.name])))
    tensors = tuple(v for v in inputs if not _foreign(v))
    foreign = tuple(v for v in inputs if _foreign(v))
    symbols = bind_dimensions(tensors, [*graph.value_info, *graph.output], dims, numbers)
    for what in ("initializer", "sparse_initializer", "input"):
        graph.ClearField(what)
    graph.input.extend((*tensors, *foreign))
    for name, array in arrays.items():
        graph.input.append(onnx.helper.make_value_info(name, type_proto(TensorType.of(array))))
    sort_nodes(model)
    check_nodes(model, file.name)
    notes: tuple[str, ...] = ()
    if overridable and not keep_inputs:
        shown = ", ".join(overridable[:5]) + (", …" if len(overridable) > 5 else "")
        notes = (
            f"{len(overridable)} inputs have initial values and are read as weights: {shown} "
            "(keep_inputs=True keeps them as inputs)",
        )
    return Prepared(
        inlined(model), tensors, arrays, shell, foreign, defaults, notes, symbols, numbers or frozenset()
    )


def _shell_of(model: ModelProto) -> ModelProto:
    """Return a model's content except its nodes and stored tensors, as a model."""
    shell = ModelProto()
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        if model.HasField(name):
            setattr(shell, name, getattr(model, name))
    shell.opset_import.extend(model.opset_import)
    shell.metadata_props.extend(model.metadata_props)
    ours, theirs = shell.graph, model.graph
    ours.name, ours.doc_string = theirs.name, theirs.doc_string
    for what in ("metadata_props", "input", "output", "value_info"):
        getattr(ours, what).extend(getattr(theirs, what))
    return shell


def _foreign(value: ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") not in (None, "tensor_type")


def _check_names(model: ModelProto, nodes: Sequence[NodeProto], name: str) -> None:
    """Reject names that are not text, which protobuf returns as bytes."""
    graph = model.graph
    names = [graph.name, *(v.name for v in (*graph.input, *graph.output, *graph.initializer))]
    for node in nodes:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        names += [a.name for a in node.attribute]
    for text in names:
        if not isinstance(text, str):
            raise ModelError(f"{name}: the name {text!r} is not text")


def _normalise_domains(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Write the default domain as the empty name, which is equivalent to ``ai.onnx``."""
    for entry in (*model.opset_import, *nodes):
        if entry.domain == "ai.onnx":
            entry.domain = ""


def _check_outputs(model: ModelProto, name: str) -> None:
    names = [v.name for v in model.graph.output]
    if not names:
        raise ModelError(f"{name}: the model has no outputs")
    if len(set(names)) != len(names):
        raise ModelError(f"{name}: output names repeat: {', '.join(names)}")


def _numbers(
    model: ModelProto, nodes: Sequence[NodeProto], arrays: Mapping[str, np.ndarray]
) -> frozenset[int]:
    """Return the numbers in a model: extents of its weights, small integer tensors, attributes."""
    found: set[int] = set()
    stored = list(arrays.values())
    for attr in (attr for node in nodes for attr in node.attribute):
        found.update((*attr.ints, attr.i, *attr.t.dims))
        if attr.type == attr.TENSOR and math.prod(attr.t.dims) <= _SMALL:
            stored.append(tensor_array(attr.t, None))
    for array in stored:
        found.update(array.shape)
        if array.size <= _SMALL and array.dtype in (np.int64, np.int32):
            found.update(array.reshape(-1).tolist())
    for value in model.graph.input:
        if value.type.HasField("tensor_type"):
            found.update(d.dim_value for d in value.type.tensor_type.shape.dim)
    return frozenset(n for n in found if 10 < n < 1 << 40)


def _check_versions(model: ModelProto, name: str) -> None:
    versions = {o.domain: o.version for o in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if not versions:
        raise ModelError(
            f"{name} declares no operator set: it is too old or truncated (try exporting it again)"
        )
    opset = versions.get("", newest)
    if opset > newest:
        raise ModelError(
            f"{name} must use an operator set up to {newest}, the newest in onnx {onnx.__version__}, "
            f"got {opset} (try a newer onnx, or onnx.version_converter)"
        )
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"{name} must use an operator set from {OLDEST_OPSET} on, got {opset} "
            "(try onnx.version_converter)"
        )
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{name} must have an IR version up to {onnx.IR_VERSION}, the newest in onnx {onnx.__version__}, "
            f"got {model.ir_version} (try a newer onnx)"
        )


def bind_dimensions(
    inputs: Sequence[ValueInfoProto],
    others: Iterable[ValueInfoProto],
    dims: Dims,
    numbers: frozenset[int] | None = None,
) -> tuple[Symbol, ...]:
    """Set every symbolic dimension of the inputs to its extent, in place.

    A dimension without a name is called ``input[axis]``; an input without a shape takes a whole shape under
    its own name. A dimension that is not bound is left open if ``numbers`` are given, and it is one of the
    symbols that are returned. Otherwise raise :class:`ModelError` with the names of the unbound dimensions.

    Args:
        inputs: The inputs of the model.
        others: Other values, whose named dimensions are set too.
        dims: The extent of a dimension by its name.
        numbers: The numbers of the model; the extent of an open dimension is none of them.
    """
    names = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim if d.dim_param}
    names |= {v.name for v in inputs}
    used: set[str] = set()
    unbound: dict[str, str] = {}
    symbols: dict[str, Symbol] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"input {value.name!r} has no type")
        tensor = value.type.tensor_type
        given = dims.get(value.name)
        if isinstance(given, Sequence):
            _check_shape(value, given)
            used.add(value.name)
            del tensor.shape.dim[:]
            for extent in given:
                tensor.shape.dim.add().dim_value = _extent(value.name, extent)
        if not tensor.HasField("shape"):
            unbound[value.name] = (
                f"input {value.name!r} has no shape at all: pass dims={{{value.name!r}: (1, …)}}"
            )
            continue
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            place = f"{value.name}[{axis}]"
            key = next((k for k in (place, dim.dim_param) if k and k in dims), None)
            if key is None:
                name = dim.dim_param or place
                if numbers is None:
                    unbound.setdefault(
                        name, f"axis {axis} of input {value.name!r} is the unbound dimension {name!r}"
                    )
                    continue
                if name not in symbols:
                    taken = {symbol.marker for symbol in symbols.values()}
                    marker = next(m for m in count(_MARKERS, -1) if m not in numbers and m not in taken)
                    kind = kind_of(name, axis, len(tensor.shape.dim))
                    symbols[name] = Symbol(name, (), kind, bool(dim.dim_param), marker)
                symbols[name] = replace(symbols[name], places=(*symbols[name].places, (value.name, axis)))
                dim.dim_value = symbols[name].marker
                continue
            used.add(key)
            if dim.dim_param:
                used.add(dim.dim_param)
            dim.dim_value = _extent(key, dims[key])
    if unbound:
        raise _unbound(unbound, inputs)
    for name in sorted(set(dims) - used):
        raise unknown_dimension(name, names, "dims", "dimension of an input that is not bound")
    for value in others:
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param].marker
            elif dim.dim_param in dims:
                dim.dim_value = _extent(dim.dim_param, dims[dim.dim_param])
    return tuple(symbols.values())


def _unbound(unbound: Mapping[str, str], inputs: Sequence[ValueInfoProto]) -> DimensionError:
    """Return the error that lists the unbound dimensions, with a usual size for each."""
    example: dict[str, str] = {}
    for value in inputs:
        if value.name in unbound:
            example.setdefault(value.name, "(1, …)")
        shape = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(shape):
            name = dim.dim_param or f"{value.name}[{axis}]"
            if name in unbound:
                example.setdefault(name, str(pricing_size(kind_of(name, axis, len(shape)))))
    found = "; ".join(unbound.values())
    given = ", ".join(f"{name!r}: {size}" for name, size in example.items())
    shapeless = [name for name, size in example.items() if not size.isdecimal()]
    options = " ".join(f"--dim {shlex.quote(f'{n}={s}')}" for n, s in example.items() if n not in shapeless)
    hint = f"Bind it, as in {options}" if options else "An input's whole shape can be given in Python alone"
    without = "; ".join(text.partition(": pass ")[0] for text in unbound.values())
    return DimensionError(f"{found}. Bind it, as in dims={{{given}}}", f"{without}. {hint}")


def unknown_dimension(name: str, known: Iterable[str], where: str, what: str) -> DimensionError:
    """Return the error for a name that no suitable dimension has.

    Args:
        name: The name.
        known: The names of suitable dimensions, of which the nearest is suggested.
        where: The argument with the name, ``dims`` or ``sizes``.
        what: The description of suitable dimensions in the message.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    others = f"; there are: {', '.join(names)}" if names else "; the model has none"
    hint = f"; did you mean {near[0]!r}?" if near else others
    option = {"dims": "--dim", "sizes": "--size"}[where]
    return DimensionError(
        f"{where} must name a {what}, got {name!r}{hint}", f"{option} must name a {what}, got {name!r}{hint}"
    )


def _extent(name: str, extent: object) -> int:
    try:
        number = operator.index(extent)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(extent, bool):
        raise ModelError(f"dims[{name!r}] must be a positive integer, got {extent!r}")
    return number


def _check_shape(value: ValueInfoProto, given: Sequence[int]) -> None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    if len(stated) != len(given) or any(s not in (None, g) for s, g in zip(stated, given, strict=True)):
        raise ModelError(f"dims[{value.name!r}] must fit {stated} in the model, got {tuple(given)}")
