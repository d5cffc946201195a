"""Turn a selection back into a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, GraphBuilder


def rebuild(graph: Graph, egraph: EGraph, choice: Sequence[int] | np.ndarray) -> Graph:
    """Return the chosen term with the inputs, outputs, weights and opaque records of ``graph``.

    ``choice`` has an e-node for every needed e-class, -1 for others. Root ``i`` of the e-graph is output
    ``i``. The new node for the e-class of a node of ``graph`` keeps that node's label. Raise ValueError if
    the selection is incomplete or cyclic, or if it changes the type of an output.
    """
    builder = GraphBuilder(graph.name)
    builder.weights = dict(graph.weights)
    builder.opaques, builder.info = dict(graph.opaques), graph.info
    for i in graph.inputs:
        node = graph.nodes[i]
        builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
    names = {builder.nodes[i].attrs[0]: i for i in builder.inputs}
    place: dict[int, int] = {}
    open_: set[int] = set()
    for root in egraph.roots:
        stack = [root]
        while stack:
            c = stack[-1]
            if c in place:
                stack.pop()
                continue
            i = int(choice[c])
            if i < 0:
                raise ValueError(f"the selection must have an e-node for e-class {c}, got none")
            waiting = [d for d in egraph.operands(i).tolist() if d not in place]
            if waiting:
                if c in open_:
                    raise ValueError(f"the selection must be acyclic, got a cycle through e-class {c}")
                open_.add(c)
                stack += waiting
                continue
            operands = [place[d] for d in egraph.operands(i).tolist()]
            if egraph.ops[i] == "input":
                place[c] = names[egraph.attrs[i][0]]
            else:
                place[c] = builder.apply(egraph.ops[i], operands, egraph.attrs[i])
            stack.pop()
    outputs = [(name, place[root]) for (name, _), root in zip(graph.outputs, egraph.roots, strict=True)]
    for i, label in graph.labels.items():
        e_node = int(egraph.original[i]) if i < len(egraph.original) else -1
        if e_node >= 0 and (at := place.get(int(egraph.eclass[e_node]))) is not None:
            builder.labels.setdefault(at, label)
    result = builder.graph(outputs)
    if result.output_types != graph.output_types:
        raise ValueError(f"the outputs must stay {graph.output_types}, got {result.output_types}")
    return result
