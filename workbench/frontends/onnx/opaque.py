"""Opaque operators: cut out of a model as small models, and written back unchanged."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import onnx
from onnx import ModelProto, NodeProto
from onnx.defs import SchemaError

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import copied, type_proto
from workbench.frontends.onnx.import_units import Unit
from workbench.frontends.onnx.prepare import defined, read_by, subgraphs, walk
from workbench.frontends.onnx.shape_inference import Values
from workbench.frontends.onnx.traits import OnnxTrait, draws_random_numbers, has
from workbench.graph import Opaque
from workbench.ops.types import FLOAT_DTYPES, TensorType

#: Constants up to these sizes are part of the operator (sizes, axes, scales); larger ones are weights.
EMBEDDED_INTEGERS: Final = 64
EMBEDDED_FLOATS: Final = 8


def is_deterministic(nodes: Iterable[NodeProto], values: Values) -> bool:
    """Return whether equal operands always give equal results; unknown operators count as random."""
    everything = list(walk(nodes))
    everything += [node for f in values.origin.functions_for(everything) for node in walk(f.node)]
    for node in everything:
        if (node.domain, node.op_type) in values.origin.functions or has(node, OnnxTrait.SUBGRAPHS):
            continue  # the subgraphs are checked instead
        schema = values.schema(node)
        if schema is None and node.domain != "com.microsoft":
            return False
        marked = getattr(schema, "non_deterministic", False) and not has(node, OnnxTrait.RANDOM_IN_TRAINING)
        if marked or draws_random_numbers(node):
            return False
    return True


def cut(unit: Unit, reason: str, values: Values) -> tuple[Opaque, str, tuple[str, ...], tuple[str, ...]]:
    """Cut the nodes of a unit out of a model as one record, which has the reason for keeping them opaque.

    Names are replaced by canonical ones, so that equal operators have equal payloads. Return the record with its key
    and the names of its operands and results. A node that reads one value twice has two operands of one name.
    """
    nodes = unit.nodes
    made = {o for n in nodes for o in n.output if o}
    read = dict.fromkeys(name for node in nodes for name in read_by(node) if name not in made)
    constants = {name: values.known[name] for name in read if _embedded(values, name)}
    # A node that reads one value twice is the same operator as one that reads two.
    single = nodes[0] if len(nodes) == 1 and not has(nodes[0], OnnxTrait.SUBGRAPHS) else None
    operands = tuple(name for name in (single.input if single else read) if name and name not in constants)
    results = tuple(o for n in nodes for o in n.output if o in unit.leaving)
    fresh = Fresh(inner_names(nodes))
    places = [fresh("x") for _ in operands]
    names = dict(zip(operands, places, strict=True))
    names |= {name: fresh("c") for name in constants}
    names |= {name: fresh("y") for name in results}
    names |= {name: fresh("t") for n in nodes for name in n.output if name and name not in names}
    copies = [copied(node) for node in nodes]
    for copy in copies:
        rename(copy, names)
    if single:
        own = [k for k, name in enumerate(single.input) if name and name not in constants]
        for k, place in zip(own, places, strict=True):
            copies[0].input[k] = place
    types = [kind for name in results if (kind := values.tensor(name)) is not None]
    # The caller must not pass a value twice, or nodes without any wanted value.
    model = values.origin.model(
        "opaque",
        copies,
        {place: values.opened(values.types[o]) for o, place in zip(operands, places, strict=True)},
        {names[r]: values.opened(type_proto(k)) for r, k in zip(results, types, strict=True)},
        [onnx.numpy_helper.from_array(v, names[k]) for k, v in constants.items()],
    )
    op_type = "+".join(dict.fromkeys(n.op_type for n in nodes))
    content, repeats = model.SerializeToString(deterministic=True), is_deterministic(nodes, values)
    record = Opaque(op_type, nodes[0].domain, tuple(types), content, repeats, reason)
    digest = hashlib.blake2b(unnamed(model), digest_size=5).hexdigest()
    return record, f"{op_type}_{digest}", operands, results


def _embedded(values: Values, name: str) -> bool:
    array = values.known.get(name)
    if array is None or values.sized(name):
        return False
    kind = TensorType.of(array).dtype
    limit = EMBEDDED_FLOATS if kind in FLOAT_DTYPES else EMBEDDED_INTEGERS
    return array.size <= limit or kind == "string"  # a weight cannot contain text


def unnamed(model: ModelProto) -> bytes:
    """Return the content of a model: equal if and only if the models are equal up to names and documentation."""
    bare = copied(model)
    for node in walk(bare.graph.node):
        node.ClearField("name")
        node.ClearField("doc_string")
        del node.metadata_props[:]
    return bytes(bare.SerializeToString(deterministic=True))


def payload_of(record: Opaque) -> ModelProto:
    """Return an opaque operator as a model; raise :class:`ModelError` if it has no ONNX form."""
    if not record.payload:
        raise ModelError(f"the opaque operator {record.op_type} has no ONNX form")
    return ModelProto.FromString(record.payload)


def changed_operators(payload: ModelProto, opset: int) -> list[str]:
    """Return the operators of a payload whose definition differs in version ``opset`` of the default set."""
    own = next((o.version for o in payload.opset_import if o.domain == ""), opset)
    names = {node.op_type for node in walk(payload.graph.node) if node.domain == ""} if own != opset else ()
    return sorted(name for name in names if _since(name, own) != _since(name, opset))


def _since(op_type: str, opset: int) -> int:
    try:
        return int(onnx.defs.get_schema(op_type, opset, "").since_version)
    except SchemaError:
        return 0


def paste(
    model: ModelProto, inputs: Sequence[str], wanted: Sequence[str | None], fresh: Fresh
) -> tuple[list[NodeProto], list[onnx.TensorProto], list[str]]:
    """Return a payload's nodes, initializers and results, renamed for the graph that they are added to.

    Args:
        model: The payload; it is modified.
        inputs: The names of the operands.
        wanted: The required names of the results; None for any name.
        fresh: The generator of other names.
    """
    graph = model.graph
    names = {formal.name: actual for formal, actual in zip(graph.input, inputs, strict=True)}
    names |= {v.name: name or fresh("v") for v, name in zip(graph.output, wanted, strict=True)}
    for tensor in graph.initializer:
        names[tensor.name] = tensor.name = fresh("c")
    for node in graph.node:
        names |= {o: fresh("v") for o in node.output if o and o not in names}
        rename(node, names)
    return list(graph.node), list(graph.initializer), [names[v.name] for v in graph.output]


# -- names ------------------------------------------------------------------------------------------------
def inner_names(nodes: Iterable[NodeProto]) -> set[str]:
    """Return every name that subgraphs of the nodes define, at any depth."""
    return {name for node in walk(nodes) for graph in subgraphs(node) for name in defined(graph)}


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename values in a node, in place; names that a subgraph defines itself are kept there."""
    for side in (node.input, node.output):
        for i, name in enumerate(side):
            if name in names:
                side[i] = names[name]
    for graph in subgraphs(node):
        own = defined(graph)
        outer = {old: new for old, new in names.items() if old not in own}
        for inner in graph.node:
            rename(inner, outer)
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
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def __call__(self, prefix: str) -> str:
        """Return the prefix with the next free number."""
        names = (f"{prefix}{number}" for number in self._numbers[prefix])
        name = next(name for name in names if name not in self.taken)
        self.taken.add(name)
        return name

    def exactly(self, name: str) -> str:
        """Return the name itself if it is free, otherwise the name with a number appended."""
        if name in self.taken:
            self._numbers.setdefault(f"{name}_", itertools.count(1))
            return self(f"{name}_")
        self.taken.add(name)
        return name
