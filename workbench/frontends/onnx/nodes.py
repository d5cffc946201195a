"""Nodes of ONNX models: their subgraphs, and the names that they read and make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto


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
