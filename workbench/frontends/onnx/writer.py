"""The writer of graphs as ONNX models, node by node.

A symbolic dimension has a generic extent in the graph. Its name is declared in the file, and sizes that depend
on it are computed at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from workbench._version import __version__
from workbench.frontends.model import ModelError, SymbolTable
from workbench.frontends.onnx.file import Apart, copied, ir_version_for, may_be_apart, placeholder
from workbench.frontends.onnx.opaque import Fresh, inner_names, paste
from workbench.frontends.onnx.prepare import check_model, read_by
from workbench.frontends.onnx.symbolic_writer import ShapeWriter
from workbench.graph import Graph, Node
from workbench.graph.dataflow import read_transposed
from workbench.ops import spec_of
from workbench.ops.activations import export_activation
from workbench.ops.inputs_and_opaque import NAMED
from workbench.ops.types import DTYPE_CODES, TensorType
from workbench.support.orders import postorder

#: A weight that repeats one element is written as ConstantOfShape if it has at least this many elements.
GENERATED_ELEMENTS: Final = 4096


class Writer:
    """The export of one graph, and the :class:`workbench.ops.onnx_form.Emitter` that operators write to.

    ``payloads`` are the models of opaque operators by name, ``imports`` the operator sets by domain, ``shell`` is the
    file's content except its nodes, ``tail`` the nodes that follow the ``graph``, ``symbols`` are the dimensions of its
    generic extents. The model has at least ``ir_version``, and the file's inputs and outputs if it is ``whole``.
    """

    def __init__(
        self,
        graph: Graph,
        payloads: Mapping[str, ModelProto],
        imports: dict[str, int],
        shell: ModelProto,
        ir_version: int,
        tail: ModelProto,
        whole: bool,
        symbols: SymbolTable,
    ) -> None:
        self.graph, self.payloads, self.imports, self.shell = graph, payloads, imports, shell
        self.opset = imports[""]
        self.ir_version, self.tail, self.whole, self.symbols = ir_version, tail, whole, symbols
        self.sizes = ShapeWriter(self, symbols.generic, symbols.sources)
        self.operands: dict[str, TensorType] = {}
        self.plan: Plan = plan(graph)
        inside = {name for p in self.payloads.values() for name in inner_names(p.graph.node)}
        after = {o for node in tail.graph.node for o in (*node.output, *read_by(node)) if o}
        after |= inner_names(tail.graph.node)
        self.fresh = Fresh({*graph.input_types, *graph.output_types} | inside | after)
        self.node_names = Fresh(node.name for node in tail.graph.node)
        self.kinds: dict[str, TensorType] = {}
        self.called: dict[str, TensorType] = {}
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.shared: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        self.names: dict[int, str | list[str]] = {}
        self.projects = [j for j in self.plan.order if graph.nodes[j].op == "project"]
        self.final: dict[int, str] = {}
        self.plan_outputs = {self.plan.resolved(i) for i in graph.output_ids}

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Write a node with one output and return its name; attributes that are ``None`` are omitted.

        ``op_type`` is the name of an operator of the default domain, or ``domain::name``.
        """
        return self._node(op_type, inputs, [self.fresh("v")], attrs)[0]

    def _node(
        self, op_type: str, inputs: Sequence[str], outputs: list[str], attrs: Mapping[str, Any]
    ) -> list[str]:
        self.sizes.check(op_type, attrs)
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items() if v is not None}
        domain, _, name = op_type.rpartition("::")
        self.imports.setdefault(domain, 1)
        self.nodes.append(onnx.helper.make_node(name, list(inputs), outputs, domain=domain or None, **given))
        return outputs

    def constant(self, array: np.ndarray) -> str:
        """Return the name of a constant: an initializer, or computed if it depends on a symbolic dimension."""
        return self.sizes.vector(array.tolist()) if self.sizes.depends(array) else self.plain(array)

    def plain(self, array: np.ndarray) -> str:
        """Return the name of an initializer with the data ``array``; equal small ones are shared."""
        key = (str(array.dtype), array.shape, array.tobytes()) if array.size <= 64 else None
        name = self.shared.get(key) if key is not None else None
        if name is None:
            name = self.fresh("c")
            self.arrays[name] = array
            if key is not None:
                self.shared[key] = name
        return name

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return ``name`` in another shape; an initializer is rewritten instead of reshaped at run time."""
        if name in self.arrays:
            return self.plain(self.arrays[name].reshape(shape))
        return self.node("Reshape", [name, self.sizes.shape(self.operands.get(name), shape)])

    def function(self, given: FunctionProto | str) -> None:
        """Let the model carry a function along: a FunctionProto, or ONNX's textual syntax; once is enough."""
        found = onnx.parser.parse_function(given) if isinstance(given, str) else given
        self.functions.setdefault((found.domain, found.name), found)

    def run(self) -> Apart:
        """Write all nodes and return the model, with its large weights apart."""
        for name, i in self.graph.outputs:
            source = self.plan.resolved(i)
            if self.graph.nodes[source].op not in NAMED:
                self.final.setdefault(source, name)
        for i in self.plan.order:
            label = self.graph.labels.get(i)
            # A value that is still computed keeps its name, unless another value has taken the name.
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
        array, info = self.graph.weights[key].value(), self.graph.info
        shared = info is not None and info.tail_arrays.get(key) is array and self.tail.graph.output
        self.names[i] = name = key if shared else self.fresh.exactly(key)
        strides = zip(array.strides, array.shape, strict=True)
        if array.size >= GENERATED_ELEMENTS and not any(s for s, extent in strides if extent > 1):
            shape = self.constant(np.asarray(array.shape, dtype=np.int64))
            element = onnx.numpy_helper.from_array(array.reshape(-1)[:1].copy())
            self._node("ConstantOfShape", [shape], [name], {"value": element})
        else:
            self.arrays[name] = array

    def _modelled(self, i: int, node: Node) -> None:
        node = self.graph.nodes[self.plan.bias[i]] if i in self.plan.bias else node
        reads = self.plan.reads[i]
        export = spec_of(node.op).export
        assert export is not None, node.op
        before = len(self.nodes)
        types = [self.graph.nodes[j].tensor for j in reads]
        names = [self._name(j) for j in reads]
        self.operands |= zip(names, types, strict=True)
        if i in self.plan.products:
            name = self._product(*self.plan.products[i], names)
        else:
            attrs = self.sizes.slice_attrs(node.op, node.named_attrs(), types)
            name = export(self, names, attrs, types, node.tensor)
        if i in self.final:
            if len(self.nodes) > before and self.nodes[-1].output[0] == name:
                self.nodes[-1].output[0] = name = self.final[i]
            elif i in self.plan_outputs:
                (name,) = self._node("Identity", [name], [self.final[i]], {})
        self._describe(i, before)
        self.names[i] = name

    def _product(self, product: int, transposed: tuple[bool, bool], names: Sequence[str]) -> str:
        """Write a product that reads an operand transposed, with the constant that it absorbs."""
        node = self.graph.nodes[product]
        if len(names) == 2 and self.opset < 11:  # the third operand was not optional before
            names = [*names, self.constant(np.zeros((), node.tensor.numpy_dtype()))]
        left, right = (int(flag) or None for flag in transposed)
        y = self.node("Gemm", names, transA=left, transB=right)
        return export_activation(self, y, node.attr("act"), node.tensor)

    def _describe(self, i: int, before: int) -> None:
        """Restore the original name and documentation of the node that still exists."""
        label = self.graph.labels.get(i)
        alike = (n for n in reversed(self.nodes[before:]) if label is not None and n.op_type == label.op_type)
        node = next(alike, None)
        if label is None or node is None:
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
        source, before = [self._name(self.plan.reads[members[0]][0])], len(self.nodes)
        old = self.opset < 13
        lengths = [] if old else [self.constant(np.asarray(sizes, dtype=np.int64))]
        self._node("Split", [*source, *lengths], outputs, {"axis": axis, "split": sizes if old else None})
        self._describe(members[0], before)
        self.names.update(zip(members, outputs, strict=True))

    def _opaque(self, i: int, node: Node) -> None:
        payload = copied(self.payloads[node.attr("key")])
        count = len(payload.graph.output)
        wanted: list[str | None] = [self.final.get(i)] if count == 1 else [None] * count
        projects = [j for j in self.projects if self.plan.reads[j][0] == i]
        for j in projects:
            index = self.graph.nodes[j].attr("index")
            wanted[index] = wanted[index] or self.final.get(j)
        inputs = [self._name(j) for j in self.plan.reads[i]]
        nodes, tensors, results = paste(payload, inputs, wanted, self.fresh)
        label = self.graph.labels.get(i if count == 1 else next(iter(projects), i))
        if len(nodes) == 1 and label is not None:  # equal operators share a payload but not their names
            nodes[0].name = label.name
        for inner in nodes:
            if inner.name:
                inner.name = self.node_names.exactly(inner.name)
        self.nodes += nodes
        self.arrays |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
        for function in payload.functions:
            self.function(function)
        if payload.functions and count == 1:
            self.called[results[0]] = node.tensor
        self.names[i] = results[0] if count == 1 else results

    def _model(self) -> Apart:
        inputs, outputs = self._interface()
        if self.tail.graph.output:
            assert self.graph.info is not None
            self.nodes += self.tail.graph.node
            self.arrays |= self.graph.info.tail_arrays
            for function in self.tail.functions:
                self.function(function)
        used = {name for node in self.nodes for name in read_by(node)}
        shell, own = self.shell, self.shell.graph
        graph = onnx.helper.make_graph(self.nodes, self.graph.name or "graph", inputs, outputs)
        if own.doc_string:
            graph.doc_string = own.doc_string
        graph.metadata_props.extend(own.metadata_props)
        made = {o for node in self.nodes for o in node.output} - {v.name for v in outputs}
        # A runtime that has an operator in place of a function does not infer the type, and fuses less around it.
        stated = {v.name: v for v in own.value_info}
        kinds = ({n: self.kinds[n] for n in stated if n in self.kinds} | self.called).items()
        graph.value_info.extend(described(stated.get(n), self._type(k), n) for n, k in kinds if n in made)
        # Newer operator sets than the file's may need another IR version.
        newer = any(o.version < self.imports.get(o.domain, 0) for o in shell.opset_import)
        same = shell.ir_version and not newer
        least = 4 if same else ir_version_for(self.imports, bool(self.functions))
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in self.imports.items()],
            functions=[self.functions[k] for k in sorted(self.functions)],
            producer_name=shell.producer_name or "workbench",
            producer_version=shell.producer_version if shell.producer_name else __version__,
            ir_version=max(least, self.ir_version),
        )
        for field in ("domain", "model_version", "doc_string"):
            if shell.HasField(field):
                setattr(model, field, getattr(shell, field))
        model.metadata_props.extend(shell.metadata_props)
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
            # Shape inference fails for some valid operators, then also for the opaque operator alone.
            pieces = [*self.payloads.values(), *([self.tail] if self.tail.graph.output else [])]
            if not any(map(_inference_fails, pieces)):
                raise
            check_model(model, full=False)
        return Apart(model, apart)

    def _type(self, kind: TensorType, source: str = "") -> TypeProto:
        """Return the declared type of a value; ``source`` is its name if it is an input."""
        dims = self.symbols.dims(kind.shape, source)
        return onnx.helper.make_tensor_type_proto(DTYPE_CODES[kind.dtype], dims)

    def _result(self, stated: ValueInfoProto | None, found: ValueInfoProto) -> ValueInfoProto:
        """Return the declaration of an output; names and extents that the original declares stay."""
        if stated is None or not self.symbols.places or not stated.type.tensor_type.HasField("shape"):
            return found
        ours, theirs = found.type.tensor_type, stated.type.tensor_type.shape.dim
        if not ours.HasField("shape"):
            return stated
        if len(ours.shape.dim) == len(theirs):
            for dim, given in zip(ours.shape.dim, theirs, strict=True):
                if given.dim_param not in self.symbols.bound:
                    dim.CopyFrom(given)
        return found

    def _interface(self) -> tuple[list[ValueInfoProto], list[ValueInfoProto]]:
        """Return the declared inputs and outputs, in the order of the original file."""
        shell, tail = self.shell.graph, {v.name: v for v in self.tail.graph.output}
        given = {v.name: v for v in shell.input}
        made = {v.name: v for v in shell.output}
        inputs = {n: described(given.get(n), self._type(k, n), n) for n, k in self.graph.input_types.items()}
        outputs = {
            n: self._result(made.get(n), described(made.get(n), self._type(k), n))
            for n, k in self.graph.output_types.items()
        }
        if not self.whole:
            return list(inputs.values()), list(outputs.values())
        inputs |= {n: v for n, v in given.items() if v.type.WhichOneof("value") not in (None, "tensor_type")}
        if tail:  # outputs of the graph that only the tail reads are not outputs of the model
            outputs = {n: v for n, v in outputs.items() if n in made}
            outputs |= {n: self._result(made.get(n), v) for n, v in tail.items()}
        order, place = list(given), list(made)
        return (
            sorted(inputs.values(), key=lambda v: order.index(v.name) if v.name in given else 0),
            sorted(outputs.values(), key=lambda v: place.index(v.name) if v.name in made else 0),
        )


