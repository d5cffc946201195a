"""The tensor graph, immutable, typed and acyclic with several inputs and outputs, and its builder."""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.graph.weights import Weight
from workbench.ops import AttrValue, TensorType, Trait, TupleType, TypeMismatch, ValueType, spec_of
from workbench.ops.inputs_and_opaque import REFERENCES, RUNTIME
from workbench.ops.registry import replacements
from workbench.run.display import Face
from workbench.support.wings import offered

if TYPE_CHECKING:
    import graphviz
    import networkx as nx
    from onnx import ModelProto


@dataclass(frozen=True, slots=True)
class Label:
    """A model's names for a value and for the operator that makes it, with documentation and properties."""

    value: str = ""
    op_type: str = ""
    name: str = ""
    doc: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelInfo:
    """The parts of a model file other than its computation, kept in order to be written back.

    ``shell`` is the serialised ONNX model without nodes and stored tensors: producer, documentation,
    properties, declared inputs and outputs, types of inner values. ``defaults`` are the initial values of
    inputs that a caller may omit. ``tail`` is a serialised ONNX model of the nodes that follow the graph
    and are kept unchanged, because their values are not tensors of static shape. It reads outputs of the
    graph and inputs of ``shell`` that are not tensors, by name, and computes outputs of the model.
    ``tail_arrays`` are its stored tensors.
    """

    shell: bytes = field(repr=False)
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    tail: bytes = field(default=b"", repr=False)
    tail_arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)


def result_type(op: str, inputs: Sequence[ValueType], attrs: Sequence[AttrValue]) -> TensorType:
    """Return the type of an operator's result.

    Raise :class:`~workbench.ops.TypeMismatch` if the operands or attributes do not fit the operator.
    """
    given = op, tuple(inputs), tuple(attrs), replacements()
    try:
        return _remembered(*given)
    except TypeError:  # an attribute of a type that has no hash
        return _remembered.__wrapped__(*given)


@lru_cache(maxsize=1 << 14)
def _remembered(
    op: str,
    inputs: tuple[ValueType, ...],
    attrs: tuple[AttrValue, ...],
    replaced: int,  # types inferred before an operator was replaced may be stale
) -> TensorType:
    return spec_of(op).result_type(inputs, attrs)  # type: ignore[arg-type]


#: Adds a node's value to a copy: ``(builder, node's number, node, operands in the copy) -> value in the copy``,
#: or None for the node as it is.
Make = Callable[["Builder", int, "Node", list[int]], int | None]


