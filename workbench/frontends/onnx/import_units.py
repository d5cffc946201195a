"""The units in which a model's nodes are imported: single nodes, or regions of several nodes.

A graph value is a tensor of known dtype and shape. Nodes that exchange other values (sequences, shapes that
depend on data) form a region that is kept opaque as a whole. A region includes all nodes on a path between
two of its nodes, so that the graph stays acyclic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from workbench.frontends.onnx.names import read_by
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
        if needed.intersection(o for o in node.output if o):
            needed.update(read_by(node))
            live.append(node)
    return live[::-1]


def units(nodes: Sequence[NodeProto], outputs: Iterable[str], values: Values) -> list[Unit]:
    """Divide live nodes into units, ordered so that operands come first."""
    maker = {o: i for i, node in enumerate(nodes) for o in node.output if o}
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        for name in read_by(node):
            readers.setdefault(name, []).append(i)
    untyped = [name for name in readers if name in maker and values.tensor(name) is None]
    whole = set(outputs)
    if not untyped:
        return [
            Unit((node,), frozenset(o for o in node.output if o and (o in readers or o in whole)))
            for node in nodes
        ]
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
        inside = set(members[component])
        made = [o for i in members[component] for o in nodes[i].output if o]
        leaving = {o for o in made if o in whole or not inside.issuperset(readers.get(o, ()))}
        reason = ""
        if len(inside) > 1:
            name = next(o for o in made if o in readers and values.tensor(o) is None)
            reason = f"in a region around {name!r}, which is {show_type(values.types.get(name))}"
        result.append(Unit(tuple(nodes[i] for i in sorted(inside)), frozenset(leaving), reason))
    return result
