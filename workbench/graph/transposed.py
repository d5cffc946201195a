"""Stored matrices that products read transposed.

A product can read a matrix by rows or by columns, so its transpose need not be stored as well.
"""

from __future__ import annotations

from typing import Final

from workbench.graph.graph import Graph

#: Element types of the products that can read a matrix either way.
_DTYPES: Final = ("float16", "float32", "float64")


def read_transposed(graph: Graph) -> frozenset[int]:
    """Return the transposes of stored matrices that only products of two matrices read."""
    found: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if node.op != "transpose" or node.attr("perm") != (1, 0):
            continue
        if graph.nodes[node.inputs[0]].op == "weight" and node.tensor.dtype in _DTYPES:
            found.add(i)
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