class GraphError(ValueError):
    """Raised when a graph is ill-formed or cannot be run."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application with one result.

    ``inputs`` are positions of earlier nodes, ``attrs`` are in the order of the operator's spec. An
    opaque operator with several results has a tuple type; ``project`` nodes pick from the tuple.
    """

    op: str
    inputs: tuple[int, ...]
    attrs: tuple[AttrValue, ...]
    type: ValueType

    def attr(self, name: str) -> Any:
        """Return the attribute called ``name``."""
        return self.attrs[spec_of(self.op).attr_names.index(name)]

    def __repr__(self) -> str:
        from workbench.graph.text import node_text

        return f"Node {node_text(self)}"

    def named_attrs(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return spec_of(self.op).unpack(self.attrs)

    @property
    def tensor(self) -> TensorType:
        """Return the type of a tensor-valued node."""
        if not isinstance(self.type, TensorType):
            raise TypeMismatch(f"{self.op} must have a single result, got {self.type}")
        return self.type


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An operator of a model that is not modelled here, kept in its original serialised form.

    ``payload`` is a serialised ONNX model of its own. Its inputs are the operands in order, including outer
    values that subgraphs read; its outputs are the results. It contains the operator sets and local
    functions that it needs, can be run directly, and is written back unchanged. ``reason`` explains why
    the operator is not modelled. Records of deterministic operators with equal payloads share a key.
    """

    op_type: str
    domain: str
    results: tuple[TensorType, ...]
    payload: bytes = field(repr=False, default=b"")
    deterministic: bool = True
    reason: str = ""

    @property
    def type(self) -> ValueType:
        """Return the type of the node: a tensor, or a tuple of tensors."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Graph(Face):
    """A tensor program.

    ``nodes`` are in topological order. ``inputs`` and ``outputs`` keep the model's names and order; an
    input may be unused, and an output is a name and a node. ``weights`` and ``opaques`` contain the records
    to which the nodes ``weight[name]`` and ``opaque[key]`` refer. For a graph that was read from a file,
    ``info`` holds the rest of the file and ``labels`` the file's names of nodes. Build a graph with
    :class:`~workbench.graph.GraphBuilder`.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[str, int], ...]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    opaques: Mapping[str, Opaque] = field(default_factory=dict)
    name: str = "graph"
    info: ModelInfo | None = None
    labels: Mapping[int, Label] = field(default_factory=dict)
    _readers: tuple[tuple[int, ...], ...] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("weights", "opaques", "labels"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self._check()

    def _check(self) -> None:
        for i, node in enumerate(self.nodes):
            spec_of(node.op)
            if any(not 0 <= j < i for j in node.inputs):
                raise GraphError(f"node {i} ({node.op}) must read earlier nodes only, got {node.inputs}")
            expected: ValueType
            if node.op == "input":
                expected = node.type
            elif node.op in ("weight", "opaque"):
                records: Mapping[str, Any] = self.weights if node.op == "weight" else self.opaques
                if node.attrs[0] not in records:
                    raise GraphError(f"node {i} must refer to a record of the graph, got {node.attrs[0]!r}")
                expected = records[str(node.attrs[0])].type
            elif node.op == "project":
                source = self.nodes[node.inputs[0]].type
                if not isinstance(source, TupleType):
                    raise GraphError(f"node {i} (project) must read a tuple, got {source}")
                expected = source.elements[int(node.attrs[0])]  # type: ignore[arg-type]
            else:
                expected = result_type(node.op, [self.nodes[j].type for j in node.inputs], node.attrs)
            if expected != node.type:
                raise GraphError(f"node {i} ({node.op}) must have type {expected}, got {node.type}")
        for i in self.inputs:
            if self.nodes[i].op != "input":
                raise GraphError(f"graph input {i} must be an input node, got {self.nodes[i].op}")
        if not self.outputs:
            raise GraphError("a graph must have at least one output, got none")
        names = [name for name, _ in self.outputs]
        if len(set(names)) != len(names):
            raise GraphError(f"output names must be unique, got {names}")
        for name, i in self.outputs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"output {name} must be a node from 0 to {len(self.nodes) - 1}, got {i}")
            self.nodes[i].tensor  # noqa: B018  (raises when the output is a tuple)

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, f.name) for f in fields(self) if f.init)
        return Graph, tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    def skeleton(self) -> Graph:
        """Return the graph without the data of its weights and opaque operators."""
        weights = {name: Weight(w.type) for name, w in self.weights.items()}
        opaques = {key: replace(o, payload=b"") for key, o in self.opaques.items()}
        info = self.info and replace(self.info, defaults={}, tail_arrays={})
        return replace(self, weights=weights, opaques=opaques, info=info)

    def to_dot(self) -> graphviz.Source:
        """Return the graph as ``graphviz.Source``; see :func:`~workbench.graph.text.graph_dot`."""
        from workbench.graph.text import graph_dot

        return graph_dot(self)

    def to_svg(self) -> str:
        """Return a drawing as SVG, for which no other program is needed; a note counts what is left out."""
        return str(offered("graph_svg")(self), "utf-8")

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Return the nodes as a networkx graph, with an edge from each operand to its reader.

        A node has its ``op``, ``attrs`` by name and ``type``; an edge has the operand's ``position``.
        """
        import networkx as nx

        found: nx.MultiDiGraph[int] = nx.MultiDiGraph(name=self.name)
        for i, node in enumerate(self.nodes):
            found.add_node(i, op=node.op, attrs=node.named_attrs(), type=node.type)
            found.add_edges_from((j, i, {"position": k}) for k, j in enumerate(node.inputs))
        return found

    @staticmethod
    def from_onnx(model: object, **options: object) -> Graph:
        """Return an ONNX model as a graph; see :func:`workbench.load_onnx`."""
        return offered("load_onnx")(model, **options)

    def to_onnx(self) -> ModelProto:
        """Return the graph as an ONNX model; see :func:`workbench.to_onnx`."""
        return offered("to_onnx")(self)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Return the nodes that are outputs, in order."""
        return tuple(i for _, i in self.outputs)

    @property
    def input_types(self) -> dict[str, TensorType]:
        """Return the inputs' types by name."""
        return {self.nodes[i].attr("name"): self.nodes[i].tensor for i in self.inputs}

    @property
    def output_types(self) -> dict[str, TensorType]:
        """Return the outputs' types by name."""
        return {name: self.nodes[i].tensor for name, i in self.outputs}

    def reachable(self) -> list[bool]:
        """Return for every node whether an output depends on it."""
        return live(self.nodes, self.output_ids)

    def constant(self) -> list[bool]:
        """Return for every node whether it depends on weights alone or on nothing, and can be folded."""
        return constant_nodes(self.nodes)

    @property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Return for every node the nodes that read it, one entry per operand; computed once."""
        if self._readers is None:
            result: list[list[int]] = [[] for _ in self.nodes]
            for i, node in enumerate(self.nodes):
                for j in node.inputs:
                    result[j].append(i)
            object.__setattr__(self, "_readers", tuple(map(tuple, result)))
        assert self._readers is not None
        return self._readers

    def copied(
        self, make: Make | None = None, *, keep: Container[int] | None = None, share: bool = True
    ) -> Graph:
        """Return a copy; its weights, opaque operators, info and labels always travel.

        ``make`` adds the value of a node that is to be another one; operands that are not in the copy are -1. Of
        nodes that are not inputs, those of ``keep`` are copied, by default all. With ``share``, equal applications
        become one node.
        """
        builder = Builder(self.name, share=share)
        place = builder.copy(self, make, keep=keep)
        return builder.graph([(name, place[i]) for name, i in self.outputs])

    def structural_hash(self) -> str:
        """Return a digest of the structure: equal for graphs that differ only in the order of nodes.

        Weights are compared by name and type, not by value.
        """
        digests: list[bytes] = []
        for node in self.nodes:
            below = b"".join([digests[j] for j in node.inputs])
            content = repr((node.op, node.attrs, node.type)).encode() + below
            digests.append(hashlib.blake2b(content, digest_size=16).digest())
        outputs = b"".join(name.encode() + b"\0" + digests[i] for name, i in self.outputs)
        return hashlib.blake2b(outputs, digest_size=16).hexdigest()

    def operators(self) -> dict[str, int]:
        """Return the number of nodes per operator, without leaves."""
        return dict(Counter(node.op for node in self.nodes if node.op not in REFERENCES))

    def text(self) -> str:
        """Return the graph as text, one node per line."""
        from workbench.graph.text import format_graph

        return format_graph(self)

    def __repr__(self) -> str:
        counts = sorted(self.operators().items(), key=lambda kv: (-kv[1], kv[0]))
        ops = ", ".join(f"{n} {op}" for op, n in counts[:8]) + (", …" if len(counts) > 8 else "")
        lines = [f"Graph {self.name!r}: {len(self.nodes)} nodes ({ops})"]
        for label, types in (("in ", self.input_types), ("out", self.output_types)):
            shown = [f"{name}: {type_}" for name, type_ in list(types.items())[:4]]
            more = f" … {len(types)} in all" if len(types) > 4 else ""
            lines.append(f"  {label} {'; '.join(shown)}{more}")
        weights = sum(w.type.nbytes for w in self.weights.values())
        lines.append(f"  {len(self.weights)} weights, {weights / 2**20:.1f} MiB")
        return "\n".join(lines)


def constant_nodes(nodes: Iterable[Node]) -> list[bool]:
    """Return for every node whether it depends on weights alone or on nothing."""
    flags: list[bool] = []
    for node in nodes:
        flags.append(node.op not in RUNTIME and all(flags[j] for j in node.inputs))
    return flags


def live(nodes: Sequence[Node], roots: Iterable[int]) -> list[bool]:
    """Return for every node, operands first, whether a root depends on it."""
    seen = [False] * len(nodes)
    for i in roots:
        seen[i] = True
    for i in range(len(nodes) - 1, -1, -1):
        if seen[i]:
            for j in nodes[i].inputs:
                seen[j] = True
    return seen


def _extents(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of a shape as whole numbers; raise TypeMismatch if one is none."""
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise TypeMismatch(f"a shape must consist of whole numbers, got {shape!r}") from None


class Builder:
    """A collection of nodes from which a :class:`Graph` is made.

    Values are node positions (integers). Equal applications share a node unless ``share=False``.
    """

    def __init__(self, name: str = "graph", *, share: bool = True, seed: int = 0) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.weights: dict[str, Weight] = {}
        self.opaques: dict[str, Opaque] = {}
        self.info: ModelInfo | None = None
        self.labels: dict[int, Label] = {}
        self._share = share
        self._seed = seed
        self._seen: dict[tuple[Any, ...], int] = {}

    @classmethod
    def of(cls, graph: Graph) -> Builder:
        """Return a builder with the inputs, weights, opaque operators and info of a graph."""
        builder = cls(graph.name)
        builder.weights, builder.opaques, builder.info = dict(graph.weights), dict(graph.opaques), graph.info
        for name, kind in graph.input_types.items():
            builder.input(name, kind.shape, kind.dtype)
        return builder

    def copy(self, graph: Graph, make: Make | None = None, keep: Container[int] | None = None) -> list[int]:
        """Add the nodes of a graph with its weights, opaque operators, info and labels.

        Return the new place of every node, -1 for one that is not kept. The arguments are those of
        :meth:`Graph.copied`.
        """
        self.weights.update(graph.weights)
        self.opaques.update(graph.opaques)
        self.info = graph.info
        place: list[int] = []
        given = set(graph.inputs)
        for i, node in enumerate(graph.nodes):
            if keep is not None and i not in keep and i not in given:
                place.append(-1)
                continue
            operands = [place[j] for j in node.inputs]
            made = None if make is None else make(self, i, node, operands)
            if made is None and node.op == "input":
                made = self.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
            place.append(self.apply(node.op, operands, node.attrs) if made is None else made)
            if i in graph.labels:
                self.labels.setdefault(place[i], graph.labels[i])
        rank = {place[i]: k for k, i in enumerate(graph.inputs)}
        self.inputs.sort(key=lambda i: rank.get(i, -1))
        return place

    def _places(self, values: Sequence[int], what: str) -> tuple[int, ...]:
        """Return the positions of values; ``what`` names them in an error."""
        return tuple(values)

    def type(self, value: int) -> TensorType:
        """Return the type of a tensor."""
        return self.nodes[value].tensor

    def _add(self, node: Node) -> int:
        key = (node.op, node.inputs, node.attrs)
        if self._share and key in self._seen:
            return self._seen[key]
        self.nodes.append(node)
        self._seen[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> int:
        """Declare a graph input."""
        if any(self.nodes[i].attrs[0] == name for i in self.inputs):
            raise GraphError(f"input names must be unique, got {name!r}, which already exists")
        value = self._add(Node("input", (), (name,), TensorType(dtype, _extents(shape))))
        self.inputs.append(value)
        return value

    def unused(self, name: str) -> str:
        """Return a name that no weight has: this one, with underscores if need be."""
        while name in self.weights:
            name += "_"
        return name

    def weight(
        self,
        shape: Sequence[int] | None = None,
        data: np.ndarray | None = None,
        name: str | None = None,
        dtype: str = "float32",
    ) -> int:
        """Declare a weight with ``data``, or with random elements of the given shape.

        Args:
            shape: The extents; needed only without ``data``.
            data: The elements.
            name: The name; by default a new one.
            dtype: The element type of random elements; the builder's seed determines them.

        Raises:
            GraphError: If the name exists already, or neither shape nor data is given.
        """
        name = self.unused(f"w{len(self.weights)}") if name is None else name
        if name in self.weights:
            raise GraphError(f"weight names must be unique, got {name!r}, which already exists")
        if isinstance(shape, str):
            raise TypeMismatch(f"a shape must consist of whole numbers, got {shape!r} (try name={shape!r})")
        if isinstance(data, str):
            raise TypeMismatch(f"the data of a weight must be an array, got {data!r} (try dtype={data!r})")
        if data is None and shape is None:
            raise GraphError("a weight must have a shape or data, got neither")
        seed, extents = self._seed + len(self.weights) + 1, _extents(shape or ())
        made = Weight.of(data) if data is not None else Weight(TensorType(dtype, extents), seed=seed)
        self.weights[name] = made
        return self._add(Node("weight", (), (name,), made.type))

    def op(self, op: str, *inputs: int, **attrs: Any) -> int:
        """Apply a modelled operator; raise :class:`TypeMismatch` when the operands do not fit."""
        spec = spec_of(op)
        types = []
        for i in inputs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"{op}: operands must be from 0 to {len(self.nodes) - 1}, got {i}")
            types.append(self.nodes[i].type)
        packed = spec.pack(attrs)
        return self._add(Node(op, tuple(inputs), packed, result_type(op, types, packed)))

    def apply(self, op: str, inputs: Sequence[int], attrs: tuple[Any, ...]) -> int:
        """Apply an operator to attributes given in the order of its spec; an input is the one of that name."""
        if op == "input":
            for i in self.inputs:
                if self.nodes[i].attrs == tuple(attrs):
                    return i
            raise GraphError(f"an input must be declared before it is used, got {attrs[0]!r}")
        spec_of(op)
        types = [self.nodes[i].type for i in inputs]
        result: ValueType
        if op == "project":
            if not isinstance(types[0], TupleType):
                raise TypeMismatch(f"project: the operand must be a tuple, got {types[0]}")
            result = types[0].elements[attrs[0]]
        elif op in ("opaque", "weight"):
            result = (self.opaques if op == "opaque" else self.weights)[attrs[0]].type
        else:
            result = result_type(op, types, attrs)
        return self._add(Node(op, tuple(inputs), tuple(attrs), result))

    def opaque(self, record: Opaque, inputs: Sequence[int], key: str | None = None) -> list[int]:
        """Add an operator that is not modelled, kept in its original form; return its results.

        A key may be reused for the same deterministic operator, whose record is then shared.
        """
        key = key or f"{record.op_type}_{len(self.opaques)}"
        known = self.opaques.setdefault(key, record)
        if known is not record and not (record.deterministic and known.payload == record.payload):
            raise GraphError(f"keys of opaque operators must be unique, got {key!r}, which already exists")
        value = self._add(Node("opaque", tuple(inputs), (key,), record.type))
        if len(record.results) == 1:
            return [value]
        return [self._add(Node("project", (value,), (i,), kind)) for i, kind in enumerate(record.results)]

    def split(self, x: int, axis: int, sizes: Sequence[int]) -> list[int]:
        """Cut an axis into parts of the given sizes."""
        if sum(sizes) != self.type(x).shape[axis] or any(s <= 0 for s in sizes):
            whole = f"axis {axis} of {self.type(x)}"
            raise TypeMismatch(f"sizes must be positive and add up to {whole}, got {list(sizes)}")
        axis = axis if axis < 0 else axis - self.type(x).rank
        ends = itertools.pairwise(itertools.accumulate(sizes, initial=0))
        return [self.op("slice", x, axis=axis, start=start, stop=stop) for start, stop in ends]

    def graph(self, outputs: Mapping[str, int] | Sequence[tuple[str, int]]) -> Graph:
        """Return the graph with these outputs, without nodes that no output depends on; inputs are kept."""
        given = list(outputs.items() if isinstance(outputs, Mapping) else outputs)
        places = self._places([i for _, i in given], "outputs")
        pairs = [(name, i) for (name, _), i in zip(given, places, strict=True)]
        for _, i in pairs:
            if not 0 <= i < len(self.nodes):
                raise GraphError(f"outputs must be from 0 to {len(self.nodes) - 1}, got {i}")
        alive = live(self.nodes, [*self.inputs, *(i for _, i in pairs)])
        position = {i: k for k, i in enumerate(itertools.compress(range(len(alive)), alive))}
        nodes = itertools.compress(self.nodes, alive)
        kept = [Node(n.op, tuple([position[j] for j in n.inputs]), n.attrs, n.type) for n in nodes]
        used = {node.attrs[0] for node in kept if node.op in ("weight", "opaque")}
        return Graph(
            tuple(kept),
            tuple(position[i] for i in self.inputs),
            tuple((name, position[i]) for name, i in pairs),
            {k: v for k, v in self.weights.items() if k in used},
            {k: v for k, v in self.opaques.items() if k in used},
            self.name,
            self.info,
            {position[i]: label for i, label in self.labels.items() if alive[i]},
        )


# -- operators that leave a value as it is ---------------------------------------------------------------
def numbers_in(graph: Graph) -> dict[int, float]:
    """Return the nodes whose elements are all one number, each with the number.

    They are weights, the numbers of rules, and results of operators without axes on these.
    """
    found: dict[int, float] = {}
    for i, node in enumerate(graph.nodes):
        number = None
        scalar = isinstance(node.type, TensorType) and node.type.rank == 0
        known = bool(node.inputs) and not node.attrs and all(j in found for j in node.inputs)
        if node.op == "weight":
            number = graph.weights[str(node.attrs[0])].number()
        elif Trait.NUMBER in spec_of(node.op).traits or (scalar and known):
            number = _computed(node, found)
        if number is not None:
            found[i] = number
    return found


def _computed(node: Node, found: Mapping[int, float]) -> float | None:
    spec, dtype = spec_of(node.op), node.tensor.numpy_dtype()
    if spec.evaluate is None:
        return None
    operands = [np.asarray(found[j], dtype) for j in node.inputs]
    with np.errstate(all="ignore"):
        return Weight.of(np.asarray(spec.evaluate(operands, spec.unpack(node.attrs)), dtype)).number()


def without_neutral(graph: Graph) -> Graph:
    """Return the graph without operators that leave a value as it is: ``x * 1``, ``x + 0``, pads of nothing.

    A sum with zero turns minus zero into zero, which is the same number.
    """
    numbers = numbers_in(graph)
    found = [_unchanged(graph, node, numbers) for node in graph.nodes]
    if all(k is None for k in found):
        return graph

    def made(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        return None if (k := found[i]) is None else inputs[k]

    return graph.copied(made)


def cleaned_places(graph: Graph, cleaned: Graph) -> list[int]:
    """Return for every node of a graph the node of :func:`without_neutral`'s result that has its value, or -1."""
    numbers = numbers_in(graph)
    known = {(node.op, node.attrs, node.inputs): i for i, node in enumerate(cleaned.nodes)}
    found: list[int] = []
    for node in graph.nodes:
        k = _unchanged(graph, node, numbers)
        read = tuple(found[j] for j in node.inputs)
        found.append(known.get((node.op, node.attrs, read), -1) if k is None else read[k])
    return found


def _unchanged(graph: Graph, node: Node, numbers: Mapping[int, float]) -> int | None:
    """Return the position of the operand that a node's value is, with its type, or None."""
    spec, kinds = spec_of(node.op), [graph.nodes[j].type for j in node.inputs]
    if len(kinds) == 1 and spec.traits & (Trait.MOVES | Trait.CONVERTS):
        # Of the operators that only move elements, a permutation alone may keep the type and move some.
        turned = any(
            a.kind == "perm" and v != tuple(range(node.tensor.rank))
            for a, v in zip(spec.attrs, node.attrs, strict=True)
        )
        return 0 if kinds[0] == node.type and not turned else None
    for number, k in zip(spec.neutral, (1, 0), strict=False):
        if number is not None and numbers.get(node.inputs[1 - k]) == number and kinds[k] == node.type:
            return k
    return None
