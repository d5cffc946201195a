"""Terms of one e-graph elsewhere: a selection as a graph, a graph's e-classes, and e-classes in a later snapshot."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, GraphBuilder
from workbench.support.orders import topological

#: Writes the result of an e-node in a graph that has its operands, or returns None for an operator of the graph:
#: ``(builder, e-node, places by e-class) -> node``.
Writing = Callable[[GraphBuilder, int, Mapping[int, int]], int | None]


def rebuild(
    graph: Graph, egraph: EGraph, choice: Sequence[int] | np.ndarray, writing: Writing | None = None
) -> Graph:
    """Return the chosen term with the inputs, outputs, weights and opaque records of ``graph``.

    Root ``i`` of the e-graph is output ``i``. The new node for the e-class of a node of ``graph`` keeps that
    node's label.

    Args:
        graph: The graph that the e-graph grew from.
        egraph: The e-graph.
        choice: An e-node for every needed e-class, -1 for others.
        writing: Writes the e-nodes that are no operators of a graph.

    Raises:
        ValueError: The selection is incomplete or cyclic, or changes the type of an output.
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
    builder = GraphBuilder.of(graph)
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
    """Return the e-class of every node of a graph, -1 for a node that the e-graph does not have.

    Inputs and weights are found by name, operators by their attributes and the e-classes of their operands.
    """
    known = {
        (egraph.ops[i], egraph.attrs[i], tuple(egraph.operands(i).tolist())): int(egraph.eclass[i])
        for i in range(len(egraph))
    }
    found: list[int] = []
    for node in graph.nodes:
        found.append(known.get((node.op, node.attrs, tuple(found[j] for j in node.inputs)), -1))
    return tuple(found)


def class_map(before: EGraph, after: EGraph) -> np.ndarray:
    """Return for every e-class of ``before`` the e-class of ``after`` that contains its terms.

    The numbers of e-classes change between snapshots, but terms do not. Saturation never removes a term,
    so a term of every e-class is found again by looking up operators bottom-up. The result is -1 for an
    e-class whose terms are not in ``after``, or that has no finite term.
    """
    known = {
        (after.ops[i], after.attrs[i], tuple(after.operands(i).tolist())): c
        for i, c in enumerate(after.eclass.tolist())
    }
    found = np.full(before.n_classes, -1, dtype=np.int64)
    operands = [before.operands(i).tolist() for i in range(len(before))]
    classes = before.eclass.tolist()
    waiting = [len(set(o)) for o in operands]
    readers: list[list[int]] = [[] for _ in range(before.n_classes)]
    for i, read in enumerate(operands):
        for c in set(read):
            readers[c].append(i)
    ready = [i for i, n in enumerate(waiting) if n == 0]
    while ready:
        i = ready.pop()
        c = classes[i]
        if found[c] >= 0:
            continue
        target = known.get((before.ops[i], before.attrs[i], tuple(int(found[d]) for d in operands[i])), -1)
        if target < 0:
            continue
        found[c] = target
        for j in readers[c]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return found


def merges(snapshots: Sequence[EGraph], final: EGraph) -> list[dict[int, int]]:
    """Return for every snapshot the e-classes of ``final`` that it made by merging, with their sizes.

    The size is the number of merged e-classes. A merge is found by comparing a snapshot with the one before
    it, so the first snapshot has none.
    """
    found: list[dict[int, int]] = [{} for _ in snapshots[:1]]
    for before, after in pairwise(snapshots):
        into, count = np.unique(class_map(before, after), return_counts=True)
        at_last = class_map(after, final)
        made: dict[int, int] = {}
        for c, n in zip(into.tolist(), count.tolist(), strict=True):
            if c >= 0 and n > 1 and at_last[c] >= 0:
                made[int(at_last[c])] = made.get(int(at_last[c]), 0) + n
        found.append(made)
    return found
