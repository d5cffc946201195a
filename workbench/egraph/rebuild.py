"""Terms of an e-graph as a graph, and of a graph in an e-graph."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.graph import Builder, Graph
from workbench.ops import AttrValue
from workbench.support.orders import topological

#: Writes the result of an e-node in a graph that has its operands, or returns None for an operator of the graph:
#: ``(builder, e-node, places by e-class) -> node``.
Writing = Callable[[Builder, int, Mapping[int, int]], int | None]


def rebuild(
    graph: Graph, egraph: EGraph, choice: Sequence[int] | np.ndarray, writing: Writing | None = None
) -> Graph:
    """Return the chosen term with the inputs, outputs, weights and opaque records of ``graph``.

    Root ``i`` of the e-graph is output ``i``. The new node for the e-class of a node of ``graph`` keeps that
    node's label. Raise ValueError if the selection is incomplete or cyclic, or changes the type of an output.

    Args:
        graph: The graph that the e-graph grew from.
        egraph: The e-graph.
        choice: An e-node for every needed e-class, -1 for others.
        writing: Writes the e-nodes that are no operators of a graph.
    """

    def operands(c: int) -> list[int]:
        i = int(choice[c])
        if i < 0:
            raise ValueError(f"the selection must have an e-node for e-class {c}, got none")
        return egraph.operands(i).tolist()[::-1]

    try:
        order = topological(egraph.roots, operands)
    except graphlib.CycleError as error:
        c = error.args[1][0]
        raise ValueError(f"the selection must be acyclic, got a cycle through e-class {c}") from None
    builder = Builder.of(graph)
    place: dict[int, int] = {}
    for c in order:
        i = int(choice[c])
        made = None if writing is None else writing(builder, i, place)
        if made is None:
            inputs = [place[d] for d in egraph.operands(i).tolist()]
            made = builder.apply(egraph.ops[i], inputs, egraph.attrs[i])
        place[c] = made
    outputs = [(name, place[root]) for (name, _), root in zip(graph.outputs, egraph.roots, strict=True)]
    for i, label in graph.labels.items():
        e_node = int(egraph.original[i]) if i < len(egraph.original) else -1
        if e_node >= 0 and (at := place.get(int(egraph.eclass[e_node]))) is not None:
            builder.labels.setdefault(at, label)
    result = builder.graph(outputs)
    if result.output_types != graph.output_types:
        raise ValueError(f"the outputs must stay {graph.output_types}, got {result.output_types}")
    return result


def eclasses_of(graph: Graph, egraph: EGraph) -> tuple[int, ...]:
    """Return each node's e-class, -1 if there is none: by name, or by attributes and the operands' e-classes."""
    known, eclass = by_term(egraph), [*egraph.eclass.tolist(), -1]
    found: list[int] = []
    for node in graph.nodes:
        found.append(eclass[known.get((node.op, node.attrs, tuple(found[j] for j in node.inputs)), -1)])
    return tuple(found)


def carried(before: EGraph, choice: np.ndarray, after: EGraph) -> np.ndarray | None:
    """Return a selection of an e-graph as one of another, which may unite e-classes; None if a term is missing."""
    known, place = by_term(after), dict[int, int]()
    found = np.full(after.n_classes, -1, dtype=np.int64)
    for c in topological(before.roots, lambda c: before.operands(int(choice[c])).tolist()):
        i = int(choice[c])
        read = tuple(place[d] for d in before.operands(i).tolist())
        j = known.get((before.ops[i], before.attrs[i], read))
        if j is None:
            return None
        place[c] = d = int(after.eclass[j])
        if found[d] < 0:  # the first reads e-classes that were found before it: no loop
            found[d] = j
    return found if all(found[root] >= 0 for root in after.roots) else None


def by_term(egraph: EGraph) -> dict[tuple[str, tuple[AttrValue, ...], tuple[int, ...]], int]:
    """Return every e-node by its operator, attributes and operands."""
    rows = [egraph.operands(i).tolist() for i in range(len(egraph))]
    return {(egraph.ops[i], egraph.attrs[i], tuple(row)): i for i, row in enumerate(rows)}
