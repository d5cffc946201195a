"""ONNX models before import or run: what nodes read and make, checks, tensors apart, dimensions, order, inlining."""

from __future__ import annotations

import contextlib
import graphlib
import math
import operator
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import SimpleNamespace
from typing import Final

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
import onnx.shape_inference
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from workbench.frontends.model import DimensionError, Dims, ModelError, Symbol, unknown_dimension
from workbench.frontends.onnx.file import SMALL, ModelFile, ir_version_for, type_proto
from workbench.graph.dataflow import TIED
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.registry import own_form
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.support.messages import one_line
from workbench.support.orders import topological
from workbench.symbolic.sizes import kind_of, pricing_size

#: The oldest operator set that is accepted; older ones have other broadcasting rules.
OLDEST_OPSET = 7

#: The largest extent that stands for a symbolic dimension until it gets a generic one.
_MARKERS: Final = 999_983

#: The limit on nodes after inlining: local functions may call each other, so a small file can expand to many.
MOST_NODES = 200_000

#: The domain of ONNX Runtime's own operators.
_OWN_DOMAIN: Final = "com.microsoft"

#: The domain of operators that are in no operator set, while the other operators are checked.
UNKNOWN_DOMAIN: Final = "workbench.unknown"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model without its stored tensors, which it declares as inputs, and those tensors.

    ``inputs`` are the inputs that are tensors, ``foreign`` the other inputs, ``defaults`` the initial values
    of inputs that stay inputs, ``shell`` the model's content except its nodes and tensors. ``notes`` are for
    the coverage report. ``symbols`` are the dimensions left open, each with an extent that is none of the model's
    ``numbers``. A ``plain`` model is read as it is written: no operator is recognised, left out or computed.
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
    plain: bool = False


def prepare(
    file: ModelFile, dims: Dims, *, keep_inputs: bool = False, open_dimensions: bool = False
) -> Prepared:
    """Check a model, bind its symbolic dimensions, sort and inline it; raise :class:`ModelError`.

    Args:
        file: The model, with all of its stored tensors.
        dims: The extent of a symbolic dimension by its name.
        keep_inputs: Whether an input that has an initial value stays an input.
        open_dimensions: Whether a dimension that is not bound gets an extent that stands for it.
    """
    model, graph = file.model, file.model.graph
    nodes = [*walk(graph.node), *(node for f in model.functions for node in walk(f.node))]
    _check_names(model, nodes, file.name)
    for entry in (*model.opset_import, *nodes):
        if entry.domain == "ai.onnx":  # another name of the default domain
            entry.domain = ""
    _check_versions(model, file.name)
    names = [v.name for v in graph.output]
    if not names:
        raise ModelError(f"{file.name}: the model has no outputs")
    if len(set(names)) != len(names):
        raise ModelError(f"{file.name}: output names repeat: {', '.join(names)}")
    shell = _shell_of(model)
    arrays = dict(file.arrays)
    numbers = _numbers(model, nodes, [*arrays.values(), *file.small]) if open_dimensions else None
    both = [v.name for v in graph.input if v.name in arrays]
    # Before IR version 4 every initializer had to be an input as well.
    overridable = [name for name in both if model.ir_version >= 4]
    defaults = {name: arrays.pop(name) for name in overridable if keep_inputs}
    inputs = [v for v in graph.input if v.name not in arrays]
    for value in inputs:
        if value.name in defaults:
            value.type.CopyFrom(type_proto(TensorType.of(defaults[value.name])))
    foreign = tuple(v for v in inputs if v.type.WhichOneof("value") not in (None, "tensor_type"))
    tensors = tuple(v for v in inputs if v.type.WhichOneof("value") in (None, "tensor_type"))
    symbols = _bind_dimensions(tensors, [*graph.value_info, *graph.output], dims, numbers)
    for what in ("initializer", "sparse_initializer", "input"):
        graph.ClearField(what)
    graph.input.extend((*tensors, *foreign))
    for name, array in arrays.items():
        graph.input.append(onnx.helper.make_value_info(name, type_proto(TensorType.of(array))))
    sort_nodes(model)
    check_model(model, file.name, full=False)
    for node in walk(graph.node):
        _check_attributes(node)
    notes: tuple[str, ...] = ()
    if overridable and not keep_inputs:
        shown = ", ".join(overridable[:5]) + (", …" if len(overridable) > 5 else "")
        notes = (
            f"{len(overridable)} inputs have initial values and are read as weights: {shown} "
            "(keep_inputs=True keeps them as inputs)",
        )
    known = numbers or frozenset()
    return Prepared(inlined(model), tensors, arrays, shell, foreign, defaults, notes, symbols, known)


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


