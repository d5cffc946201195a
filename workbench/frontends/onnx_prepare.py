"""Make an ONNX model ready to be imported: checked, dimensions bound, stored tensors taken out."""

from __future__ import annotations

import difflib
import graphlib
import math
import operator
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
from onnx import ModelProto, NodeProto, ValueInfoProto

from workbench.frontends.onnx_file import (
    DimensionError,
    ModelError,
    ModelFile,
    dense_array,
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
from workbench.symbolic.sizes import kind_of, pricing_size

#: Local functions may call each other: a small file may stand for any number of nodes.
MOST_NODES = 200_000

#: Older operator sets have other broadcasting rules and are refused.
OLDEST_OPSET = 7

Dims = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold a model without its stored tensors (they are declared as inputs there), and those tensors.

    ``foreign`` are inputs that are no tensors, ``defaults`` the initial values of inputs that stay
    inputs, ``shell`` what the model says beside its nodes and tensors. ``notes`` are for the coverage
    report.
    """

    model: ModelProto
    inputs: tuple[ValueInfoProto, ...]
    arrays: dict[str, np.ndarray]
    shell: ModelProto
    foreign: tuple[ValueInfoProto, ...] = ()
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def prepare(file: ModelFile, dims: Dims, *, keep_inputs: bool = False) -> Prepared:
    """Check a model, bind its symbolic dimensions, sort and inline it; raise :class:`ModelError`.

    With ``keep_inputs`` an input that has an initial value stays an input.
    """
    model = file.model
    _check_names(model, file.name)
    _normalise_domains(model)
    _check_versions(model, file.name)
    graph = model.graph
    shell = shell_of(model)
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
    for sparse in graph.sparse_initializer:
        arrays[sparse.values.name] = dense_array(sparse, file.folder)
    del graph.sparse_initializer[:]
    both = [v.name for v in graph.input if v.name in arrays]
    # Before version 4 every initializer had to be an input as well.
    overridable = [name for name in both if model.ir_version >= 4]
    defaults = {name: arrays.pop(name) for name in overridable if keep_inputs}
    inputs = [v for v in graph.input if v.name not in arrays]
    for value in inputs:
        if value.name in defaults:
            value.type.CopyFrom(type_proto(TensorType.of(defaults[value.name])))
    tensors = [v for v in inputs if not _foreign(v)]
    bind_dimensions(tensors, [*graph.value_info, *graph.output], dims)
    kept = tuple(tensors)
    foreign = tuple(v for v in inputs if _foreign(v))
    del graph.initializer[:]
    del graph.input[:]
    graph.input.extend((*kept, *foreign))
    for name, array in arrays.items():
        graph.input.append(onnx.helper.make_value_info(name, type_proto(TensorType.of(array))))
    _sort_nodes(model)
    _check(model, file.name)
    _check_attributes(model)
    notes: tuple[str, ...] = ()
    if overridable and not keep_inputs:
        shown = ", ".join(overridable[:5]) + (", …" if len(overridable) > 5 else "")
        notes = (
            f"{len(overridable)} inputs have initial values and are read as weights: {shown} "
            "(keep_inputs=True keeps them as inputs)",
        )
    return Prepared(_inlined(model), kept, arrays, shell, foreign, defaults, notes)


def shell_of(model: ModelProto) -> ModelProto:
    """Return what a model says beside its nodes and stored tensors, as a model of its own."""
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
                unbound.setdefault(
                    name, f"axis {axis} of input {value.name!r} is the unbound dimension {name!r}"
                )
                continue
            used.add(key)
            if dim.dim_param:
                used.add(dim.dim_param)
            dim.dim_value = _extent(key, dims[key])
    if unbound:
        raise _unbound(unbound, inputs)
    for name in sorted(set(dims) - used):
        raise unknown_dimension(name, names, "dims", "unbound dimension of an input")
    for value in others:
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param in dims:
                dim.dim_value = _extent(dim.dim_param, dims[dim.dim_param])


def _unbound(unbound: Mapping[str, str], inputs: Sequence[ValueInfoProto]) -> DimensionError:
    """Return the error that names what is unbound, with a usual size for each."""
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
    """Return the error for a name in ``where`` (``dims`` or ``sizes``) that is no dimension."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    option = {"dims": "--dim", "sizes": "--size"}[where]
    return DimensionError(
        f"{where} names {name!r}, which is no {what}{hint}", f"{option} {name}: there is no such {what}{hint}"
    )


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


#: What attributes must be that the checker does not look at, by operator ("": of any).
_CHOICES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "auto_pad"): ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Upsample", "mode"): ("nearest", "linear"),
    ("Gelu", "approximate"): ("none", "tanh"),
}
_POSITIVE: Final = frozenset({"group", "strides", "dilations", "kernel_shape", "hidden_size"})


def _check_attributes(model: ModelProto) -> None:
    """Refuse attributes that no runtime takes."""
    for node in walk(model.graph.node):
        for attr in node.attribute if node.domain == "" else ():
            known = _CHOICES.get((node.op_type, attr.name)) or _CHOICES.get(("", attr.name))
            text = attr.s.decode(errors="replace")
            if known is not None and attr.type == attr.STRING and text not in known:
                raise ModelError(f"{label(node)}: {attr.name} is {text!r}; it is one of {', '.join(known)}")
            numbers = list(attr.ints) if attr.type == attr.INTS else [attr.i] * (attr.type == attr.INT)
            if attr.name in _POSITIVE and any(number < 1 for number in numbers):
                raise ModelError(f"{label(node)}: {attr.name} is {min(numbers)}; it is 1 or more")


def _inlined_nodes(model: ModelProto) -> float:
    """Return how many nodes a model has once its local functions are inlined; inf where one calls itself."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    calls = {
        key: Counter((n.domain, n.op_type, n.overload) for n in walk(function.node))
        for key, function in functions.items()
    }
    sizes: dict[tuple[str, str, str], float] = {}

    def size(made: Counter[tuple[str, str, str]]) -> float:
        return sum(count * sizes.get(key, 1.0) for key, count in made.items())

    needs = {key: [callee for callee in made if callee in functions] for key, made in calls.items()}
    try:
        for key in graphlib.TopologicalSorter(needs).static_order():
            sizes[key] = size(calls[key])
    except graphlib.CycleError:
        return math.inf
    return size(Counter((n.domain, n.op_type, n.overload) for n in walk(model.graph.node)))


def _inlined(model: ModelProto) -> ModelProto:
    """Return the model with calls of its local functions replaced by their bodies, where onnx can."""
    if not model.functions:
        return model
    nodes = _inlined_nodes(model)
    if nodes > MOST_NODES:
        made = f"make {nodes:.3g} nodes" if math.isfinite(nodes) else "call themselves"
        raise ModelError(f"the local functions of the model {made}; at most {MOST_NODES} nodes are inlined")
    try:
        inlined = onnx.inliner.inline_local_functions(model)
        onnx.checker.check_model(inlined)
    except Exception:
        return model  # the calls are kept opaque, with the functions they need
    return inlined
