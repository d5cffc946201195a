"""Fusion chosen by extraction: an e-graph gets an e-node for every cluster, priced by its measured kernel.

A cluster's e-node stands for its operators at once: it belongs to the e-class of the result, and its children
are the e-classes that the cluster reads. Exact extraction then takes a cluster or its operators, whichever is
cheaper; an operator that is also needed elsewhere is paid for there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from workbench.codegen.clusters import MOST, Cluster, Member, cluster_of, fusible
from workbench.codegen.compiler import Build
from workbench.codegen.tuning import measured_schedules
from workbench.composites.binding import bind
from workbench.egraph import EGraph
from workbench.extraction import Solution
from workbench.extraction.extract import extract
from workbench.graph import Graph, GraphBuilder
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.activations import operator_of

#: The operator of a cluster's e-node.
FUSED: Final = "fused"

#: Operators that are one number, and those that are stored.
_NUMBERS: Final = with_trait(Trait.NUMBER)
_STORED: Final = with_trait(Trait.NAMED) & with_trait(Trait.CONSTANT)

#: Activations that ONNX Runtime computes within a convolution.
_WITHIN: Final = ("sigmoid", "relu", "tanh", "relu6")

#: Microseconds that a kernel costs next to its own time: a call, and one more session of the other runtime.
CROSSING: Final = 8.0

#: Results of fewer elements are not worth a kernel.
LEAST: Final = 1 << 10

#: The most kernels that are measured for one e-graph.
KERNELS: Final = 24


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """An e-graph with an e-node for each cluster, and the costs of all e-nodes in microseconds.

    ``clusters`` maps e-nodes to clusters, whose values are numbered by e-class. ``left`` is the number of
    clusters that were not priced, because time or the number of kernels ran out.
    """

    egraph: EGraph
    costs: np.ndarray
    clusters: Mapping[int, Cluster]
    left: int = 0

    def solve(self, seconds: float = 20.0) -> Solution:
        """Return the cheapest selection of operators and clusters."""
        return extract(self.egraph, self.costs, "auto", seconds=seconds)


def egraph_of(graph: Graph) -> EGraph:
    """Return a graph as an e-graph in which every e-class has one e-node; both have the graph's numbers."""
    start = np.cumsum([0, *(len(n.inputs) for n in graph.nodes)])
    children = np.array([j for n in graph.nodes for j in n.inputs], dtype=np.int64)
    count = len(graph.nodes)
    return EGraph(
        ops=tuple(n.op for n in graph.nodes),
        attrs=tuple(n.attrs for n in graph.nodes),
        child_start=start,
        children=children,
        eclass=np.arange(count),
        n_classes=count,
        roots=graph.output_ids,
        types=tuple(n.type for n in graph.nodes),
        original=np.arange(count),
    )


def fused(
    egraph: EGraph,
    costs: np.ndarray,
    numbers: Mapping[int, float],
    *,
    build: Build,
    threads: int = 1,
    seconds: float = 30.0,
    preferred: Sequence[int] | np.ndarray = (),
    price: Callable[[Cluster], float] | None = None,
) -> Fusion:
    """Return an e-graph with an e-node for each cluster that may pay.

    Args:
        egraph: The e-graph.
        costs: The cost of every e-node in microseconds.
        numbers: E-classes whose value is one known number.
        build: The options of the compiler.
        threads: The number of threads of a kernel.
        seconds: The time limit on compiling and measuring.
        preferred: For each e-class an e-node that clusters are grown from; -1 for any.
        price: The price of a cluster in microseconds; by default its kernel is measured.
    """
    began = time.monotonic()
    measured = price or (lambda cluster: kernel_price(cluster, build, threads))
    found: dict[tuple[int, tuple[int, ...], str], Cluster] = {}
    for cluster in _candidates(egraph, numbers, preferred):
        found.setdefault((cluster.result, cluster.inputs, str(cluster.composite)), cluster)
    worth = sorted(
        found.values(),
        key=lambda c: (-sum(_cost(egraph, costs, m) for m in c.members), c.result, len(c.members)),
    )
    prices: dict[tuple[str, tuple[TensorType, ...]], float] = {}
    chosen: list[tuple[Cluster, float]] = []
    left = 0
    for cluster in worth:
        whole = sum(_cost(egraph, costs, m) for m in cluster.members)
        if whole <= CROSSING:
            continue
        key = str(cluster.composite), cluster.types
        if key not in prices:
            if len(prices) >= KERNELS or time.monotonic() - began > seconds:
                left += 1
                continue
            prices[key] = measured(cluster)
        if prices[key] < math.inf:
            chosen.append((cluster, prices[key] + CROSSING))
    return _extended(egraph, costs, chosen, left)