def _check_names(model: ModelProto, nodes: Sequence[NodeProto], name: str) -> None:
    """Reject names that are not text, which protobuf returns as bytes."""
    graph = model.graph
    names = [graph.name, *(v.name for v in (*graph.input, *graph.output, *graph.initializer))]
    for node in nodes:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        names += [a.name for a in node.attribute]
    if (text := next((t for t in names if not isinstance(t, str)), None)) is not None:
        raise ModelError(f"{name}: the name {text!r} is not text")


def _numbers(model: ModelProto, nodes: Sequence[NodeProto], stored: Sequence[np.ndarray]) -> frozenset[int]:
    """Return the numbers in a model: extents of its weights, small integer tensors, attributes."""
    found: set[int] = set()
    for attr in (attr for node in nodes for attr in node.attribute):
        found.update((*attr.ints, attr.i, *attr.t.dims))
    for array in stored:
        found.update(array.shape)
        if array.size <= SMALL and array.dtype in (np.int64, np.int32):
            found.update(array.reshape(-1).tolist())
    for value in model.graph.input:
        if value.type.HasField("tensor_type"):
            found.update(d.dim_value for d in value.type.tensor_type.shape.dim)
    return frozenset(n for n in found if 10 < n < 1 << 40)


def _check_versions(model: ModelProto, name: str) -> None:
    versions = {o.domain: o.version for o in model.opset_import}
    newest, here = onnx.defs.onnx_opset_version(), f"the newest in onnx {onnx.__version__}"
    if not versions:
        raise ModelError(
            f"{name} declares no operator set: it is too old or truncated (try exporting it again)"
        )
    opset = versions.get("", newest)
    if opset > newest:
        raise ModelError(
            f"{name} must use an operator set up to {newest}, {here}, got {opset} (try a newer onnx, or "
            "onnx.version_converter)"
        )
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"{name} must use an operator set from {OLDEST_OPSET} on, got {opset} "
            "(try onnx.version_converter)"
        )
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{name} must have an IR version up to {onnx.IR_VERSION}, {here}, got {model.ir_version} "
            "(try a newer onnx)"
        )


def _bind_dimensions(
    inputs: Sequence[ValueInfoProto],
    others: Iterable[ValueInfoProto],
    dims: Dims,
    numbers: frozenset[int] | None = None,
) -> tuple[Symbol, ...]:
    """Set every symbolic dimension of the inputs to its extent, in place.

    A dimension without a name is called ``input[axis]``; an input without a shape takes a whole shape under
    its own name. A dimension that is not bound is left open if ``numbers`` are given, and it is one of the
    symbols that are returned; its extent is none of the numbers. Otherwise raise :class:`ModelError` with the
    names of the unbound dimensions. The named dimensions of the other values are set too.
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
            stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
            pairs = zip(stated, given, strict=False)
            same = len(stated) == len(given) and all(s in (None, g) for s, g in pairs)
            if tensor.HasField("shape") and not same:
                raise ModelError(f"dims[{value.name!r}] must fit {stated} in the model, got {tuple(given)}")
            used.add(value.name)
            del tensor.shape.dim[:]
            for extent in given:
                tensor.shape.dim.add().dim_value = _extent(value.name, extent)
        if not tensor.HasField("shape"):
            name = value.name
            unbound[name] = f"input {name!r} has no shape at all: pass dims={{{name!r}: (1, …)}}"
            continue
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            place = f"{value.name}[{axis}]"
            key = next((k for k in (place, dim.dim_param) if k and k in dims), None)
            if key is None:
                name = dim.dim_param or place
                if numbers is None:
                    at = f"axis {axis} of input {value.name!r}"
                    unbound.setdefault(name, f"{at} is the unbound dimension {name!r}")
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


def _extent(name: str, extent: object) -> int:
    try:
        number = operator.index(extent)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(extent, bool):
        raise ModelError(f"dims[{name!r}] must be a positive integer, got {extent!r}")
    return number


# -- what nodes read and make ------------------------------------------------------------------------------
def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs among a node's attributes (branches of If, bodies of Loop and Scan)."""
    for attr in node.attribute:
        if attr.type == attr.GRAPH:
            yield attr.g
        elif attr.type == attr.GRAPHS:
            yield from attr.graphs


def walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes and the nodes of their subgraphs, at any depth."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from walk(graph.node)


def label(node: NodeProto) -> str:
    """Return the description of a node in messages: operator, name if it has one, first output."""
    name = f" {node.name!r}" if node.name else ""
    made = next((o for o in node.output if o), "")
    return f"node {node.op_type}{name}" + (f" (makes {made!r})" if made else "")


def defined(graph: GraphProto) -> set[str]:
    """Return the names that a subgraph defines, without those of deeper subgraphs."""
    names = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    names |= {t.values.name for t in graph.sparse_initializer}
    return names | {o for n in graph.node for o in n.output}


def _captured_by(graph: GraphProto) -> Iterator[str]:
    read = [name for node in graph.node for name in (*node.input, *captured(node)) if name]
    own = defined(graph)
    yield from (name for name in (*read, *(v.name for v in graph.output)) if name not in own)


def captured(node: NodeProto) -> list[str]:
    """Return the outer values that a node's subgraphs read, without repeats, in order of first use."""
    return list(dict.fromkeys(name for graph in subgraphs(node) for name in _captured_by(graph)))


def read_by(node: NodeProto) -> list[str]:
    """Return all values that a node and its subgraphs read, without repeats, in order."""
    return list(dict.fromkeys([*(i for i in node.input if i), *captured(node)]))


def read_in_place(model: ModelProto) -> None:
    """Let products read large stored matrices transposed, which unoptimised models copy in every run."""
    graph = model.graph
    matrices = (t for t in graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) == 2)
    large = {t.name for t in matrices if 4 * math.prod(t.dims) >= TIED}
    transposed = {
        node.output[0]: node
        for node in graph.node
        if (node.op_type, node.domain) == ("Transpose", "") and node.input[0] in large
        if [list(a.ints) for a in node.attribute] in ([], [[1, 0]])
    }
    if not transposed:
        return
    read = Counter(name for node in walk(graph.node) for name in node.input)
    read.update(value.name for value in graph.output)
    for node in graph.node:
        source = transposed.get(node.input[1]) if node.op_type == "MatMul" and not node.domain else None
        if source is not None:
            node.input[1], node.op_type, node.domain = source.input[0], "FusedMatMul", _OWN_DOMAIN
            node.attribute.append(onnx.helper.make_attribute("transB", 1))
            read[source.output[0]] -= 1
    for name, source in transposed.items():
        if not read[name]:
            graph.node.remove(source)
    if all(entry.domain != _OWN_DOMAIN for entry in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(_OWN_DOMAIN, 1))


