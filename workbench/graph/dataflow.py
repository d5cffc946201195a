"""How values of a graph are read: whole or in part, and matrices that products read transposed."""

from __future__ import annotations

from typing import Final

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

    >>> from workbench.graph import Builder
    >>> b = Builder()
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


#: Element types of the products that can read a matrix either way.
_DTYPES: Final = ("float16", "float32", "float64")

#: Bytes from which a matrix that is read both ways is stored once.
TIED: Final = 1 << 26


def kept_transposed(graph: Graph) -> frozenset[int]:
    """Return the transposes of stored matrices that are not stored too: see :func:`read_transposed`.

    A large matrix that is read untransposed as well, as an embedding that is also a head, would take twice the file
    and the memory. A runtime transposes it once.
    """
    live, constant = graph.reachable(), graph.constant()
    read = {j for i, n in enumerate(graph.nodes) if live[i] and not constant[i] for j in n.inputs}
    tied = {
        i
        for i in read - set(graph.output_ids)
        if graph.nodes[i].op == "transpose" and graph.nodes[i].tensor.nbytes >= TIED
        if graph.nodes[i].inputs[0] in read and graph.nodes[graph.nodes[i].inputs[0]].op == "weight"
    }
    return read_transposed(graph) | tied


def read_transposed(graph: Graph) -> frozenset[int]:
    """Return the transposes of stored matrices that only products of two matrices read.

    A product can read a matrix by rows or by columns, so its transpose need not be stored as well.
    """
    found = {
        i
        for i, node in enumerate(graph.nodes)
        if node.op == "transpose" and node.attr("perm") == (1, 0)
        if graph.nodes[node.inputs[0]].op == "weight" and node.tensor.dtype in _DTYPES
    }
    if not found:
        return frozenset()
    live, constant = graph.reachable(), graph.constant()
    found -= set(graph.output_ids)
    read: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if live[i] and not constant[i]:
            read.update(node.inputs)
            if node.op != "matmul" or any(graph.nodes[j].tensor.rank != 2 for j in node.inputs):
                found -= set(node.inputs)
    return frozenset(i for i in found & read if graph.nodes[i].tensor.elements)
