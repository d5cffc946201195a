"""Export graphs as ONNX models.

Weight-only work is computed first, in float64, and rounded once. Each operator writes itself; the
writer adds what only the whole graph shows: slices that partition an axis become one Split, a constant
added to a convolution becomes its bias, chains of reshapes become one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

import workbench
from workbench.frontends.onnx_file import ModelError, check_model, ir_version_for
from workbench.frontends.onnx_mapped import Apart
from workbench.frontends.onnx_names import Fresh, inner_names, read_by
from workbench.frontends.onnx_opaque import changed_operators, paste, payload_of
from workbench.frontends.onnx_peephole import Plan, plan
from workbench.frontends.onnx_stream import joined, may_be_apart, placeholder, write_apart
from workbench.frontends.onnx_values import type_proto
from workbench.graph import Graph, Node, fold_constants
from workbench.ops import spec_of
from workbench.ops.onnx_form import OpsetTooOld
from workbench.ops.types import TensorType

#: What is written where nothing asks for another operator set: old enough for every runtime in use.
DEFAULT_OPSET: Final = 21
#: Tried where an operator cannot be written in the default one.
NEWER_OPSET: Final = 22
OLDEST_OPSET: Final = 9

#: A weight that repeats one element is written as ConstantOfShape from this size on.
GENERATED_ELEMENTS: Final = 4096


def save_onnx(
    graph: Graph, path: str | os.PathLike[str], *, opset: int | None = None, fold: bool = True
) -> None:
    """Write a graph to an ONNX file that appears whole or not at all; see :func:`to_onnx`.

    Weights beyond 1.8 GiB go to ``<name>.data`` beside it. Raise OSError where the place is not writable.
    """
    write_apart(to_onnx_apart(graph, opset=opset, fold=fold), path)


def to_onnx(graph: Graph, *, opset: int | None = None, fold: bool = True) -> ModelProto:
    """Return a graph as an ONNX model with the same inputs and outputs, names and order kept.

    Opaque operators are written back unchanged. Without ``opset`` it is 21, or 22 where an operator
    needs it, or the one the opaque operators came from where they mean something else in these. With
    ``fold`` weight-only parts are computed first. Raise :class:`ModelError` where the graph has no form
    in the operator set.
    """
    return joined(to_onnx_apart(graph, opset=opset, fold=fold))


def to_onnx_apart(graph: Graph, *, opset: int | None = None, fold: bool = True) -> Apart:
    """Return a graph as an ONNX model whose large weights lie beside it, as they are in memory or in a file.

    In the model they are placeholders, which
    :func:`~workbench.frontends.onnx_shared.shared_session` takes; for the rest see :func:`to_onnx`.
    """
    if fold:
        # A part that overflows, or has an index out of range, does so in the model: its operators stay.
        graph = fold_constants(graph, keep_overflow=True)
    payloads = {key: payload_of(record) for key, record in graph.opaques.items()}
    failure: ValueError | None = None
    for version in candidate_opsets(list(payloads.values()), opset):
        try:
            imports = opset_imports(list(payloads.values()), version)
            return _Writer(graph, payloads, imports).run()
        except OpsetTooOld as error:
            failure = failure or error
    raise ModelError(f"{graph.name!r} cannot be written: {failure}") from None


class _Writer:
    """Write a graph; also the :class:`workbench.ops.onnx_form.Emitter` that operators write to."""

    def __init__(self, graph: Graph, payloads: Mapping[str, ModelProto], imports: dict[str, int]) -> None:
        self.graph = graph
        self.plan: Plan = plan(graph)
        self.payloads = payloads
        self.imports = imports
        names = [*graph.input_types, *graph.output_types]
        inside = {name for p in self.payloads.values() for name in inner_names(p.graph.node)}
        self.fresh = Fresh(set(names) | inside)
        self.node_names = Fresh()
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        self.names: dict[int, str | list[str]] = {}
        self.final: dict[int, str] = {}

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
            return self.constant(self.arrays[name].reshape(shape))
        return self.node("Reshape", [name, self.constant(np.asarray(shape, dtype=np.int64))])

    def run(self) -> Apart:
        """Write all nodes and return the model, its large weights apart."""
        for name, i in self.graph.outputs:
            source = self.plan.resolved(i)
            if self.graph.nodes[source].op not in ("input", "weight"):
                self.final.setdefault(source, name)
        for i in self.graph.inputs:
            self.names[i] = self.graph.nodes[i].attr("name")
        for i in self.plan.order:
            if i not in self.names:
                self._write(i, self.graph.nodes[i])
        for name, i in self.graph.outputs:
            source = self.plan.resolved(i)
            if self.names[source] != name:
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
        name = self.fresh.exactly(key)
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
            else:
                self._node("Identity", [name], [self.final[i]], {})
            name = self.final[i]
        self.names[i] = name

    def _split(self, members: tuple[int, ...]) -> None:
        node = self.graph.nodes[members[0]]
        axis = node.tensor.rank + node.attr("axis")
        sizes = [self.graph.nodes[j].tensor.shape[axis] for j in members]
        outputs = [self.final.get(j) or self.fresh("v") for j in members]
        source = [self._name(self.plan.reads[members[0]][0])]
        if self.opset < 13:
            self._node("Split", source, outputs, {"axis": axis, "split": sizes})
        else:
            lengths = self.constant(np.asarray(sizes, dtype=np.int64))
            self._node("Split", [*source, lengths], outputs, {"axis": axis})
        self.names.update(zip(members, outputs, strict=True))

    def _opaque(self, i: int, node: Node) -> None:
        payload = ModelProto()
        payload.CopyFrom(self.payloads[node.attr("key")])
        count = len(payload.graph.output)
        wanted: list[str | None] = [self.final.get(i)] if count == 1 else [None] * count
        for j in self.plan.order:
            if self.graph.nodes[j].op == "project" and self.plan.reads[j] == (i,) and j in self.final:
                index = self.graph.nodes[j].attr("index")
                wanted[index] = wanted[index] or self.final[j]
        inputs = [self._name(j) for j in self.plan.reads[i]]
        nodes, tensors, results = paste(payload, inputs, wanted, self.fresh)
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
        used = {name for node in self.nodes for name in read_by(node)}
        graph = onnx.helper.make_graph(
            self.nodes,
            self.graph.name or "graph",
            [onnx.helper.make_value_info(n, type_proto(k)) for n, k in self.graph.input_types.items()],
            [onnx.helper.make_value_info(n, type_proto(k)) for n, k in self.graph.output_types.items()],
        )
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in self.imports.items()],
            functions=[self.functions[k] for k in sorted(self.functions)],
            producer_name="workbench",
            producer_version=workbench.__version__,
            ir_version=ir_version_for(self.imports, bool(self.functions)),
        )
        apart: dict[str, np.ndarray] = {}
        for name, array in self.arrays.items():
            if name in used and may_be_apart(array):
                model.graph.initializer.append(placeholder(name, TensorType.of(array)))
                apart[name] = array
            elif name in used:
                model.graph.initializer.add().CopyFrom(onnx.numpy_helper.from_array(array, name))
        try:
            check_model(model)
        except ModelError:
            # Shape inference trips over some valid operators; then it does so over the opaque one alone.
            if not any(_inference_fails(payload) for payload in self.payloads.values()):
                raise
            check_model(model, full=False)
        return Apart(model, apart)


def _inference_fails(payload: ModelProto) -> bool:
    try:
        check_model(payload)
    except ModelError:
        return True
    return False


def candidate_opsets(payloads: Sequence[ModelProto], asked: int | None) -> list[int]:
    """Return the versions of the default operator set to try, best first."""
    newest = onnx.defs.onnx_opset_version()
    if asked is not None:
        if not OLDEST_OPSET <= asked <= newest:
            raise ModelError(f"operator sets {OLDEST_OPSET} to {newest} can be written, not {asked}")
        return [asked]
    own = {o.version for p in payloads for o in p.opset_import if o.domain == ""}
    own |= {max(v, OLDEST_OPSET) for v in own}
    return list(dict.fromkeys([DEFAULT_OPSET, NEWER_OPSET, *sorted(own, reverse=True)]))


def opset_imports(payloads: Sequence[ModelProto], opset: int) -> dict[str, int]:
    """Return the operator sets to write with this version of the default one.

    Raise :class:`OpsetTooOld` where an opaque operator means something else in it.
    """
    imports: dict[str, int] = {}
    for payload in payloads:
        for entry in payload.opset_import:
            known = imports.setdefault(entry.domain, entry.version)
            if entry.domain and known != entry.version:
                raise ModelError(
                    f"opaque operators need {entry.domain} in versions {known} and {entry.version}"
                )
        changed = changed_operators(payload, opset)
        if changed:
            raise OpsetTooOld(f"operator set {opset} defines {', '.join(changed)} otherwise than the model's")
    return dict(sorted((imports | {"": opset}).items()))
