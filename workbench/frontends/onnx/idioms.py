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
from workbench.graph import Graph, GraphBuilder


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
    builder = GraphBuilder(graph.name)
    builder.weights, builder.opaques, builder.info = dict(graph.weights), dict(graph.opaques), graph.info
    needed = _needed(graph, found)
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            place[i] = builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
        elif i in needed and i in found:
            place[i] = found[i].built(builder, place)
        elif i in needed:
            place[i] = builder.apply(node.op, [place[j] for j in node.inputs], node.attrs)
        if i in place and i in graph.labels:
            builder.labels[place[i]] = graph.labels[i]
    return builder.graph([(name, place[i]) for name, i in graph.outputs])


def _needed(graph: Graph, found: Mapping[int, Whole]) -> set[int]:
    needed: set[int] = set()
    stack = [i for _, i in graph.outputs]
    while stack:
        i = stack.pop()
        if i not in needed:
            needed.add(i)
            stack += found[i].read if i in found else graph.nodes[i].inputs
    return needed
