"""Decisions of the writer that need the whole graph: nodes passed through, fused or written together."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.graph import Graph
from workbench.graph.dataflow import read_transposed
from workbench.support.orders import postorder


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two matrices that is written with flags: which operands it reads transposed.

    ``node`` is the product; it reads two matrices, and a third operand if it absorbs a sum.
    """

    node: int
    transposed: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Plan:
    """The way in which a graph's nodes are written.

    ``reads[i]`` are the nodes that node ``i`` reads after identities are passed through, chains of reshapes
    skipped and biases absorbed; ``order`` are the nodes to write. ``alias`` maps an identity to the node that
    it passes through. ``bias`` maps a sum to the convolution that absorbs its constant as a bias and is
    written in its place. ``parts`` maps a slice to all slices (including itself, in order) that together
    partition one axis of one value. ``products`` maps a node to the product that is written in its place:
    the product itself, or the sum of the product and a constant.
    """

    reads: dict[int, tuple[int, ...]]
    order: tuple[int, ...]
    alias: dict[int, int]
    bias: dict[int, int] = field(default_factory=dict)
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    products: dict[int, Product] = field(default_factory=dict)

    def resolved(self, node: int) -> int:
        """Return the node that computes the value of ``node``, which may be an identity."""
        return self.alias.get(node, node)


def plan(graph: Graph) -> Plan:
    """Plan how a graph is written."""
    nodes = graph.nodes
    alias: dict[int, int] = {}
    reads: dict[int, tuple[int, ...]] = {}
    products: dict[int, Product] = {}
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
            products[i] = Product(i, (left, right))
            operands = tuple(reads[j][0] if j in transposed else j for j in operands)
        reads[i] = operands
    outputs = [alias.get(i, i) for i in graph.output_ids]
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    bias: dict[int, int] = {}
    readers: dict[int, int] = dict.fromkeys(outputs, 2)
    for i in order:
        for j in reads[i]:
            readers[j] = readers.get(j, 0) + 1
    for i in order:
        found = _biased(graph, i, reads, readers)
        if found is not None:
            convolution, constant = found
            bias[i] = convolution
            reads[i] = (*reads[convolution], constant)
            continue
        added = _added(graph, i, reads, readers, products)
        if added is not None:
            product, constant = added
            products[i] = products[product]
            reads[i] = (*reads[product], constant)
    order = tuple(sorted(postorder(outputs, reads.__getitem__)))
    return Plan(reads, order, alias, bias, _partitions(graph, order, reads), products)


def _biased(
    graph: Graph, i: int, reads: dict[int, tuple[int, ...]], readers: dict[int, int]
) -> tuple[int, int] | None:
    """Return the convolution and the constant per channel that a sum adds; None for other nodes."""
    if graph.nodes[i].op != "add":
        return None
    for convolution, constant in (reads[i], reads[i][::-1]):
        node, weight = graph.nodes[convolution], graph.nodes[constant]
        if node.op != "conv2d" or weight.op != "weight" or readers[convolution] != 1:
            continue
        if len(node.inputs) == 2 and node.attr("act") == "none" and graph.nodes[i].type == node.type:
            channels = node.tensor.shape[1]
            if weight.tensor.shape in ((1, channels, 1, 1), (channels, 1, 1)):
                return convolution, constant
    return None


def _added(
    graph: Graph,
    i: int,
    reads: dict[int, tuple[int, ...]],
    readers: dict[int, int],
    products: dict[int, Product],
) -> tuple[int, int] | None:
    """Return the flagged product and the constant row that a sum adds; None for other nodes."""
    if graph.nodes[i].op != "add":
        return None
    for product, constant in (reads[i], reads[i][::-1]):
        if product not in products or graph.nodes[constant].op != "weight" or readers[product] != 1:
            continue
        node = graph.nodes[product]
        if node.attr("act") == "none" and graph.nodes[i].type == node.type:
            columns = node.tensor.shape[1]
            if graph.nodes[constant].tensor.shape in ((columns,), (1, columns)):
                return product, constant
    return None


def _partitions(
    graph: Graph, order: tuple[int, ...], reads: dict[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for i in order:
        node = graph.nodes[i]
        if node.op == "slice" and node.attr("step") == 1:
            groups.setdefault((reads[i][0], node.attr("axis")), []).append(i)
    parts: dict[int, tuple[int, ...]] = {}
    for (value, axis), members in groups.items():
        members.sort(key=lambda i: graph.nodes[i].attr("start"))
        stops = [graph.nodes[i].attr("stop") for i in members]
        starts = [graph.nodes[i].attr("start") for i in members]
        whole = graph.nodes[value].tensor.shape[axis]
        if len(members) > 1 and starts == [0, *stops[:-1]] and stops[-1] == whole:
            parts |= dict.fromkeys(members, tuple(members))
    return parts