def kernel_price(cluster: Cluster, build: Build, threads: int = 1) -> float:
    """Return the microseconds of a cluster's fastest kernel, measured or known from before."""
    binding = bind(cluster.composite, cluster.types)
    return measured_schedules(binding, build, threads=threads, seconds=0.05)[0].microseconds


def _extended(
    egraph: EGraph, costs: np.ndarray, chosen: Sequence[tuple[Cluster, float]], left: int
) -> Fusion:
    count, more = len(egraph), [c for c, _ in chosen]
    ends = egraph.child_start[-1] + np.cumsum([len(c.inputs) for c in more], dtype=np.int64)
    read = np.array([j for c in more for j in c.inputs], dtype=np.int64)
    births = egraph.birth_rule, egraph.birth_step
    grown = replace(
        egraph,
        ops=(*egraph.ops, *[FUSED] * len(more)),
        attrs=(*egraph.attrs, *[(k,) for k in range(len(more))]),
        child_start=np.concatenate([egraph.child_start, ends]),
        children=np.concatenate([egraph.children, read]),
        eclass=np.concatenate([egraph.eclass, np.array([c.result for c in more], dtype=np.int64)]),
        birth_rule=np.concatenate([births[0], np.full(len(more), -1)]) if len(births[0]) else births[0],
        birth_step=np.concatenate([births[1], np.zeros(len(more))]) if len(births[1]) else births[1],
        node_names=(),
        class_names=(),
    )
    prices = np.concatenate([costs, np.array([p for _, p in chosen], dtype=float)])
    return Fusion(grown, prices, {count + k: c for k, c in enumerate(more)}, left)


def _candidates(
    egraph: EGraph, numbers: Mapping[int, float], preferred: Sequence[int] | np.ndarray
) -> list[Cluster]:
    """Return clusters grown from every operator that has a form in index notation."""
    constant = egraph.constant_classes()
    best: dict[int, Member] = {}
    for eclass, nodes in enumerate(egraph.members()):
        if constant[eclass]:
            continue
        first = int(preferred[eclass]) if len(preferred) else -1
        for node in [*([first] if first >= 0 else []), *nodes]:
            member = _member(egraph, node)
            if member is not None and not _rides_along(egraph, member, preferred):
                best[eclass] = member
                break
    types = {c: t for c, t in enumerate(egraph.types) if isinstance(t, TensorType)}
    readers = np.bincount(egraph.children[: egraph.child_start[-1]], minlength=egraph.n_classes)
    found = []
    for root in best.values():
        if root.type.elements < LEAST and all(types[j].elements < LEAST for j in root.operands):
            continue
        for alone in (False, True):
            cluster = _grown(root, best, types, numbers, readers if alone else None)
            if cluster is not None and cluster.result not in cluster.inputs:
                found.append(cluster)
    return found


def _grown(
    root: Member,
    best: Mapping[int, Member],
    types: Mapping[int, TensorType],
    numbers: Mapping[int, float],
    readers: np.ndarray | None,
) -> Cluster | None:
    """Return the largest cluster found from its result upwards; with ``readers``, of values read once."""
    members = [root]
    cluster = cluster_of(members, types, numbers)
    tried: set[int] = {root.place}
    while cluster is not None and len(members) < MOST:
        near = [j for j in cluster.inputs if j in best and j not in tried]
        if readers is not None:
            near = [j for j in near if readers[j] == sum(j == o for m in members for o in m.operands)]
        if not near:
            break
        tried.add(near[0])
        more = _sorted(root, [*members, best[near[0]]])
        other = None if more is None else cluster_of(more, types, numbers)
        if more is not None and other is not None:
            members, cluster = more, other
    return cluster


