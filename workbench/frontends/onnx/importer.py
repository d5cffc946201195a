"""Import of ONNX models: every valid model becomes a :class:`Graph`, with a report of modelled operators.

The steps are: parse and check; bind symbolic dimensions; infer types and compute shape arithmetic node by
node; read each node with its operator's importer, or keep it opaque if there is no importer. Nodes that
exchange values without a static tensor type (sequences, data-dependent shapes) are kept opaque together.

Symbolic dimensions stay symbolic, each with a generic extent for the search. What a model requires of them is
concluded first: a length that is the sum of two others, a height that is a multiple of 16, one size that fits.
The import begins anew with each conclusion. A model of which no import succeeds is kept as it is, with its
symbols and the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx
from onnx import NodeProto

from workbench.egraph.at_sizes import GIVEN, attrs_depend, depends, unproved
from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.model import Dims, Fixed, Model, ModelError, SymbolTable, any_extent, check_elements
from workbench.frontends.onnx import file, shape_inference
from workbench.frontends.onnx.constant_folding import doubled, settled
from workbench.frontends.onnx.file import Source, copied, read_tensors, tensor_array, type_proto
from workbench.frontends.onnx.idioms import whole
from workbench.frontends.onnx.import_units import Unit, cut_tail, live_nodes, units
from workbench.frontends.onnx.opaque import Fresh, cut, inner_names, rename
from workbench.frontends.onnx.prepare import Prepared, label, prepare
from workbench.frontends.onnx.shape_inference import NodeView, Values, show_type, static_type
from workbench.frontends.onnx.symbolic_values import Impossible, Required, SizedValues
from workbench.graph import Builder, Graph, GraphError, Label, ModelInfo
from workbench.graph.graph import without_neutral
from workbench.ops import TypeMismatch
from workbench.ops.inputs_and_opaque import NAMED
from workbench.ops.onnx_form import NotModelled, importer_of
from workbench.ops.types import FLOAT_DTYPES
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.facts import Facts
from workbench.symbolic.generic import prime_below
from workbench.symbolic.integers import parsed, replaced, sym, symbols


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
    source: Source,
    *,
    dims: Dims | None = None,
    sizes: Mapping[str, int] | None = None,
    keep_inputs: bool = False,
) -> Graph:
    """Return an ONNX model as a graph.

    Symbolic dimensions that ``dims`` does not fix have the sizes of ``sizes``, or usual ones, as
    :func:`workbench.optimize` prices them. The other arguments and the errors are those of :func:`import_onnx`, which
    also reports the modelled operators.
    """
    with file.names_as_text():
        prepared = prepare(read_tensors(source), dims or {}, keep_inputs=keep_inputs, open_dimensions=True)
        return import_symbolic(prepared).priced_at(sizes or {}).graph


def import_onnx(source: Source, *, dims: Dims | None = None, keep_inputs: bool = False) -> Imported:
    """Import an ONNX model from a path, from bytes or from a ``ModelProto``, and report the modelled operators.

    Weights and the names of inputs and outputs are kept. Nodes that make outputs with a data-dependent shape,
    or outputs that are not tensors, are stored next to the graph (:class:`~workbench.graph.ModelInfo`) and
    written back with it.

    Args:
        source: The model.
        dims: Extents of the inputs' symbolic dimensions: ``{"batch": 1}``. A dimension without a name is
            called ``input[axis]``; an input without a shape takes a whole one: ``{"x": (1, 3, 224, 224)}``.
        keep_inputs: Whether initializers that are also inputs stay inputs, with default values; otherwise
            they become weights.

    Raises:
        ModelError: The model is malformed or ill-typed, or a dimension is unbound. (A ValueError.)
        OSError: The model cannot be read.
    """
    with file.names_as_text():
        return import_prepared(prepare(read_tensors(source), dims or {}, keep_inputs=keep_inputs))


def import_prepared(prepared: Prepared, values: SizedValues | None = None, aside: bool = False) -> Imported:
    """Import a prepared model, which has generic extents if ``values`` are given.

    All nodes are kept unchanged, next to the graph, if they are set ``aside``.
    """
    generic = None if values is None else values.generic
    return _Import(prepared, values or Values(prepared.model), generic).run(aside)


class _Import:
    """The import of one prepared model."""

    def __init__(self, prepared: Prepared, values: Values, generic: Generic | None) -> None:
        self.prepared, self.values, self.generic = prepared, values, generic
        self.model, self.arrays = prepared.model, prepared.arrays
        self.stored = frozenset(prepared.arrays)
        self.proved: set[int] = set()
        self.builder = Builder(self.model.graph.name or "graph")
        self.place: dict[str, int] = {}
        self.numbers: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self.uses: list[OperatorUse] = []

    def run(self, aside: bool) -> Imported:
        """Import the model; ``aside`` keeps all nodes unchanged."""
        graph, values, notes = self.model.graph, self.values, self.prepared.notes
        outputs = [v.name for v in graph.output]
        for value in self.prepared.inputs:
            try:
                kind = static_type(value.type)
            except ModelError as error:
                raise ModelError(f"input {value.name!r}: {error}") from None
            if kind is None:
                raise ModelError(f"input {value.name!r} has the type {show_type(value.type)}")
            values.types[value.name] = value.type
            self.place[value.name] = self.builder.input(value.name, kind.shape, kind.dtype)
        total = sum(self.builder.type(i).elements for i in self.builder.inputs)
        check_elements(total, f"all {len(self.builder.inputs)} inputs together")
        values.types |= {value.name: value.type for value in self.prepared.foreign}
        for name, array in self.arrays.items():
            values.add_constant(name, array)
        nodes = live_nodes(graph.node, outputs)
        live = nodes if aside else live_nodes(self._plan(nodes), outputs)
        tail = cut_tail(live, self.prepared, values)
        if tail is not None:
            live, outputs = live_nodes(tail.before, tail.outputs), list(tail.outputs)
            notes += (tail.note(),)
        for value in graph.output:
            found = values.tensor(value.name)  # none if the tail makes it
            if found is not None and not shape_inference.fits(value.type, type_proto(found)):
                raise ModelError(
                    f"output {value.name!r} is declared {show_type(value.type)} but the model computes {found}"
                )
        for unit in units(live, outputs, values):
            self._build(unit)
        for node, reason in tail.reasons() if tail is not None else ():
            self._used(node, "opaque", reason)
        if not outputs:
            outputs = [nothing := "workbench.nothing"]  # a graph needs at least one output
            self.place[nothing] = self.builder.weight(data=np.zeros(1, np.float32), name=nothing)
        self.builder.info = ModelInfo(
            self.prepared.shell.SerializeToString(deterministic=True),
            self.prepared.defaults,
            b"" if tail is None else tail.model.SerializeToString(deterministic=True),
            {} if tail is None else tail.arrays,
        )
        made = self.builder.graph([(name, self._value(name)) for name in outputs])
        if not self.prepared.plain:
            made = doubled(whole(without_neutral(settled(made))))
        return Imported(made, Coverage(tuple(self.uses), len(graph.node) - len(nodes), notes))

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

    def _add(self, name: str, array: np.ndarray) -> None:
        self.arrays[name] = array
        self.values.add_constant(name, array)

    def _constant(self, node: NodeProto) -> None:
        if len(node.attribute) != 1:
            raise ModelError(f"{label(node)} must have one value, got {len(node.attribute)}")
        (attr,) = node.attribute
        if attr.name == "value":
            array = tensor_array(attr.t, None)
        elif attr.name == "sparse_value":
            array = file.dense_array(attr.sparse_tensor, None)
        else:
            dtype = {"f": np.float32, "i": np.int64, "s": object}[attr.name.removeprefix("value_")[0]]
            array = np.asarray(shape_inference.python_value(attr), dtype=dtype)
        self._add(node.output[0], array)

    def _decided(self, node: NodeProto) -> onnx.GraphProto | None:
        """Return the branch that an If always takes, or ``None`` if the condition is unknown."""
        known = self.values.known.get(node.input[0]) if node.op_type == "If" and not node.domain else None
        if known is None or known.size != 1:
            return None
        name = "then_branch" if known.reshape(-1)[0] else "else_branch"
        return next((a.g for a in node.attribute if a.name == name), None)

    def _spliced(self, node: NodeProto, branch: onnx.GraphProto, fresh: Fresh) -> list[NodeProto]:
        inside = copied(branch)
        own = [t.name for t in inside.initializer] + [o for n in inside.node for o in n.output if o]
        names = {name: fresh.exactly(name) for name in own}
        for tensor in inside.initializer:
            self._add(names[tensor.name], tensor_array(tensor, None))
        for inner in inside.node:
            rename(inner, names)
        ends = [
            onnx.helper.make_node("Identity", [names.get(v.name, v.name)], [outer])
            for v, outer in zip(inside.output, node.output, strict=True)
            if outer
        ]
        return [*inside.node, *ends]

    def _value(self, name: str) -> int:
        """Return the graph value for a name; a constant becomes a weight when it is first read."""
        if name not in self.place and (made := self.values.computed(name)) is not None:
            record, read, key = made
            (self.place[name],) = self.builder.opaque(record, [self._value(n) for n in read], key)
        if name not in self.place:
            array = self.arrays[name] if name in self.arrays else self.values.known[name]
            if name in self.stored or array.size != 1 or array.dtype == object:
                self.place[name] = self._weight(name, array)
            else:  # a number that nodes repeat is one weight, read by all of them
                number = (str(array.dtype), array.shape, array.tobytes())
                if number not in self.numbers:
                    self.numbers[number] = self._weight(name, array)
                self.place[name] = self.numbers[number]
        return self.place[name]

    def _weight(self, name: str, array: np.ndarray) -> int:
        return self.builder.weight(data=array, name=self.builder.unused(name))

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
        self._label(node, [(n, v) for n, v in pairs if self.builder.nodes[v].op not in NAMED])
        return ""

    def _label(self, node: NodeProto, pairs: Iterable[tuple[str, int]]) -> None:
        properties = tuple((p.key, p.value) for p in node.metadata_props)
        for name, value in pairs:
            made_by = Label(name, node.op_type, node.name, node.doc_string, properties)
            self.builder.labels.setdefault(value, made_by)

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
        if why := unproved(self.builder, self.generic, sorted(new)):
            return f"it is not proved for every size: {why}"
        self.proved |= new
        return ""

    def _keep(self, unit: Unit, reason: str) -> None:
        """Keep nodes unchanged, as one opaque operator."""
        record, key, operands, names = cut(unit, reason, self.values)
        key = key if record.deterministic else f"{key}_{len(self.builder.opaques)}"
        record = self.builder.opaques.get(key, record)
        results = self.builder.opaque(record, [self._value(name) for name in operands], key)
        pairs = [*zip(names, results, strict=True)]
        self.place.update(pairs)
        self._label(unit.nodes[0] if len(unit.nodes) == 1 else NodeProto(), pairs)


# -- symbolic dimensions ----------------------------------------------------------------------------------
#: Upper bounds for generic primes, by kind of dimension: far from powers of two, small enough that a
#: product of all of them does not overflow, large enough to differ from all sizes of a model.
_BEGINNINGS: Final = {"batch": 14_500, "past": 28_000, "sequence": 52_000, "space": 52_000, "other": 23_000}
#: Factors of these bounds that are tried: long strides need large extents, tensors of many axes small ones.
_SCALES: Final = (1.0, 8.0, 100.0, 0.25, 0.13, 0.1)
#: Primes of one kind are this part of themselves apart: halves of near primes, rounded, would be equal.
_APART: Final = 8
#: The smallest bound of a generic prime.
_SMALLEST: Final = 1_010
#: The number of imports before a model is left as it is.
_ATTEMPTS: Final = 40
#: Imports that are repeated because more is known of the sizes than at their beginning.
_REPEATED: Final = 3
#: The prefix of symbols that are at least 1.
_POSITIVE: Final = "+"


def import_symbolic(prepared: Prepared) -> Model:
    """Import a prepared model and keep as many of its symbolic dimensions as possible.

    Raise :class:`~workbench.frontends.model.ModelError` if it cannot be imported at any size.
    """
    return Opening(prepared).run() if prepared.symbols else import_prepared(prepared).model()


class Opening:
    """A search for generic extents at which a model can be imported."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared  # once; every attempt substitutes its extents
        self.symbols = prepared.symbols
        names = {s.name for s in self.symbols}
        self.kinds = {_POSITIVE + s.name: s.kind for s in self.symbols}
        #: Every dimension over symbols; a name such as "past_sequence_length + 1" states what it is.
        stated = {n: e for n in names if (e := parsed(n, names)) is not None}
        own = {n: sym(_POSITIVE + n) for n in names - stated.keys()}
        names_in_order = [s.name for s in self.symbols]
        self.sizes = {n: replaced(stated[n], own) if n in stated else own[n] for n in names_in_order}
        self.facts = Facts()
        self.why: dict[str, str] = {}

    def run(self) -> Model:
        """Import the model, again with everything that is learnt of its dimensions."""
        scale, repeated, reason = 0, 0, ""
        for _ in range(_ATTEMPTS):
            before = len(self.facts.known)
            try:
                with any_extent():
                    found = self._import(_SCALES[scale])
                if len(self.facts.known) == before or repeated == _REPEATED:
                    return found
                repeated += 1
            except Required as required:
                self._learn(required)
            except Impossible:
                raise
            except (ModelError, TypeMismatch, GraphError, Undecodable) as error:
                reason = reason or " ".join(str(error).split())[:240]
                scale += 1
                if scale == len(_SCALES):
                    break
        generic = self._generic(1.0)
        with any_extent():
            imported = import_prepared(self._bound(generic.extents), aside=True)
        return self._opened(imported, generic, left=reason or "no import succeeds")

    def _learn(self, required: Required) -> None:
        for symbol, value in required.values.items():
            self.sizes = {n: replaced(size, {symbol: value}) for n, size in self.sizes.items()}
            self.facts.replaced(symbol, value)
            for name, size in self.sizes.items():
                if size.value is not None:
                    self.why.setdefault(name, str(required))

    def _import(self, scale: float) -> Model:
        generic = self._generic(scale)
        here = self._bound(generic.extents)
        places = {place: s.name for s in self.symbols for place in s.places}
        sources = SymbolTable(generic, places, frozenset()).sources
        values = SizedValues(here.model, generic, sources)
        imported = import_prepared(here, values=values)
        graph = imported.graph
        for node, constant in zip(graph.nodes, graph.constant(), strict=True):
            if constant and (depends(node.type, generic) or attrs_depend(node.op, node.attrs, generic)):
                raise Undecodable(f"a constant made by {node.op} has a symbolic extent: {node.type}")
        return self._opened(imported, generic)

    def _opened(self, imported: Imported, generic: Generic, **more: Any) -> Model:
        values = {n: size.value for n, size in self.sizes.items()}
        fixed = tuple(Fixed(n, v, self.why[n]) for n, v in values.items() if v is not None)
        free = tuple(s for s in self.symbols if values[s.name] is None)
        return imported.model(symbols=free, generic=generic, fixed=fixed, **more)

    def _generic(self, scale: float) -> Generic:
        """Return generic extents: a prime for every symbol that is left."""
        primes: dict[str, int] = {}
        numbers = self.prepared.numbers
        for symbol in sorted({s for size in self.sizes.values() for s in symbols(size)}):
            kind = self.kinds[symbol]
            terms = (t for size in self.sizes.values() if symbol in symbols(size) for t in size.terms)
            factor = max((abs(number) for factors, number in terms if factors), default=1)
            start = _BEGINNINGS[kind] * (1 / scale if kind == "batch" and scale > 1 else scale)
            alike = sum(self.kinds[s] == kind for s in primes)
            start = max(_SMALLEST, int(start / min(factor, 8)) * _APART // (_APART + alike))
            primes[symbol] = prime_below(start, numbers, frozenset(primes.values()))
        return Generic(primes, dict(self.sizes), set(numbers), self.facts)

    def _bound(self, extents: Mapping[str, int]) -> Prepared:
        """Return the prepared model with these extents in place of its symbols."""
        numbers = {s.marker: extents[s.name] for s in self.symbols if s.name in extents}
        model = copied(self.prepared.model)
        graph = model.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.HasField("tensor_type"):
                for dim in value.type.tensor_type.shape.dim:
                    if dim.dim_value in numbers:
                        dim.dim_value = numbers[dim.dim_value]
        known = {v.name: v for v in graph.input}
        inputs = tuple(known[v.name] for v in self.prepared.inputs)
        foreign = tuple(known[v.name] for v in self.prepared.foreign)
        # Declared shapes of outputs may be those of the exporter's example, so they are inferred anew.
        for value in graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        arrays = dict(self.prepared.arrays)
        return replace(self.prepared, model=model, inputs=inputs, foreign=foreign, arrays=arrays)