# -- order and validity ------------------------------------------------------------------------------------
def sort_nodes(model: ModelProto) -> None:
    """Sort the nodes so that operands come first; reject cycles and undefined values."""
    graph = model.graph
    maker: dict[str, int] = {}
    given = {v.name for v in graph.input}
    for i, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in maker:
                raise ModelError(f"{label(graph.node[maker[name]])} and {label(node)} both make {name!r}")
            if name in given:
                raise ModelError(f"{label(node)} makes {name!r}, which is an input or initializer already")
            maker[name] = i
    needs: dict[int, list[int]] = {}
    for i, node in enumerate(graph.node):
        read = read_by(node)
        if (lost := next((n for n in read if n not in maker and n not in given), None)) is not None:
            raise ModelError(f"{label(node)} reads {lost!r}, which no node, input or initializer defines")
        needs[i] = [maker[name] for name in read if name in maker]
    for value in graph.output:
        if value.name not in maker and value.name not in given:
            raise ModelError(f"output {value.name!r} is not made by any node")
    try:
        order = topological(needs, needs.__getitem__)
    except graphlib.CycleError as error:
        circle = " → ".join(label(graph.node[i]) for i in reversed(error.args[1]))
        raise ModelError(f"the model has a cycle: {circle}") from None
    if order == list(needs):
        return
    nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _set_aside_unknown(model: ModelProto) -> None:
    """Move operators that are missing from the default operator set into a separate domain, in place.

    ONNX Runtime supports some of them (``LayerNormalization`` before operator set 17); the checker does not.
    """
    opset = next((o.version for o in model.opset_import if o.domain == ""), 0)
    moved = False
    for node in walk(model.graph.node):
        if node.domain == "":
            try:
                onnx.defs.get_schema(node.op_type, opset, "")
            except onnx.defs.SchemaError:
                node.domain = UNKNOWN_DOMAIN
                moved = True
    if moved:
        model.opset_import.append(onnx.helper.make_opsetid(UNKNOWN_DOMAIN, 1))


def check_model(model: ModelProto, name: str = "", *, full: bool = True) -> None:
    """Check a model with ``onnx``; raise :class:`ModelError` with a name, by default that of its graph.

    Large weights are left out of the checked copy, because only their types matter for the check. All types are
    inferred if ``full``.
    """
    bare = ModelProto()
    for field_name in ("ir_version", "producer_name"):
        setattr(bare, field_name, getattr(model, field_name))
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph = model.graph
    bare.graph.name = graph.name
    bare.graph.node.extend(graph.node)
    bare.graph.input.extend(graph.input)
    # The checker requires types of outputs and shapes of tensors, runtimes do not.
    bare.graph.output.extend(
        v
        for v in graph.output
        if v.type.WhichOneof("value") not in (None, "tensor_type") or v.type.tensor_type.HasField("shape")
    )
    if not full:  # otherwise their types are inferred
        bare.graph.value_info.extend(graph.value_info)
    for tensor in graph.initializer:
        if len(tensor.raw_data) <= 4096 and tensor.data_location != TensorProto.EXTERNAL:
            bare.graph.initializer.append(tensor)
        else:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tuple(tensor.dims))
            bare.graph.input.append(value)
    _set_aside_unknown(bare)
    try:
        onnx.checker.check_model(bare, full_check=full)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        text = one_line(str(error).replace("==> Context:", ";"), None)
        raise ModelError(f"{name or repr(graph.name)} is not valid ONNX: {text}") from None


#: The allowed values of attributes that the checker does not check, by operator ("" for any operator).
_CHOICES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "auto_pad"): ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Upsample", "mode"): ("nearest", "linear"),
    ("Gelu", "approximate"): ("none", "tanh"),
}
_POSITIVE: Final = frozenset({"group", "strides", "dilations", "kernel_shape", "hidden_size"})


def _check_attributes(node: NodeProto) -> None:
    """Reject attribute values that no runtime accepts."""
    for attr in node.attribute if node.domain == "" else ():
        known = _CHOICES.get((node.op_type, attr.name)) or _CHOICES.get(("", attr.name))
        text = attr.s.decode(errors="replace")
        if known is not None and attr.type == attr.STRING and text not in known:
            raise ModelError(f"{label(node)}: {attr.name} must be one of {', '.join(known)}, got {text!r}")
        numbers = list(attr.ints) if attr.type == attr.INTS else [attr.i] * (attr.type == attr.INT)
        if attr.name in _POSITIVE and any(number < 1 for number in numbers):
            raise ModelError(f"{label(node)}: {attr.name} must be at least 1, got {min(numbers)}")


