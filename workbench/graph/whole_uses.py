"""The values of a graph that are read whole, however parts of other values are computed."""

from __future__ import annotations

from workbench.graph.graph import Graph
from workbench.ops import TensorType, spec_of
from workbench.ops.locality import Axes, Operand

_WHOLE: Axes = frozenset()


def read_whole(graph: Graph) -> frozenset[int]:
    """Return the nodes every element of which is needed in any case.

    An output is needed whole. Of a value that is read in part, only a part is needed, and of its operands
    what their operators' rules say (:mod:`workbench.ops.locality`): the rows of an attention's result need the
    same rows of its queries, but all keys and values. A part of a value that is needed whole is computed
    anyway.

    >>> from workbench.graph import GraphBuilder
    >>> b = GraphBuilder()
    >>> y = b.op("matmul", b.input("x", (4, 8)), b.weight((8, 8)))
    >>> graph = b.graph({"y": b.op("slice", y, axis=-2, start=0, stop=1)})
    >>> [node.op for i, node in enumerate(graph.nodes) if i in read_whole(graph)]
    ['weight', 'slice']
    """
    demands: list[set[Axes]] = [set() for _ in graph.nodes]
    for i in graph.output_ids:
        demands[i].add(_WHOLE)
    for i in range(len(graph.nodes) - 1, -1, -1):
        # What needs a part needs no more than what needs the whole.
        needed = {a for a in demands[i] if not any(b < a for b in demands[i])}
        for k, operand in enumerate(graph.nodes[i].inputs):
            demands[operand] |= {_of_operand(graph, i, k, axes) for axes in needed}
    return frozenset(i for i, found in enumerate(demands) if _WHOLE in found)


def _of_operand(graph: Graph, i: int, k: int, axes: Axes) -> Axes:
    """Return the axes along which a part of an operand suffices for a part of a node's value."""
    node = graph.nodes[i]
    inputs = [graph.nodes[j].type for j in node.inputs]
    kinds = [kind for kind in inputs if isinstance(kind, TensorType)]
    if not isinstance(node.type, TensorType) or len(kinds) < len(inputs):
        return axes
    spec = spec_of(node.op)
    if spec.parts is not None:
        return spec.parts(axes, Operand(k, kinds, node.type, spec.unpack(node.attrs)))
    return frozenset(range(-kinds[k].rank, 0)) if axes else _WHOLE
