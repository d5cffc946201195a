"""Operators that exporters write in parts, read as the operators that they are.

Rules can recognise them too, but only after other rules have taken scales, shifts and quotients apart. Until
then, every scale of a part that moves to a neighbour makes a variant, and a layer has hundreds of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from workbench.frontends.onnx.gelus import gelus
from workbench.frontends.onnx.norms import norms
from workbench.frontends.onnx.pattern_reader import Reader
from workbench.graph import Graph, GraphBuilder, Node
from workbench.support.orders import postorder


class Whole(Protocol):
    """An operator that a graph has in parts."""

    @property
    def read(self) -> tuple[int, ...]:
        """Return the nodes that it reads."""

    def built(self, builder: GraphBuilder, place: Mapping[int, int]) -> int:
        """Add the operator; ``place`` maps the nodes that it reads to those of the builder."""


def whole(graph: Graph) -> Graph:
    """Return the graph with one operator in place of every norm and every gelu that is written in parts."""
    reader = Reader(graph)
    found: dict[int, Whole] = {**norms(reader), **gelus(reader)}
    if not found:
        return graph
    place: dict[int, int] = {}

    def made(builder: GraphBuilder, i: int, node: Node, inputs: list[int]) -> int:
        if i in found:
            place[i] = found[i].built(builder, place)
        elif node.op == "input":
            place[i] = builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
        else:
            place[i] = builder.apply(node.op, inputs, node.attrs)
        return place[i]

    needed = postorder(graph.output_ids, lambda i: found[i].read if i in found else graph.nodes[i].inputs)
    return graph.copied(made, keep=set(needed))
