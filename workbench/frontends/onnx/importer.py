"""Import of ONNX models: every valid model becomes a :class:`Graph`, with a report of modelled operators.

The steps are: parse and check; bind symbolic dimensions; infer types and compute shape arithmetic node by
node; read each node with its operator's importer, or keep it opaque if there is no importer. Nodes that
exchange values without a static tensor type (sequences, data-dependent shapes) are kept opaque together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from workbench.egraph.at_sizes import GIVEN, typed
from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.model import Dims, Model, ModelError, check_elements
from workbench.frontends.onnx.constant_folding import doubled, settled
from workbench.frontends.onnx.file import (
    Source,
    copied,
    dense_array,
    names_as_text,
    read_tensors,
    tensor_array,
    type_proto,
)
from workbench.frontends.onnx.idioms import whole
from workbench.frontends.onnx.import_units import Unit, cut_tail, live_nodes, units
from workbench.frontends.onnx.opaque import Fresh, Origin, cut, inner_names, rename
from workbench.frontends.onnx.prepare import Prepared, label, prepare
from workbench.frontends.onnx.shape_inference import (
    NodeView,
    Values,
    fits,
    python_value,
    show_type,
    static_type,
)
from workbench.frontends.onnx.symbolic_values import SizedValues
from workbench.graph import Graph, GraphBuilder, Label, ModelInfo
from workbench.graph.dataflow import without_neutral
from workbench.ops.inputs_and_opaque import NAMED
from workbench.ops.onnx_form import NotModelled, importer_of
from workbench.ops.types import FLOAT_DTYPES, TypeMismatch


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported model: its graph, and the report of modelled operators."""

    graph: Graph
    coverage: Coverage

    def __repr__(self) -> str:
        return f"{self.graph!r}\n{self.coverage!r}"

    def model(self, **more: Any) -> Model:
        """Return the model that is searched as this graph, with more of its attributes."""
        return Model(self.graph, self.graph, self.coverage, **more)


def load_onnx(
    source: Source, *, dims: Dims | None = None, fold: bool = True, keep_inputs: bool = False
) -> Graph:
    """Return an ONNX model as a graph.

    The arguments and errors are those of :func:`import_onnx`, which also reports the modelled operators.
    """
    return import_onnx(source, dims=dims, fold=fold, keep_inputs=keep_inputs).graph


def import_onnx(
    source: Source, *, dims: Dims | None = None, fold: bool = True, keep_inputs: bool = False
) -> Imported:
    """Import an ONNX model from a path, from bytes or from a ``ModelProto``.

    Weights and the names of inputs and outputs are kept. Nodes that make outputs with a data-dependent shape,
    or outputs that are not tensors, are stored next to the graph (:class:`~workbench.graph.ModelInfo`) and
    written back with it.

    Args:
        source: The model.
        dims: Extents of the inputs' symbolic dimensions: ``{"batch": 1}``. A dimension without a name is
            called ``input[axis]``; an input without a shape takes a whole one: ``{"x": (1, 3, 224, 224)}``.
        fold: Whether shape arithmetic is computed.
        keep_inputs: Whether initializers that are also inputs stay inputs, with default values; otherwise
            they become weights.

    Returns:
        The graph and the coverage report.

    Raises:
        ModelError: The model is malformed or ill-typed, or a dimension is unbound. (A ValueError.)
        OSError: The model cannot be read.
    """
    with names_as_text():
        prepared = prepare(read_tensors(source), dims or {}, keep_inputs=keep_inputs)
        return import_prepared(prepared, fold=fold)


def import_prepared(
    prepared: Prepared, *, fold: bool = True, values: SizedValues | None = None, aside: bool = False
) -> Imported:
    """Import a prepared model.

    Args:
        prepared: The model.
        fold: Whether shape arithmetic is computed.
        values: Types and small constants, if the model has generic extents.
        aside: Whether all nodes are kept unchanged, next to the graph.
    """
    return _Import(prepared, values or Values(prepared.model, fold=fold), values, aside=aside).run()


