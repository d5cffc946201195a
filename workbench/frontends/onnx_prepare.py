"""Make an ONNX model ready to be imported: checked, dimensions bound, stored tensors taken out."""

from __future__ import annotations

import difflib
import graphlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
from onnx import ModelProto, NodeProto, ValueInfoProto

from workbench.frontends.onnx_file import (
    ModelError,
    ModelFile,
    internalise_attributes,
    label,
    one_line,
    set_aside_unknown,
    tensor_array,
    walk,
)
from workbench.frontends.onnx_names import read_by
from workbench.frontends.onnx_values import type_proto
from workbench.ops.types import TensorType

#: Older operator sets have other broadcasting rules and are refused.
OLDEST_OPSET = 7

Dims = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold a model without its stored tensors (they are declared as inputs there), and those tensors.

    ``notes`` are for the coverage report.
    """

    model: ModelProto
    inputs: tuple[ValueInfoProto, ...]
    arrays: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()


def prepare(file: ModelFile, dims: Dims) -> Prepared:
    """Check a model, bind its symbolic dimensions, sort and inline it; raise :class:`ModelError`."""
    model = file.model
    _check_names(model, file.name)
    _normalise_domains(model)
    _check_versions(model, file.name)
    graph = model.graph
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise ModelError(f"{file.name}: the sparse initializer {name!r} is not supported; store it densely")
    if not graph.output:
        raise ModelError(f"{file.name}: the model has no outputs")
    names = [v.name for v in graph.output]
    if len(set(names)) != len(names):
        raise ModelError(f"{file.name}: output names repeat: {', '.join(names)}")
    internalise_attributes(model, file.folder)
    arrays: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.name in arrays:
            raise ModelError(f"two initializers are called {tensor.name!r}")
        mapped = file.arrays.get(tensor.name)
        arrays[tensor.name] = mapped if mapped is not None else tensor_array(tensor, file.folder)
    inputs = [v for v in graph.input if v.name not in arrays]
    both = [v.name for v in graph.input if v.name in arrays]
    bind_dimensions(inputs, [*graph.value_info, *graph.output], dims)
    kept = tuple(inputs)
    del graph.initializer[:]
    del graph.input[:]
    graph.input.extend(kept)
    for name, array in arrays.items():
        graph.input.append(onnx.helper.make_value_info(name, type_proto(TensorType.of(array))))
    _sort_nodes(model)
    _check(model, file.name)
    notes: tuple[str, ...] = ()
    if both and model.ir_version >= 4:  # before, every initializer had to be an input as well
        notes = (f"{len(both)} inputs have initial values and are read as weights: {', '.join(both[:5])}",)
    return Prepared(_inlined(model), kept, arrays, notes)


def _check_names(model: ModelProto, name: str) -> None:
    """Refuse names that are not text: protobuf hands them over as bytes."""
    graph = model.graph
    names = [graph.name, *(v.name for v in (*graph.input, *graph.output, *graph.initializer))]
    for nodes in (graph.node, *(f.node for f in model.functions)):
        for node in walk(nodes):
            names += [node.name, node.op_type, node.domain, *node.input, *node.output]
            names += [a.name for a in node.attribute]
    for text in names:
        if not isinstance(text, str):
            raise ModelError(f"{name}: the name {text!r} is not text")


def _normalise_domains(model: ModelProto) -> None:
    """Write the default domain as the empty name; ``ai.onnx`` means the same."""
    for entry in model.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        for node in walk(nodes):
            if node.domain == "ai.onnx":
                node.domain = ""


def _check_versions(model: ModelProto, name: str) -> None:
    versions = {o.domain: o.version for o in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if not versions:
        raise ModelError(
            f"{name} names no operator set: not an ONNX model of this decade, or a truncated one"
        )
    opset = versions.get("", newest)
    if opset > newest:
        raise ModelError(
            f"{name} uses operator set {opset}; the installed onnx {onnx.__version__} knows up to {newest}: "
            "update onnx, or convert the model with onnx.version_converter"
        )
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"{name} uses operator set {opset}; {OLDEST_OPSET} is the oldest that can be read: "
            "convert the model with onnx.version_converter"
        )
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{name} is of IR version {model.ir_version}; the installed onnx {onnx.__version__} knows up to "
            f"{onnx.IR_VERSION}: update onnx"
        )


def bind_dimensions(inputs: Sequence[ValueInfoProto], others: Iterable[ValueInfoProto], dims: Dims) -> None:
    """Give every symbolic dimension of the inputs its extent, in place.

    ``dims`` maps a dimension's name to its extent; one without a name is called ``input[axis]``; an input
    without any shape takes a whole shape under its own name. Raise :class:`ModelError` that names what
    is unbound.
    """
    names = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim if d.dim_param}
    names |= {v.name for v in inputs}
    used: set[str] = set()
    unbound: dict[str, str] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "value without a type"
            raise ModelError(
                f"input {value.name!r} is a {kind.removesuffix('_type')}; only tensors can be inputs"
            )
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
                unbound.setdefault(
                    name, f"axis {axis} of input {value.name!r} is the unbound dimension {name!r}"
                )
                continue
            used.add(key)
            if dim.dim_param:
                used.add(dim.dim_param)
            dim.dim_value = _extent(key, dims[key])
    if unbound:
        example = ", ".join(f"{k!r}: {'(1, …)' if 'no shape' in v else 1}" for k, v in unbound.items())
        raise ModelError(f"{'; '.join(unbound.values())}. Bind it, as in dims={{{example}}}")
    for name in sorted(set(dims) - used):
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ModelError(f"dims names {name!r}, which is no unbound dimension of an input{hint}")
    for value in others:
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param in dims:
                dim.dim_value = _extent(dim.dim_param, dims[dim.dim_param])


def _extent(name: str, extent: object) -> int:
    try:
        number = operator.index(extent)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(extent, bool):
        raise ModelError(f"dims[{name!r}] is a positive integer, not {extent!r}")
    return number


def _check_shape(value: ValueInfoProto, given: Sequence[int]) -> None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return
    stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    if len(stated) != len(given) or any(s not in (None, g) for s, g in zip(stated, given, strict=True)):
        raise ModelError(f"dims[{value.name!r}] is {tuple(given)}, but the model says {stated}")


def _sort_nodes(model: ModelProto) -> None:
    """Put the nodes into an order in which operands come first; refuse cycles and undefined values."""
    graph = model.graph
    maker: dict[str, int] = {}
    given = {v.name for v in graph.input}
    for i, node in enumerate(graph.node):
        for name in node.output:
            if name and name in maker:
                raise ModelError(f"{label(graph.node[maker[name]])} and {label(node)} both make {name!r}")
            if name and name in given:
                raise ModelError(f"{label(node)} makes {name!r}, which is an input or initializer already")
            if name:
                maker[name] = i
    needs: dict[int, list[int]] = {}
    for i, node in enumerate(graph.node):
        needs[i] = []
        for name in read_by(node):
            if name in maker:
                needs[i].append(maker[name])
            elif name not in given:
                raise ModelError(f"{label(node)} reads {name!r}, which no node, input or initializer gives")
    for value in graph.output:
        if value.name not in maker and value.name not in given:
            raise ModelError(f"output {value.name!r} is made by no node")
    if all(j < i for i, before in needs.items() for j in before):
        return
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        circle = " → ".join(label(graph.node[i]) for i in reversed(error.args[1]))
        raise ModelError(f"the model has a cycle: {circle}") from None
    nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _check(model: ModelProto, name: str) -> None:
    declared = [ValueInfoProto.FromString(v.SerializeToString()) for v in model.graph.output]
    for value in model.graph.output:
        # Runtimes do not ask for the types of outputs, the checker does; they are inferred later.
        if value.type.WhichOneof("value") is None or value.type.HasField("tensor_type"):
            tensor = value.type.tensor_type
            tensor.elem_type = tensor.elem_type or onnx.TensorProto.FLOAT
            tensor.shape.SetInParent()
    unknown = set_aside_unknown(model)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(f"{name} is not valid ONNX: {one_line(error)}") from None
    for node in unknown:
        node.domain = ""
    if unknown:
        del model.opset_import[-1]
    del model.graph.output[:]
    model.graph.output.extend(declared)


def _inlined(model: ModelProto) -> ModelProto:
    """Return the model with calls of its local functions replaced by their bodies, where onnx can."""
    if not model.functions:
        return model
    try:
        inlined = onnx.inliner.inline_local_functions(model)
        onnx.checker.check_model(inlined)
    except Exception:
        return model  # the calls are kept opaque, with the functions they need
    return inlined
