"""The units in which a model's nodes are imported: single nodes, or regions of several nodes.

A graph value is a tensor of known dtype and shape. Nodes that exchange other values (sequences, shapes that
depend on data) form a region that is kept opaque as a whole. A region includes all nodes on a path between
two of its nodes, so that the graph stays acyclic.

Outputs of other kinds (data-dependent shapes, sequences, optionals) and the readers of inputs of other kinds
cannot be part of a graph. They and all nodes that depend on them are the tail of the model: they are set aside
here, and written back after the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.prepare import Prepared, read_by
from workbench.frontends.onnx.shape_inference import Values, show_type


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that are imported together, in order, and those of their values that are read elsewhere.

    ``reason`` is the reason for keeping several nodes opaque; it is empty for a single node.
    """

    nodes: tuple[NodeProto, ...]
    leaving: frozenset[str]
    reason: str = ""


def live_nodes(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that an output depends on, in order."""
    needed = set(outputs)
    live = []
    for node in reversed(nodes):
        if needed.intersection(filter(None, node.output)):
            needed.update(read_by(node))
            live.append(node)
    return live[::-1]


def units(nodes: Sequence[NodeProto], outputs: Iterable[str], values: Values) -> list[Unit]:
    """Divide live nodes into units, ordered so that operands come first."""
    maker, readers = _flow(nodes)
    untyped = [name for name in readers if name in maker and values.tensor(name) is None]
    whole = set(outputs)
    if not untyped:
        read = whole.union(readers)
        return [Unit((node,), frozenset(o for o in node.output if o and o in read)) for node in nodes]
    import networkx as nx  # imported here because it takes 0.1 s

    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(range(len(nodes)))
    flow.add_edges_from((maker[name], i) for name, by in readers.items() if name in maker for i in by)
    # A backward edge merges a maker, its readers and all nodes between them into one component.
    flow.add_edges_from([(i, maker[name]) for name in untyped for i in readers[name]])
    result = []
    merged = nx.condensation(flow)
    members = {c: sorted(data["members"]) for c, data in merged.nodes(data=True)}
    for component in nx.lexicographical_topological_sort(merged, key=lambda c: members[c][0]):
        inside, within = members[component], set(members[component])
        made = [o for i in inside for o in nodes[i].output if o]
        leaving = {o for o in made if o in whole or not within.issuperset(readers.get(o, ()))}
        reason = ""
        if len(inside) > 1:
            name = next(o for o in made if o in readers and values.tensor(o) is None)
            reason = f"in a region around {name!r}, which is {show_type(values.types.get(name))}"
        result.append(Unit(tuple(nodes[i] for i in inside), frozenset(leaving), reason))
    return result


def _flow(nodes: Sequence[NodeProto]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the node that makes each value, and the nodes that read it."""
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        for name in read_by(node):
            readers.setdefault(name, []).append(i)
    return {o: i for i, node in enumerate(nodes) for o in node.output if o}, readers


@dataclass(frozen=True, slots=True)
class Tail:
    """The nodes set aside, as a model, and the nodes and outputs that remain for the graph.

    ``nodes`` are set aside, ``before`` remain. ``arrays`` are the stored tensors of ``model``, by name.
    """

    nodes: tuple[NodeProto, ...]
    model: ModelProto
    arrays: Mapping[str, np.ndarray]
    before: tuple[NodeProto, ...]
    outputs: tuple[str, ...]

    def note(self) -> str:
        """Return a line for the coverage report on the nodes that are set aside and their outputs."""
        made = [f"{v.name!r} ({show_type(v.type)})" for v in self.model.graph.output]
        names = ", ".join(made[:3]) + (", …" if len(made) > 3 else "")
        return f"{len(self.nodes)} nodes are kept unchanged after the graph, for outputs such as {names}"

    def reasons(self) -> Iterator[tuple[NodeProto, str]]:
        """Yield the nodes that are set aside, each with the reason for the coverage report."""
        made = {o for node in self.nodes for o in node.output if o}
        for node in self.nodes:
            if made.intersection(read_by(node)):
                yield node, "it comes after the part that can be modelled"
            elif not onnx.defs.has(node.op_type, domain=node.domain):
                yield node, "no type is declared for its result: add it to the model's value_info"
            else:
                yield node, "the type of its result is known only when the model runs"


def cut_tail(nodes: Sequence[NodeProto], prepared: Prepared, values: Values) -> Tail | None:
    """Set aside the live nodes that cannot be part of a graph; return None if there are none.

    Raise :class:`ModelError` if an output has no type.
    """
    outputs, given = prepared.model.graph.output, {v.name for v in prepared.foreign}
    untyped = [v.name for v in outputs if values.tensor(v.name) is None]
    if not untyped and not any(given.intersection(read_by(node)) for node in nodes):
        return None
    maker, readers = _flow(nodes)
    # The starting nodes, their dependents, and makers of untyped operands.
    waiting = [maker[name] for name in untyped if name in maker]
    waiting += [i for name in given for i in readers.get(name, ())]
    members: set[int] = set()
    while waiting:
        i = waiting.pop()
        if i not in members:
            members.add(i)
            waiting += [j for o in nodes[i].output if o for j in readers.get(o, ())]
            waiting += [maker[n] for n in read_by(nodes[i]) if n in maker and values.tensor(n) is None]
    inside = {o for i in members for o in nodes[i].output if o}
    aside = tuple(node for i, node in enumerate(nodes) if i in members)
    read = dict.fromkeys(name for node in aside for name in read_by(node) if name not in inside)
    fixed = {n: array for n, array in values.known.items() if not values.sized(n)}
    arrays = prepared.arrays
    stored = {n: fixed[n] if n in fixed else arrays[n] for n in read if n in fixed or n in arrays}
    late = [v for v in outputs if v.name in inside or v.name in untyped]
    left = [v.name for v in outputs if v.name not in inside and v.name not in untyped]
    left += [name for name in read if name in maker and name not in stored and name not in left]
    made = {}
    for value in late:
        known = _declared(value, values)
        if known is None or known.WhichOneof("value") is None:
            raise ModelError(f"output {value.name!r} has no type: declare one")
        made[value.name] = values.opened(known)
    inputs = {name: values.opened(values.types[name]) for name in read if name not in stored}
    before = tuple(node for i, node in enumerate(nodes) if i not in members)
    return Tail(aside, values.origin.model("tail", aside, inputs, made), stored, before, tuple(left))


def _declared(value: ValueInfoProto, values: Values) -> TypeProto | None:
    """Return the type of an output: the declared one, unless inference gives more."""
    inferred = values.types.get(value.name)
    if value.type.WhichOneof("value") is None:
        return inferred
    tensor = value.type.tensor_type
    complete = not value.type.HasField("tensor_type") or (tensor.elem_type and tensor.HasField("shape"))
    known = inferred is not None and inferred.HasField("tensor_type")
    return inferred if known and not complete else value.type