def described(stated: ValueInfoProto | None, kind: TypeProto, name: str = "") -> ValueInfoProto:
    """Return the declaration of a value: the stated one, if any, with the type ``kind``."""
    value = ValueInfoProto() if stated is None else copied(stated)
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


# -- decisions that need the whole graph: nodes passed through, fused or written together -----------------
#: Nodes by the node that they belong to.
_Reads = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The way in which a graph's nodes are written.

    ``reads[i]`` are the nodes that node ``i`` reads after identities are passed through, chains of reshapes
    skipped and biases absorbed; ``order`` are the nodes to write. ``alias`` maps an identity to the node that
    it passes through. ``bias`` maps a sum to the convolution that absorbs its constant as a bias and is
    written in its place. ``parts`` maps a slice to all slices (including itself, in order) that together
    partition one axis of one value. ``products`` maps a node to the product of two matrices that is written in
    its place, and which operands this reads transposed: the product itself, or its sum with a constant.
    """

    reads: _Reads
    order: tuple[int, ...]
    alias: dict[int, int]
    bias: dict[int, int]
    parts: _Reads
    products: dict[int, tuple[int, tuple[bool, bool]]]

    def resolved(self, node: int) -> int:
        """Return the node that computes the value of ``node``, which may be an identity."""
        return self.alias.get(node, node)


def plan(graph: Graph) -> Plan:
    """Plan how a graph is written."""
    nodes = graph.nodes
    alias: dict[int, int] = {}
    reads: _Reads = {}
    products: dict[int, tuple[int, tuple[bool, bool]]] = {}
    transposed = read_transposed(graph)
    for i, node in enumerate(nodes):
        operands = tuple(alias.get(j, j) for j in node.inputs)
        if node.op == "identity":
            alias[i] = operands[0]
            continue
        if node.op == "reshape":
            # Only the last shape of a chain counts; an inner reshape with other readers is still written.
            while nodes[operands[0]].op == "reshape":
                operands = reads[operands[0]]
        if node.op == "conv2d" and len(operands) == 3 and nodes[operands[2]].op == "reshape":
            # ONNX's bias has one axis, so a reshape made for the operator is not needed.
            operands = (*operands[:2], *reads[operands[2]])
        if node.op == "matmul" and transposed.intersection(operands):
            left, right = (j in transposed for j in operands)
            products[i] = i, (left, right)
            operands = tuple(reads[j][0] if j in transposed else j for j in operands)
        reads[i] = operands
    outputs = [alias.get(i, i) for i in graph.output_ids]
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    bias: dict[int, int] = {}
    readers = Counter(j for i in order for j in reads[i]) + Counter([*outputs, *outputs])
    for i in order:
        for product, constant in _absorbing(graph, i, reads, readers):
            if graph.nodes[product].op == "conv2d":
                bias[i] = product
            elif product in products:
                products[i] = products[product]
            else:
                continue
            reads[i] = (*reads[product], constant)
            break
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    return Plan(reads, order, alias, bias, _partitions(graph, order, reads), products)


def _absorbing(graph: Graph, i: int, reads: _Reads, readers: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the convolutions and products to which a sum adds a stored row, one number per channel, with the row."""
    for product, constant in (reads[i], reads[i][::-1]) if graph.nodes[i].op == "add" else ():
        node, row = graph.nodes[product], graph.nodes[constant]
        if node.op not in ("conv2d", "matmul") or row.op != "weight" or readers[product] != 1:
            continue
        if len(node.inputs) == 2 and node.attr("act") == "none" and graph.nodes[i].type == node.type:
            after = (node.tensor.shape[1], *((1, 1) if node.op == "conv2d" else ()))
            if row.tensor.shape in (after, (1, *after)):
                yield product, constant


def _partitions(graph: Graph, order: tuple[int, ...], reads: _Reads) -> _Reads:
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for i in order:
        node = graph.nodes[i]
        if node.op == "slice" and node.attr("step") == 1:
            cut = node.attr("start"), node.attr("stop"), i
            groups.setdefault((reads[i][0], node.attr("axis")), []).append(cut)
    parts: _Reads = {}
    for (value, axis), cuts in groups.items():
        starts, stops, members = zip(*sorted(cuts, key=lambda cut: cut[0]), strict=True)
        if (
            len(members) > 1
            and starts == (0, *stops[:-1])
            and stops[-1] == graph.nodes[value].tensor.shape[axis]
        ):
            parts |= dict.fromkeys(members, members)
    return parts
