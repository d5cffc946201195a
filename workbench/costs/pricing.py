"""Pricing of whole graphs and e-graphs with a cost model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from workbench.costs.keys import same_kernel
from workbench.costs.model import CostModel, OpInstance
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.ops import AttrValue, TensorType, Trait, with_trait
from workbench.ops.inputs_and_opaque import SIZE_KEY

#: Operators that cost nothing in every model: they do not run.
FREE: Final = with_trait(Trait.FREE)


def _free(op: str, attrs: tuple[AttrValue, ...]) -> bool:
    """Return whether an operator costs nothing: it does not run, or reads the shape of an input alone."""
    return op in FREE or (op == "opaque" and str(attrs[0]).startswith(SIZE_KEY))


def egraph_instances_by_node(egraph: EGraph, nodes: Iterable[int]) -> dict[int, OpInstance]:
    """Return the instance of every e-node in ``nodes`` that would run."""
    constant = egraph.constant_classes().tolist()
    start, children = egraph.child_start.tolist(), egraph.children.tolist()
    eclass, types, ops = egraph.eclass.tolist(), egraph.types, egraph.ops
    found: dict[int, OpInstance] = {}
    for i in nodes:
        op, attrs, operands = ops[i], egraph.attrs[i], children[start[i] : start[i + 1]]
        if not _free(op, attrs) and (op == "opaque" or not all(constant[c] for c in operands)):
            kinds, weights = tuple([types[c] for c in operands]), tuple([constant[c] for c in operands])
            found[i] = OpInstance(op, attrs, kinds, types[eclass[i]], weights)
    return found


def price_egraph(egraph: EGraph, model: CostModel) -> np.ndarray:
    """Return every e-node's cost in microseconds; each instance is priced once, and work on weights is free."""
    return _priced(egraph_instances_by_node(egraph, range(len(egraph))), len(egraph), model)


def _priced(found: Mapping[int, OpInstance], size: int, model: CostModel) -> np.ndarray:
    """Return the costs of instances by their numbers below ``size``; other numbers cost 0."""
    positions: dict[OpInstance, int] = {}
    which = np.full(size, -1, dtype=np.int64)
    for i, instance in found.items():
        which[i] = positions.setdefault(instance, len(positions))
    return np.append(np.asarray(model.price(list(positions)), dtype=float), 0.0)[which]


def deciding_instances(graph: Graph, egraph: EGraph, choice: np.ndarray) -> list[OpInstance]:
    """Return the distinct instances (:func:`same_kernel`) that a selection and a graph do not run equally often."""
    runs = Counter(map(same_kernel, node_instances(graph).values()))
    runs.subtract(map(same_kernel, egraph_instances_by_node(egraph, choice[choice >= 0].tolist()).values()))
    return [instance for instance, count in runs.items() if count]


def egraph_instances(egraph: EGraph, choice: np.ndarray | None = None) -> list[OpInstance]:
    """Return the distinct operator instances of an e-graph, or of a selection, that do not work on weights alone."""
    nodes = range(len(egraph)) if choice is None else choice[choice >= 0].tolist()
    return list(dict.fromkeys(egraph_instances_by_node(egraph, nodes).values()))


def node_instances(graph: Graph) -> dict[int, OpInstance]:
    """Return the instance of every node that runs, by position."""
    constant, live = graph.constant(), graph.reachable()
    return {
        i: OpInstance(
            node.op,
            node.attrs,
            tuple(graph.nodes[j].type for j in node.inputs),
            node.type,
            tuple(constant[j] for j in node.inputs),
        )
        for i, node in enumerate(graph.nodes)
        if not _free(node.op, node.attrs) and not constant[i] and live[i]
    }


def instances_of(graph: Graph) -> list[OpInstance]:
    """Return the distinct operator instances that run in a graph."""
    return list(dict.fromkeys(node_instances(graph).values()))


def node_costs(graph: Graph, model: CostModel) -> np.ndarray:
    """Return the cost of every node in microseconds; folded and unreachable nodes cost 0."""
    return _priced(node_instances(graph), len(graph), model)


def graph_cost(graph: Graph, model: CostModel) -> float:
    """Return the sum of the nodes' costs in microseconds."""
    return float(node_costs(graph, model).sum())


def operator_costs(graph: Graph, model: CostModel) -> dict[str, float]:
    """Return the cost of a graph by operator; operators that cost nothing are left out."""
    found = defaultdict[str, float](float)
    for node, cost in zip(graph.nodes, node_costs(graph, model).tolist(), strict=True):
        if cost > 0:
            found[node.op] += cost
    return dict(found)


#: Share of the cost of resizing that is left after a convolution (measured: 0.1 to 0.3).
KEPT: Final = 0.3
#: Largest number of channels in a block.
BLOCK: Final = 16
#: The operators whose results are in blocks, and those that have a kernel for them.
MAKE, KEEP = frozenset({"conv2d"}), frozenset({"resize"})


def blocked(egraph: EGraph, costs: np.ndarray) -> np.ndarray:
    """Return costs with the difference moved from e-nodes that resize to those that make their operands.

    A term whose convolutions are read by nothing but resizing costs as much as in the runtime. If something
    else reads a convolution's sibling, that sibling is too expensive, so these costs find a term but do not
    bound it.
    """
    made: dict[int, list[int]] = {}
    readers: list[int] = []
    for i, op in enumerate(egraph.ops):
        if op in MAKE and np.isfinite(costs[i]):
            made.setdefault(int(egraph.eclass[i]), []).append(i)
        elif op in KEEP and "cubic" not in egraph.attrs[i]:
            readers.append(i)
    moved = costs.copy()
    more: dict[int, float] = {}
    for i in readers:
        operand = int(egraph.operands(i)[0])
        if operand in made and operand != egraph.eclass[i] and _fits(egraph, operand, int(egraph.eclass[i])):
            gain = (1 - KEPT) * float(costs[i])
            moved[i] -= gain
            more[operand] = max(more.get(operand, 0.0), gain)
    if more:
        members = egraph.members()
        for operand, gain in more.items():
            moved[[i for i in members[operand] if i not in made[operand]]] += gain
    return moved


def _fits(egraph: EGraph, operand: int, result: int) -> bool:
    """Return whether the runtime has the kernel: whole blocks of channels, and every extent multiplied."""
    before, after = egraph.types[operand], egraph.types[result]
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or len(before.shape) != 4:
        return False
    extents = zip(before.shape[2:], after.shape[2:], strict=True)
    return before.shape[1] % BLOCK == 0 and all(large % small == 0 for small, large in extents)
