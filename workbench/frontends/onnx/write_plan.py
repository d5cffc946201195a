"""Decisions of the writer that need the whole graph: nodes passed through, fused or written together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workbench.graph import Graph
from workbench.graph.dataflow import read_transposed
from workbench.support.orders import postorder

#: Nodes by the node that they belong to.
_Reads = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The way in which a graph's nodes are written.

    ``reads[i]`` are the nodes that node ``i`` reads after identities are passed through, chains of reshapes
    skipped and biases absorbed; ``order`` are the nodes to write. ``alias`` maps an identity to the node that
    it passes through. ``bias`` maps a sum to the convolution that absorbs its constant as a bias and is
    written in its place. ``parts`` maps a slice to all slices (including itself, in order) that together
    partition one axis of one value. ``products`` maps a node to the product of two matrices that is written in
    its place, and which operands this reads transposed: the product itself, or its sum with a constant.
    """

    reads: _Reads
    order: tuple[int, ...]
    alias: dict[int, int]
    bias: dict[int, int] = field(default_factory=dict)
    parts: _Reads = field(default_factory=dict)
    products: dict[int, tuple[int, tuple[bool, bool]]] = field(default_factory=dict)

    def resolved(self, node: int) -> int:
        """Return the node that computes the value of ``node``, which may be an identity."""
        return self.alias.get(node, node)


def plan(graph: Graph) -> Plan:
    """Plan how a graph is written."""
    nodes = graph.nodes
    alias: dict[int, int] = {}
    reads: _Reads = {}
    products: dict[int, tuple[int, tuple[bool, bool]]] = {}
    transposed = read_transposed(graph)
    for i, node in enumerate(nodes):
        operands = tuple(alias.get(j, j) for j in node.inputs)
        if node.op == "identity":
            alias[i] = operands[0]
            continue
        if node.op == "reshape":
            # Only the last shape of a chain counts; an inner reshape with other readers is still written.
            while nodes[operands[0]].op == "reshape":
                operands = reads[operands[0]]
        if node.op == "conv2d" and len(operands) == 3 and nodes[operands[2]].op == "reshape":
            # ONNX's bias has one axis, so a reshape made for the operator is not needed.
            operands = (*operands[:2], *reads[operands[2]])
        if node.op == "matmul" and transposed.intersection(operands):
            left, right = (j in transposed for j in operands)
            products[i] = i, (left, right)
            operands = tuple(reads[j][0] if j in transposed else j for j in operands)
        reads[i] = operands
    outputs = [alias.get(i, i) for i in graph.output_ids]
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    bias: dict[int, int] = {}
    readers = Counter(j for i in order for j in reads[i]) + Counter([*outputs, *outputs])
    for i in order:
        for product, constant in _absorbing(graph, i, reads, readers):
            if graph.nodes[product].op == "conv2d":
                bias[i] = product
            elif product in products:
                products[i] = products[product]
            else:
                continue
            reads[i] = (*reads[product], constant)
            break
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    return Plan(reads, order, alias, bias, _partitions(graph, order, reads), products)


def _absorbing(graph: Graph, i: int, reads: _Reads, readers: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the convolutions and products to which a sum adds a stored row, one number per channel, with the row."""
    for product, constant in (reads[i], reads[i][::-1]) if graph.nodes[i].op == "add" else ():
        node, row = graph.nodes[product], graph.nodes[constant]
        if node.op not in ("conv2d", "matmul") or row.op != "weight" or readers[product] != 1:
            continue
        if len(node.inputs) == 2 and node.attr("act") == "none" and graph.nodes[i].type == node.type:
            after = (node.tensor.shape[1], *((1, 1) if node.op == "conv2d" else ()))
            if row.tensor.shape in (after, (1, *after)):
                yield product, constant


def _partitions(graph: Graph, order: tuple[int, ...], reads: _Reads) -> _Reads:
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for i in order:
        node = graph.nodes[i]
        if node.op == "slice" and node.attr("step") == 1:
            cut = node.attr("start"), node.attr("stop"), i
            groups.setdefault((reads[i][0], node.attr("axis")), []).append(cut)
    parts: _Reads = {}
    for (value, axis), cuts in groups.items():
        starts, stops, members = zip(*sorted(cuts, key=lambda cut: cut[0]), strict=True)
        if (
            len(members) > 1
            and starts == (0, *stops[:-1])
            and stops[-1] == graph.nodes[value].tensor.shape[axis]
        ):
            parts |= dict.fromkeys(members, members)
    return parts