# -- local functions -------------------------------------------------------------------------------------
def inlined(model: ModelProto) -> ModelProto:
    """Return the model with calls of local functions replaced by their bodies, if onnx can do so."""
    if not model.functions:
        return model
    nodes = _inlined_nodes(model)
    if nodes > MOST_NODES:
        made = f"make {nodes:.3g} nodes" if math.isfinite(nodes) else "call themselves"
        raise ModelError(f"the local functions of the model {made}; at most {MOST_NODES} nodes are inlined")
    try:
        # A call that a registered operator stands for is read as that operator.
        known = list(known_functions(model))
        found = onnx.inliner.inline_selected_functions(model, known, exclude=True)
        onnx.checker.check_model(found)
    except Exception:
        return model  # the calls are kept opaque, together with their functions
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """The environment that the nodes of a model need: operator sets and local functions."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionProto] = field(default_factory=dict)

    def functions_for(self, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
        """Return the local functions that nodes call, directly or through other functions."""
        found: dict[tuple[str, str], FunctionProto] = {}
        waiting = list(walk(nodes))
        while waiting:
            node = waiting.pop()
            key = (node.domain, node.op_type)
            if key in self.functions and key not in found:
                found[key] = self.functions[key]
                waiting += walk(found[key].node)
        return [found[key] for key in sorted(found)]

    def model(
        self,
        name: str,
        nodes: Sequence[NodeProto],
        inputs: Mapping[str, TypeProto],
        outputs: Mapping[str, TypeProto],
        stored: Sequence[TensorProto] = (),
    ) -> ModelProto:
        """Return nodes as a model, with the operator sets and local functions that they need.

        Args:
            name: The name of its graph.
            nodes: The nodes, in order.
            inputs: The inputs' types by name.
            outputs: The outputs' types by name.
            stored: The stored tensors.
        """
        functions = self.functions_for(nodes)
        domains = {n.domain for n in walk(nodes)} | {n.domain for f in functions for n in walk(f.node)}
        opsets = {d: v for d, v in self.opsets.items() if d in domains}
        info = onnx.helper.make_value_info
        given, made = ([info(n, kind) for n, kind in side.items()] for side in (inputs, outputs))
        return onnx.helper.make_model(
            onnx.helper.make_graph(nodes, name, given, made, stored),
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in opsets.items()],
            ir_version=ir_version_for(opsets, bool(functions)),
            functions=functions,
            producer_name="workbench",
        )


def _inlined_nodes(model: ModelProto) -> float:
    """Return a model's number of nodes after inlining; infinity if a local function calls itself."""

    def calls(nodes: Iterable[NodeProto]) -> Counter[tuple[str, str, str]]:
        return Counter((n.domain, n.op_type, n.overload) for n in walk(nodes))

    made = {(f.domain, f.name, f.overload): calls(f.node) for f in model.functions}
    sizes: dict[tuple[str, str, str], float] = {}
    needs = {key: [callee for callee in found if callee in made] for key, found in made.items()}
    try:
        for key in graphlib.TopologicalSorter(needs).static_order():
            sizes[key] = sum(count * sizes.get(callee, 1.0) for callee, count in made[key].items())
    except graphlib.CycleError:
        return math.inf
    return sum(count * sizes.get(key, 1.0) for key, count in calls(model.graph.node).items())


def known_functions(model: ModelProto) -> Iterator[tuple[str, str]]:
    """Yield the functions of a model that are exactly those of registered operators, as (domain, name).

    A function of the same name that computes something else is not among them: the model's own definition
    counts.
    """
    for function in model.functions:
        spec = own_form(function.domain, function.name)
        if spec is None or spec.export is None or Trait.CARRIED not in spec.traits:
            continue
        opset = next((o.version for o in function.opset_import if o.domain == ""), 0)
        carried: list[FunctionProto | str] = []
        # A writer that keeps the function of the operator and writes nothing.
        writer = SimpleNamespace(opset=opset, function=carried.append, node=lambda *given, **attrs: "y")
        attrs = spec.unpack(spec.pack({}))
        with contextlib.suppress(OpsetTooOld):
            spec.export(writer, list(function.input), attrs, [], TensorType("float32", ()))
        parts = ("input", "output", "node")
        for given in (f for f in carried[-1:] if isinstance(f, FunctionProto)):
            if all(list(getattr(given, part)) == list(getattr(function, part)) for part in parts):
                yield function.domain, function.name
