"""Nodes of ONNX models: subgraphs, the names that they read and make, order, validity, local functions."""

from __future__ import annotations

import graphlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx
import onnx.checker
import onnx.inliner
import onnx.shape_inference
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from workbench.frontends.onnx.file import ModelError
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.registry import own_form
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.support.messages import one_line
from workbench.support.orders import topological

#: The limit on nodes after inlining: local functions may call each other, so a small file can expand to many.
MOST_NODES = 200_000

#: The domain of operators that are in no operator set, while the other operators are checked.
UNKNOWN_DOMAIN: Final = "workbench.unknown"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs among a node's attributes (branches of If, bodies of Loop and Scan)."""
    for attr in node.attribute:
        if attr.type == AttributeProto.GRAPH:
            yield attr.g
        elif attr.type == AttributeProto.GRAPHS:
            yield from attr.graphs


def all_nodes(model: ModelProto) -> list[NodeProto]:
    """Return the nodes of a model's graph and of its functions, with those of their subgraphs."""
    return [*walk(model.graph.node), *(node for f in model.functions for node in walk(f.node))]


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


def _defined(graph: GraphProto) -> set[str]:
    """Return the names that a subgraph defines, without those of deeper subgraphs."""
    names = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    names |= {t.values.name for t in graph.sparse_initializer}
    return names | {o for n in graph.node for o in n.output}


def _captured_by(graph: GraphProto) -> Iterator[str]:
    own = _defined(graph)
    for node in graph.node:
        for name in (*node.input, *captured(node)):
            if name and name not in own:
                yield name
    for value in graph.output:
        if value.name not in own:
            yield value.name


def captured(node: NodeProto) -> list[str]:
    """Return the outer values that a node's subgraphs read, without repeats, in order of first use."""
    return list(dict.fromkeys(name for graph in subgraphs(node) for name in _captured_by(graph)))


def read_by(node: NodeProto) -> list[str]:
    """Return all values that a node and its subgraphs read, without repeats, in order."""
    return list(dict.fromkeys([*(i for i in node.input if i), *captured(node)]))


def inner_names(nodes: Iterable[NodeProto]) -> set[str]:
    """Return every name that subgraphs of the nodes define, at any depth."""
    names: set[str] = set()
    for node in nodes:
        for graph in subgraphs(node):
            names |= _defined(graph) | inner_names(graph.node)
    return names


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename values in a node, in place; names that a subgraph defines itself are kept there."""
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            if name in names:
                field[i] = names[name]
    for graph in subgraphs(node):
        rename_free(graph, names)


def rename_free(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename the outer values that a subgraph reads, in place."""
    own = _defined(graph)
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        rename(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)


class Fresh:
    """A generator of names that are not taken.

    >>> fresh = Fresh({"v0"})
    >>> fresh("v"), fresh("v"), fresh.exactly("y"), fresh.exactly("y")
    ('v1', 'v2', 'y', 'y_1')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def __call__(self, prefix: str) -> str:
        """Return the prefix with the next free number."""
        number = self._next.get(prefix, 0)
        while f"{prefix}{number}" in self.taken:
            number += 1
        self._next[prefix] = number + 1
        self.taken.add(f"{prefix}{number}")
        return f"{prefix}{number}"

    def exactly(self, name: str) -> str:
        """Return the name itself if it is free, otherwise the name with a number appended."""
        if name in self.taken:
            self._next.setdefault(f"{name}_", 1)
            return self(f"{name}_")
        self.taken.add(name)
        return name


def sort_nodes(model: ModelProto) -> None:
    """Sort the nodes so that operands come first; reject cycles and undefined values."""
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
                raise ModelError(f"{label(node)} reads {name!r}, which no node, input or initializer defines")
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
    """Check a model with ``onnx``; raise :class:`ModelError`.

    Large weights are left out of the checked copy, because only their types matter for the check.

    Args:
        model: The model.
        name: The name of the model in the error; by default that of its graph.
        full: Whether all types are inferred.
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


def check_nodes(model: ModelProto, name: str) -> None:
    """Check the nodes of a model with ``onnx``, and the values of their attributes; raise :class:`ModelError`."""
    check_model(model, name, full=False)
    for node in walk(model.graph.node):
        _check_attributes(node)


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


def _inlined_nodes(model: ModelProto) -> float:
    """Return a model's number of nodes after inlining; infinity if a local function calls itself."""
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


def known_functions(model: ModelProto) -> Iterator[tuple[str, str]]:
    """Yield the functions of a model that are exactly those of registered operators, as (domain, name).

    A function of the same name that computes something else is not among them: the model's own definition
    counts.
    """
    for function in model.functions:
        spec = own_form(function.domain, function.name)
        if spec is None or spec.export is None or Trait.CARRIED not in spec.traits:
            continue
        recorder = _Recorder(next((o.version for o in function.opset_import if o.domain == ""), 0))
        unknown = TensorType("float32", ())
        try:
            spec.export(recorder, list(function.input), spec.unpack(spec.pack({})), [], unknown)
        except OpsetTooOld:
            continue
        if isinstance(recorder.given, FunctionProto) and _same(recorder.given, function):
            yield function.domain, function.name


@dataclass(slots=True)
class _Recorder:
    """A writer that keeps the function of an operator and writes nothing."""

    opset: int
    given: Any = None

    def function(self, given: FunctionProto | str) -> None:
        """Keep a function."""
        self.given = given

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Return a name."""
        return "y"


def _same(a: FunctionProto, b: FunctionProto) -> bool:
    return (list(a.input), list(a.output), list(a.node)) == (list(b.input), list(b.output), list(b.node))