class _Import:
    """The import of one prepared model."""

    def __init__(
        self, prepared: Prepared, values: Values, sized: SizedValues | None = None, *, aside: bool = False
    ) -> None:
        self.model = prepared.model
        self.prepared = prepared
        self.inputs = prepared.inputs
        self.arrays = prepared.arrays
        self.stored = frozenset(prepared.arrays)
        self.notes = prepared.notes
        self.outputs = [v.name for v in self.model.graph.output]
        self.values = values
        self.generic = None if sized is None else sized.generic
        self.aside = aside
        self.proved: set[int] = set()
        self.origin = Origin.of(self.model)
        self.builder = GraphBuilder(self.model.graph.name or "graph")
        self.place: dict[str, int] = {}
        self.numbers: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self.uses: list[OperatorUse] = []

    def run(self) -> Imported:
        """Import the model."""
        for value in self.inputs:
            try:
                kind = static_type(value.type)
            except ModelError as error:
                raise ModelError(f"input {value.name!r}: {error}") from None
            if kind is None:
                raise ModelError(f"input {value.name!r} has the type {show_type(value.type)}")
            self.values.types[value.name] = value.type
            self.place[value.name] = self.builder.input(value.name, kind.shape, kind.dtype)
        total = sum(self.builder.type(i).elements for i in self.builder.inputs)
        check_elements(total, f"all {len(self.builder.inputs)} inputs together")
        for value in self.prepared.foreign:
            self.values.types[value.name] = value.type
        for name, array in self.arrays.items():
            self.values.add_constant(name, array)
        nodes = live_nodes(self.model.graph.node, self.outputs)
        unused = len(self.model.graph.node) - len(nodes)
        live = nodes if self.aside else live_nodes(self._plan(nodes), self.outputs)
        foreign = [v.name for v in self.prepared.foreign]
        tail = cut_tail(live, self.model.graph.output, foreign, self.values, self.origin, self.arrays)
        if tail is not None:
            live, self.outputs = live_nodes(tail.before, tail.outputs), list(tail.outputs)
            self.notes += (tail.note(),)
        self._check_outputs()
        for unit in units(live, self.outputs, self.values):
            self._build(unit)
        for node, reason in tail.reasons() if tail is not None else ():
            self._used(node, "opaque", reason)
        if not self.outputs:
            self.outputs = [nothing := "workbench.nothing"]  # a graph needs at least one output
            self.place[nothing] = self.builder.weight(data=np.zeros(1, np.float32), name=nothing)
        self.builder.info = ModelInfo(
            self.prepared.shell.SerializeToString(deterministic=True),
            self.prepared.defaults,
            b"" if tail is None else tail.model.SerializeToString(deterministic=True),
            {} if tail is None else tail.arrays,
        )
        graph = self.builder.graph([(name, self._value(name)) for name in self.outputs])
        graph = doubled(whole(without_neutral(settled(graph)))) if self.values.folds else graph
        return Imported(graph, Coverage(tuple(self.uses), unused, self.notes))

    def _plan(self, nodes: Sequence[NodeProto]) -> list[NodeProto]:
        """Infer types and constants; return the nodes, with decided branches in place of If."""
        fresh = Fresh({o for n in self.model.graph.node for o in n.output} | set(self.values.types))
        fresh.taken |= inner_names(self.model.graph.node)
        planned: list[NodeProto] = []
        waiting = list(reversed(nodes))
        while waiting:
            node = waiting.pop()
            if node.op_type == "Constant" and node.domain == "":
                self._constant(node)
            elif (branch := self._decided(node)) is not None:
                waiting += reversed(self._spliced(node, branch, fresh))
            else:
                self.values.visit(node)
                planned.append(node)
        return planned

    def _constant(self, node: NodeProto) -> None:
        if len(node.attribute) != 1:
            raise ModelError(f"{label(node)} must have one value, got {len(node.attribute)}")
        (attr,) = node.attribute
        if attr.name == "value":
            array = tensor_array(attr.t, None)
        elif attr.name == "sparse_value":
            array = dense_array(attr.sparse_tensor, None)
        else:
            dtype = {"f": np.float32, "i": np.int64, "s": object}[attr.name.removeprefix("value_")[0]]
            array = np.asarray(python_value(attr), dtype=dtype)
        self.arrays[node.output[0]] = array
        self.values.add_constant(node.output[0], array)

    def _decided(self, node: NodeProto) -> onnx.GraphProto | None:
        """Return the branch that an If always takes, or ``None`` if the condition is unknown."""
        if node.op_type != "If" or node.domain != "" or node.input[0] not in self.values.known:
            return None
        condition = self.values.known[node.input[0]]
        if condition.size != 1:
            return None
        name = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        return next((a.g for a in node.attribute if a.name == name), None)

    def _spliced(self, node: NodeProto, branch: onnx.GraphProto, fresh: Fresh) -> list[NodeProto]:
        inside = copied(branch)
        own = [t.name for t in inside.initializer] + [o for n in inside.node for o in n.output if o]
        names = {name: fresh.exactly(name) for name in own}
        for tensor in inside.initializer:
            array = tensor_array(tensor, None)
            self.arrays[names[tensor.name]] = array
            self.values.add_constant(names[tensor.name], array)
        for inner in inside.node:
            rename(inner, names)
        ends = [
            onnx.helper.make_node("Identity", [names.get(v.name, v.name)], [outer])
            for v, outer in zip(inside.output, node.output, strict=True)
            if outer
        ]
        return [*inside.node, *ends]

    def _check_outputs(self) -> None:
        for value in self.model.graph.output:
            kind = self.values.tensor(value.name)
            if kind is None:
                continue  # the tail makes it
            if not fits(value.type, type_proto(kind)):
                raise ModelError(
                    f"output {value.name!r} is declared {show_type(value.type)} but the model computes {kind}"
                )

    def _value(self, name: str) -> int:
        """Return the graph value for a name; a constant becomes a weight when it is first read."""
        if name not in self.place and (made := self.values.computed(name)) is not None:
            record, read, key = made
            (self.place[name],) = self.builder.opaque(record, [self._value(n) for n in read], key)
        if name not in self.place:
            array = self.arrays[name] if name in self.arrays else self.values.known[name]
            self.place[name] = (
                self._weight(name, array) if name in self.stored else self._constant_weight(name, array)
            )
        return self.place[name]

    def _weight(self, name: str, array: np.ndarray) -> int:
        while name in self.builder.weights:
            name += "_"
        return self.builder.weight(data=array, name=name)

    def _constant_weight(self, name: str, array: np.ndarray) -> int:
        """Return a constant of the nodes; a number that they repeat is one weight, read by all of them."""
        if array.size != 1 or array.dtype == object:
            return self._weight(name, array)
        number = (str(array.dtype), array.shape, array.tobytes())
        if number not in self.numbers:
            self.numbers[number] = self._weight(name, array)
        return self.numbers[number]

    def _build(self, unit: Unit) -> None:
        reason = unit.reason
        if not reason:
            (node,) = unit.nodes
            if self._computed(node):
                self._used(node, "constant")
                return
            reason = self._model(node, unit.leaving)
            if not reason:
                stored = all(self.builder.nodes[self.place[o]].op == "weight" for o in unit.leaving)
                self._used(node, "constant" if stored else "modelled")
                return
        self._keep(unit, reason)
        for node in unit.nodes:
            self._used(node, "opaque", reason)

    def _used(self, node: NodeProto, fate: str, reason: str = "") -> None:
        self.uses.append(OperatorUse(node.op_type, node.domain, node.name, fate, reason))

    def _computed(self, node: NodeProto) -> bool:
        """Return whether a node's results are constants to be computed at import instead of at export.

        Arithmetic on float weights is left to the export, which computes in float64 and rounds once.
        """
        results = [o for o in node.output if o]
        if not all(o in self.values.known for o in results):
            return False
        if importer_of(node.op_type, node.domain) is None:
            return True
        if node.op_type == "ConstantOfShape":
            return False  # its importer creates a weight that stores its repeated element only once
        kinds = [self.values.tensor(name) for name in (*node.input, *results) if name]
        if any(kind is None or kind.dtype not in FLOAT_DTYPES for kind in kinds):
            return True
        return all(self.values.known[i].size <= 1 for i in node.input if i in self.values.known)

    def _model(self, node: NodeProto, wanted: frozenset[str]) -> str:
        """Read a node with its operator's importer; return the reason if that fails, otherwise nothing."""
        importer = importer_of(node.op_type, node.domain)
        if importer is None:
            return "not modelled"
        view = NodeView(node, self.values, self.builder, self._value, wanted)
        if reason := self.values.kept(node, view):
            return reason
        try:
            made = importer(view)
        except (NotModelled, TypeMismatch) as refusal:
            return str(refusal)
        results = [made] if isinstance(made, int) else list(made)
        pairs = [(o, v) for o, v in zip(node.output, results, strict=False) if o]
        for name, value in pairs:
            if self.builder.type(value) != self.values.tensor(name):
                return f"ONNX infers {self.values.tensor(name)}, the workbench {self.builder.type(value)}"
        if reason := self._unproved([value for _, value in pairs]):
            return reason
        self.place.update(pairs)
        properties = tuple((p.key, p.value) for p in node.metadata_props)
        for name, value in pairs:
            if self.builder.nodes[value].op not in NAMED:
                made_by = Label(name, node.op_type, node.name, node.doc_string, properties)
                self.builder.labels.setdefault(value, made_by)
        return ""

    def _unproved(self, values: Sequence[int]) -> str:
        """Return why values may not have their types at every size, if the model has generic extents."""
        if self.generic is None:
            return ""
        nodes, waiting = self.builder.nodes, list(values)
        new: set[int] = set()
        while waiting:
            i = waiting.pop()
            if i not in self.proved and i not in new and nodes[i].op not in GIVEN:
                new.add(i)
                waiting += nodes[i].inputs
        for i in sorted(new):
            node = nodes[i]
            try:
                typed(node.op, node.attrs, [nodes[j].tensor for j in node.inputs], node.tensor, self.generic)
            except TypeMismatch as refusal:
                return f"it is not proved for every size: {refusal}"
            self.proved.add(i)
        return ""

    def _keep(self, unit: Unit, reason: str) -> None:
        """Keep nodes unchanged, as one opaque operator."""
        piece = cut(unit.nodes, unit.leaving, self.values, self.origin, reason)
        key = piece.key if piece.record.deterministic else f"{piece.key}_{len(self.builder.opaques)}"
        record = self.builder.opaques.get(key, piece.record)
        results = self.builder.opaque(record, [self._value(name) for name in piece.operands], key)
        self.place.update(zip(piece.results, results, strict=True))
        only = unit.nodes[0] if len(unit.nodes) == 1 else NodeProto()
        properties = tuple((p.key, p.value) for p in only.metadata_props)
        for name, value in zip(piece.results, results, strict=True):
            made_by = Label(name, only.op_type, only.name, only.doc_string, properties)
            self.builder.labels.setdefault(value, made_by)
