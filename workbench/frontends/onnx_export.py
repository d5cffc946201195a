"""Export graphs as ONNX models.

Weight-only work is computed first, in float64, and rounded once. Each operator writes itself; the
writer adds what only the whole graph shows: slices that partition an axis become one Split, a constant
added to a convolution becomes its bias, chains of reshapes become one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto

import workbench
from workbench.frontends.onnx_file import ModelError, check_model, ir_version_for
from workbench.frontends.onnx_mapped import Apart
from workbench.frontends.onnx_names import Fresh, inner_names, read_by
from workbench.frontends.onnx_opaque import paste, payload_of
from workbench.frontends.onnx_peephole import Plan, plan
from workbench.frontends.onnx_shapes import SymbolTable
from workbench.frontends.onnx_stream import joined, may_be_apart, placeholder, write_apart
from workbench.frontends.onnx_values import type_proto
from workbench.frontends.onnx_versions import (
    candidate_opsets,
    default_opset,
    loadable_ir,
    loads,
    opset_imports,
)
from workbench.graph import Graph, Node, fold_constants
from workbench.ops import spec_of
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.types import TensorType

#: A weight that repeats one element is written as ConstantOfShape from this size on.
GENERATED_ELEMENTS: Final = 4096


def save_onnx(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    opset: int | None = None,
    fold: bool = True,
    symbols: SymbolTable | None = None,
) -> None:
    """Write a graph to an ONNX file that appears whole or not at all; see :func:`to_onnx`.

    Weights beyond 1.8 GiB go to ``<name>.data`` beside it. Raise OSError where the place is not writable.
    """
    write_apart(to_onnx_apart(graph, opset=opset, fold=fold, symbols=symbols), path)


def to_onnx(
    graph: Graph,
    *,
    opset: int | None = None,
    fold: bool = True,
    whole: bool = True,
    symbols: SymbolTable | None = None,
) -> ModelProto:
    """Return a graph as an ONNX model with the same inputs and outputs, names and order kept.

    Opaque operators are written back unchanged, and so is what else the file said that the graph was read
    from: documentation, properties, names of nodes and values that are still there, and, unless
    ``whole=False``, the nodes that follow the graph. Without ``opset`` it is that of the file, or the oldest
    one after it in which all can be written and that ONNX Runtime loads; 21 or 22 for a graph that comes
    from no file. With ``fold`` weight-only parts are computed first. What ``symbols`` tells of generic
    extents becomes symbolic dimensions. Raise :class:`ModelError` where the graph has no form in the
    operator set.
    """
    return joined(to_onnx_apart(graph, opset=opset, fold=fold, whole=whole, symbols=symbols))


def to_onnx_apart(
    graph: Graph,
    *,
    opset: int | None = None,
    fold: bool = True,
    whole: bool = True,
    symbols: SymbolTable | None = None,
) -> Apart:
    """Return a graph as an ONNX model whose large weights lie beside it, as they are in memory or in a file.

    In the model they are placeholders, which
    :func:`~workbench.frontends.onnx_shared.shared_session` takes; for the rest see :func:`to_onnx`.
    """
    if fold:
        # A part that overflows, or has an index out of range, does so in the model: its operators stay.
        graph = fold_constants(graph, keep_overflow=True)
    shell = shell_of(graph)
    payloads = {key: payload_of(record) for key, record in graph.opaques.items()}
    tail = ModelProto()
    if whole and graph.info is not None:
        tail.ParseFromString(graph.info.tail)
    pieces = [*payloads.values(), tail] if tail.graph.output else list(payloads.values())
    own = default_opset(shell)
    failure: ValueError | None = None
    written: Apart | None = None
    for version in candidate_opsets(pieces, opset, own):
        try:
            imports = opset_imports(pieces, version)
            model = _writer(symbols)(graph, payloads, imports, shell, tail, whole).run()
        except (OpsetTooOld, ModelError) as error:
            failure = failure or error
            continue
        if own is None or opset is not None or version == own or loads(model):
            return model
        written = written or model
    if written is not None:  # the runtime may not load the model as it came either
        return written
    raise ModelError(f"{graph.name!r} cannot be written: {failure}") from None


def _writer(symbols: SymbolTable | None) -> Callable[..., _Writer]:
    if symbols is None:
        return _Writer
    from workbench.frontends.onnx_symbolic import symbolic_writer

    return symbolic_writer(symbols)


def shell_of(graph: Graph) -> ModelProto:
    """Return what the file of a graph says beside its nodes; an empty model where there is no file."""
    shell = ModelProto()
    if graph.info is not None:
        shell.ParseFromString(graph.info.shell)
    return shell


class _Writer:
    """Write a graph; also the :class:`workbench.ops.onnx_form.Emitter` that operators write to."""

    def __init__(
        self,
        graph: Graph,
        payloads: Mapping[str, ModelProto],
        imports: dict[str, int],
        shell: ModelProto,
        tail: ModelProto,
        whole: bool,
    ) -> None:
        self.graph = graph
        self.whole = whole
        self.shell = shell
        self.tail = tail
        self.plan: Plan = plan(graph)
        self.payloads = payloads
        self.imports = imports
        names = [*graph.input_types, *graph.output_types]
        inside = {name for p in self.payloads.values() for name in inner_names(p.graph.node)}
        after = {o for node in tail.graph.node for o in (*node.output, *read_by(node)) if o}
        after |= inner_names(tail.graph.node)
        self.fresh = Fresh(set(names) | inside | after)
        self.node_names = Fresh(node.name for node in tail.graph.node)
        self.kinds: dict[str, TensorType] = {}
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        self.names: dict[int, str | list[str]] = {}
        self.projects: dict[int, list[int]] = {}
        for j in self.plan.order:
            if graph.nodes[j].op == "project":
                self.projects.setdefault(self.plan.reads[j][0], []).append(j)
        self.final: dict[int, str] = {}
        self.plan_outputs = {self.plan.resolved(i) for i in graph.output_ids}

    @property
    def opset(self) -> int:
        """Return the version of the default operator set that is written."""
        return self.imports[""]

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Write a node with one output and return its name; attributes that are ``None`` are omitted."""
        return self._node(op_type, inputs, [self.fresh("v")], attrs)[0]

    def _node(
        self, op_type: str, inputs: Sequence[str], outputs: list[str], attrs: Mapping[str, Any]
    ) -> list[str]:
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items() if v is not None}
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), outputs, **given))
        return outputs

    def constant(self, array: np.ndarray) -> str:
        """Return the name of a constant: an initializer that holds ``array``."""
        return self.plain(array)

    def plain(self, array: np.ndarray) -> str:
        """Return the name of an initializer that holds ``array``; equal small ones are shared."""
        key = (str(array.dtype), array.shape, array.tobytes()) if array.size <= 64 else None
        if key is None or key not in self.shared:
            name = self.fresh("c")
            self.arrays[name] = array
            if key is None:
                return name
            self.shared[key] = name
        return self.shared[key]

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return ``name`` in another shape; an initializer is rewritten instead of computed."""
        if name in self.arrays:
            return self.plain(self.arrays[name].reshape(shape))
        return self.node("Reshape", [name, self.constant(np.asarray(shape, dtype=np.int64))])

    def run(self) -> Apart:
        """Write all nodes and return the model, its large weights apart."""
        for name, i in self.graph.outputs:
            source = self.plan.resolved(i)
            if self.graph.nodes[source].op not in ("input", "weight"):
                self.final.setdefault(source, name)
        for i in self.plan.order:
            label = self.graph.labels.get(i)
            # A value that is still computed keeps its name, unless that means something else by now.
            if label is not None and i not in self.final and label.value not in self.fresh.taken:
                self.final[i] = self.fresh.exactly(label.value)
                self.kinds[label.value] = self.graph.nodes[i].tensor
        for i in self.graph.inputs:
            self.names[i] = self.graph.nodes[i].attr("name")
        for i in self.plan.order:
            if i not in self.names:
                self._write(i, self.graph.nodes[i])
        asked = {v.name for v in (*self.shell.graph.output, *self.tail.graph.input)}
        for name, i in self.graph.outputs:
            source = self.plan.resolved(i)
            if self.names[source] != name and (name in asked or not self.tail.graph.output):
                self._node("Identity", [self._name(source)], [name], {})
        return self._model()

    def _name(self, i: int) -> str:
        name = self.names[i]
        assert isinstance(name, str)
        return name

    def _write(self, i: int, node: Node) -> None:
        if node.op == "weight":
            self._weight(i, node.attr("name"))
        elif node.op == "opaque":
            self._opaque(i, node)
        elif node.op == "project":
            self.names[i] = self.names[self.plan.reads[i][0]][node.attr("index")]
        elif i in self.plan.parts:
            self._split(self.plan.parts[i])
        else:
            self._modelled(i, node)

    def _weight(self, i: int, key: str) -> None:
        array = self.graph.weights[key].value()
        shared = self.graph.info is not None and self.graph.info.tail_arrays.get(key) is array
        name = key if shared and self.tail.graph.output else self.fresh.exactly(key)
        if array.size >= GENERATED_ELEMENTS and not any(
            stride for stride, extent in zip(array.strides, array.shape, strict=True) if extent > 1
        ):
            shape = self.constant(np.asarray(array.shape, dtype=np.int64))
            element = onnx.numpy_helper.from_array(array.reshape(-1)[:1].copy())
            self._node("ConstantOfShape", [shape], [name], {"value": element})
        else:
            self.arrays[name] = array
        self.names[i] = name

    def _modelled(self, i: int, node: Node) -> None:
        convolution = self.plan.bias.get(i)
        if convolution is not None:
            node = self.graph.nodes[convolution]
        reads = self.plan.reads[i]
        export = spec_of(node.op).export
        assert export is not None, node.op
        before = len(self.nodes)
        types = [self.graph.nodes[j].tensor for j in reads]
        name = export(self, [self._name(j) for j in reads], node.named_attrs(), types, node.tensor)
        if i in self.final:
            if len(self.nodes) > before and self.nodes[-1].output[0] == name:
                self.nodes[-1].output[0] = self.final[i]
                name = self.final[i]
            elif i in self.plan_outputs:
                self._node("Identity", [name], [self.final[i]], {})
                name = self.final[i]
        self._describe(i, before)
        self.names[i] = name

    def _describe(self, i: int, before: int) -> None:
        """Give the node that is still there the name and documentation it had."""
        label = self.graph.labels.get(i)
        if label is None:
            return
        node = next((n for n in reversed(self.nodes[before:]) if n.op_type == label.op_type), None)
        if node is None:
            return
        if label.name:
            node.name = self.node_names.exactly(label.name)
        if label.doc:
            node.doc_string = label.doc
        if not node.metadata_props:
            for key, value in label.properties:
                node.metadata_props.add(key=key, value=value)

    def _split(self, members: tuple[int, ...]) -> None:
        node = self.graph.nodes[members[0]]
        axis = node.tensor.rank + node.attr("axis")
        sizes = [self.graph.nodes[j].tensor.shape[axis] for j in members]
        outputs = [self.final.get(j) or self.fresh("v") for j in members]
        source = [self._name(self.plan.reads[members[0]][0])]
        before = len(self.nodes)
        if self.opset < 13:
            self._node("Split", source, outputs, {"axis": axis, "split": sizes})
        else:
            lengths = self.constant(np.asarray(sizes, dtype=np.int64))
            self._node("Split", [*source, lengths], outputs, {"axis": axis})
        self._describe(members[0], before)
        self.names.update(zip(members, outputs, strict=True))

    def _opaque(self, i: int, node: Node) -> None:
        payload = ModelProto()
        payload.CopyFrom(self.payloads[node.attr("key")])
        count = len(payload.graph.output)
        wanted: list[str | None] = [self.final.get(i)] if count == 1 else [None] * count
        projects = self.projects.get(i, [])
        for j in projects:
            if j in self.final:
                index = self.graph.nodes[j].attr("index")
                wanted[index] = wanted[index] or self.final[j]
        inputs = [self._name(j) for j in self.plan.reads[i]]
        nodes, tensors, results = paste(payload, inputs, wanted, self.fresh)
        label = self.graph.labels.get(i if count == 1 else next(iter(projects), i))
        if len(nodes) == 1 and label is not None:  # equal operators share a payload, not their names
            nodes[0].name = label.name
        for inner in nodes:
            if inner.name:
                inner.name = self.node_names.exactly(inner.name)
        self.nodes += nodes
        for tensor in tensors:
            self.arrays[tensor.name] = onnx.numpy_helper.to_array(tensor)
        for function in payload.functions:
            self.functions.setdefault((function.domain, function.name), function)
        self.names[i] = results[0] if count == 1 else results

    def _model(self) -> Apart:
        inputs, outputs = self._interface()
        self._follow()
        used = {name for node in self.nodes for name in read_by(node)}
        own = self.shell.graph
        graph = onnx.helper.make_graph(self.nodes, self.graph.name or "graph", inputs, outputs)
        if own.doc_string:
            graph.doc_string = own.doc_string
        graph.metadata_props.extend(own.metadata_props)
        made = {o for node in self.nodes for o in node.output} - {v.name for v in outputs}
        for value in own.value_info:
            if value.name in made and value.name in self.kinds:
                graph.value_info.append(described(value, self._type(self.kinds[value.name])))
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in self.imports.items()],
            functions=[self.functions[k] for k in sorted(self.functions)],
            producer_name=self.shell.producer_name or "workbench",
            producer_version=self.shell.producer_version
            if self.shell.producer_name
            else workbench.__version__,
            ir_version=max(
                ir_version_for(self.imports, bool(self.functions)) if self._raised() else 4,
                loadable_ir(self.shell.ir_version),
            ),
        )
        for field in ("domain", "model_version", "doc_string"):
            if self.shell.HasField(field):
                setattr(model, field, getattr(self.shell, field))
        model.metadata_props.extend(self.shell.metadata_props)
        defaults = {} if self.graph.info is None else self.graph.info.defaults
        apart: dict[str, np.ndarray] = {}
        for name, array in (self.arrays | dict(defaults)).items():
            if name not in used and name not in defaults:
                continue
            if may_be_apart(array):
                model.graph.initializer.append(placeholder(name, TensorType.of(array)))
                apart[name] = array
            else:
                model.graph.initializer.add().CopyFrom(onnx.numpy_helper.from_array(array, name))
        try:
            check_model(model)
        except ModelError:
            # Shape inference trips over some valid operators; then it does so over the opaque one alone.
            pieces = [*self.payloads.values(), *([self.tail] if self.tail.graph.output else [])]
            if not any(_inference_fails(piece) for piece in pieces):
                raise
            check_model(model, full=False)
        return Apart(model, apart)

    def _type(self, kind: TensorType, source: str = "") -> TypeProto:
        """Return a value's type as it is declared; ``source`` names an input."""
        return type_proto(kind)

    def _raised(self) -> bool:
        """Say whether the model needs another IR version than the one it had."""
        same = all(o.version >= self.imports.get(o.domain, 0) for o in self.shell.opset_import)
        return not self.shell.ir_version or not same

    def _interface(self) -> tuple[list[ValueInfoProto], list[ValueInfoProto]]:
        """Return inputs and outputs as they are declared, in the order that the file had."""
        shell, tail = self.shell.graph, {v.name: v for v in self.tail.graph.output}
        given = {v.name: v for v in shell.input}
        made = {v.name: v for v in shell.output}
        inputs = {n: described(given.get(n), self._type(k, n), n) for n, k in self.graph.input_types.items()}
        outputs = {n: described(made.get(n), self._type(k), n) for n, k in self.graph.output_types.items()}
        if not self.whole:
            return list(inputs.values()), list(outputs.values())
        inputs |= {n: v for n, v in given.items() if v.type.WhichOneof("value") not in (None, "tensor_type")}
        if tail:  # outputs of the graph that only the tail reads are no outputs of the model
            outputs = {n: v for n, v in outputs.items() if n in made} | tail
        order, place = list(given), list(made)
        return (
            sorted(inputs.values(), key=lambda v: order.index(v.name) if v.name in given else 0),
            sorted(outputs.values(), key=lambda v: place.index(v.name) if v.name in made else 0),
        )

    def _follow(self) -> None:
        """Write the nodes that follow the graph, as they came."""
        if not self.tail.graph.output:
            return
        assert self.graph.info is not None
        self.nodes += self.tail.graph.node
        self.arrays |= self.graph.info.tail_arrays
        for function in self.tail.functions:
            self.functions.setdefault((function.domain, function.name), function)


def described(stated: ValueInfoProto | None, kind: TypeProto, name: str = "") -> ValueInfoProto:
    """Return a value's declaration: what was said of it, with the type that it has."""
    value = ValueInfoProto()
    if stated is not None:
        value.CopyFrom(stated)
    denotation, axes = value.type.denotation, [d.denotation for d in value.type.tensor_type.shape.dim]
    value.name = value.name or name
    value.type.CopyFrom(kind)
    if denotation:
        value.type.denotation = denotation
    for dim, text in zip(value.type.tensor_type.shape.dim, axes, strict=False):
        if text:
            dim.denotation = text
    return value


def _inference_fails(payload: ModelProto) -> bool:
    try:
        check_model(payload)
    except ModelError:
        return True
    return False