def _sorted(root: Member, members: Sequence[Member]) -> list[Member] | None:
    """Return members with operands first and the root last, or None if that is impossible."""
    made = {m.place for m in members}
    order: list[Member] = []
    left, done = [m for m in members if m is not root], set[int]()
    while left:
        ready = [m for m in left if all(j in done or j not in made for j in m.operands)]
        if not ready:
            return None
        order += ready
        done |= {m.place for m in ready}
        left = [m for m in left if m not in ready]
    return [*order, root]


def _member(egraph: EGraph, node: int) -> Member | None:
    eclass = int(egraph.eclass[node])
    kind, operands = egraph.types[eclass], tuple(egraph.operands(node).tolist())
    op, attrs = egraph.ops[node], egraph.attrs[node]
    if not isinstance(kind, TensorType) or not fusible(op, len(operands), attrs, kind):
        return None
    return Member(eclass, op, attrs, operands, kind)


def _rides_along(egraph: EGraph, member: Member, preferred: Sequence[int] | np.ndarray) -> bool:
    """Return whether the other runtime computes an operator within the convolution before it, for nothing."""
    if not any((member.op, member.named) == _activation(act) for act in _WITHIN):
        return False
    images = with_trait(Trait.PRODUCT) & with_trait(Trait.FOUR_AXES)
    return any(
        egraph.ops[node] in images for node in np.flatnonzero(egraph.eclass == member.operands[0]).tolist()
    )


def _activation(act: str) -> tuple[str, dict[str, Any]]:
    spec, attrs = operator_of(act)
    return spec.name, attrs


def _cost(egraph: EGraph, costs: np.ndarray, member: Member) -> float:
    """Return the cost of the cheapest e-node that computes a member's value."""
    return float(costs[egraph.eclass == member.place].min())


def numbers_of(graph: Graph) -> dict[int, float]:
    """Return the values of a graph that are one known number, by node."""
    found = {}
    for i, node in enumerate(graph.nodes):
        if not isinstance(node.type, TensorType) or node.type.elements != 1 or "float" not in node.type.dtype:
            continue
        if node.op in _NUMBERS:
            evaluate = spec_of(node.op).evaluate
            assert evaluate is not None
            found[i] = float(evaluate([], node.named_attrs()).reshape(()))
        elif node.op in _STORED:
            found[i] = float(graph.weights[node.attr("name")].value().reshape(()))
    return found


def unfused(graph: Graph, fusion: Fusion, choice: np.ndarray) -> Graph:
    """Return the graph of a selection with the operators of its clusters in their place.

    It has the inputs, outputs and weights of ``graph``, and is what a certificate is about.
    """
    builder = GraphBuilder(graph.name)
    builder.weights, builder.opaques, builder.info = dict(graph.weights), dict(graph.opaques), graph.info
    for i in graph.inputs:
        builder.input(graph.nodes[i].attr("name"), graph.nodes[i].tensor.shape, graph.nodes[i].tensor.dtype)
    names = {builder.nodes[i].attrs[0]: i for i in builder.inputs}
    place: dict[int, int] = {}
    egraph = fusion.egraph
    members = egraph.members()
    for root in egraph.roots:
        stack = [root]
        while stack:
            c = stack[-1]
            node = int(choice[c])
            waiting = [j for j in egraph.operands(node).tolist() if j not in place]
            if c in place:
                stack.pop()
                continue
            if waiting:
                stack += waiting
                continue
            if node in fusion.clusters:
                inner = dict(place)
                for j in {j for m in fusion.clusters[node].members for j in m.operands} - set(place):
                    known = next((i for i in members[j] if egraph.ops[i] in _NUMBERS | _STORED), None)
                    if known is not None:  # a number, which is in the kernel's text
                        inner[j] = builder.apply(egraph.ops[known], [], egraph.attrs[known])
                for m in fusion.clusters[node].members:
                    inner[m.place] = builder.apply(m.op, [inner[j] for j in m.operands], m.attrs)
                place[c] = inner[c]
            elif egraph.ops[node] == "input":
                place[c] = names[egraph.attrs[node][0]]
            else:
                operands = [place[j] for j in egraph.operands(node).tolist()]
                place[c] = builder.apply(egraph.ops[node], operands, egraph.attrs[node])
            stack.pop()
    return builder.graph([(name, place[r]) for (name, _), r in zip(graph.outputs, egraph.roots, strict=True)])
