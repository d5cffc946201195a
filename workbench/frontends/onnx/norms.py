"""Normalisations that exporters write in parts, read as the operators that they are.

Before ONNX had layer norms, an exporter wrote each as nine operators; most still do so for root mean squares.
Rules can recognise them too, but only after other rules have taken scales, shifts and quotients apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.graph import Graph, GraphBuilder
from workbench.graph.numbers import numbers_in


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation along the last axis: its operator, operand, epsilon, and scale and shift if any."""

    op: str
    x: int
    eps: float
    scale: int | None = None
    shift: int | None = None

    @property
    def read(self) -> tuple[int, ...]:
        """Return the nodes that it reads."""
        return tuple(i for i in (self.x, self.scale, self.shift) if i is not None)


def whole(graph: Graph) -> Graph:
    """Return the graph with one operator in place of every normalisation that is written in parts."""
    found = _Reader(graph).norms()
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
            place[i] = _built(builder, found[i], place)
        elif i in needed:
            place[i] = builder.apply(node.op, [place[j] for j in node.inputs], node.attrs)
        if i in place and i in graph.labels:
            builder.labels[place[i]] = graph.labels[i]
    return builder.graph([(name, place[i]) for name, i in graph.outputs])


def _built(builder: GraphBuilder, norm: Norm, place: dict[int, int]) -> int:
    x = place[norm.x]
    kind = builder.type(x)
    scale = (
        builder.op("ones", shape=kind.shape[-1:], dtype=kind.dtype)
        if norm.scale is None
        else place[norm.scale]
    )
    more = () if norm.shift is None else (place[norm.shift],)
    return builder.op(norm.op, x, scale, *more, axis=-1, eps=norm.eps)


def _needed(graph: Graph, found: dict[int, Norm]) -> set[int]:
    needed: set[int] = set()
    stack = [i for _, i in graph.outputs]
    while stack:
        i = stack.pop()
        if i not in needed:
            needed.add(i)
            stack += found[i].read if i in found else graph.nodes[i].inputs
    return needed


class _Reader:
    """A reader of a graph's operators, which passes through identities."""

    def __init__(self, graph: Graph) -> None:
        self.nodes, self.numbers, self.constant = graph.nodes, numbers_in(graph), graph.constant()

    def norms(self) -> dict[int, Norm]:
        """Return the nodes that are normalisations, each with all of its scale and shift that it includes."""
        found: dict[int, Norm] = {}
        for i, node in enumerate(self.nodes):
            norm = self.normalised(i)
            if node.op in ("mul", "add") and norm is None:
                for a, b in self.sides(i):
                    if a in found and norm is None and self.row(b, i):
                        norm = _extended(found[a], node.op, b)
            if norm is not None and self.nodes[norm.x].type == node.type:
                found[i] = norm
        return found

    def at(self, i: int) -> int:
        """Return the node whose value a node has."""
        while self.nodes[i].op == "identity":
            i = self.nodes[i].inputs[0]
        return i

    def sides(self, i: int) -> Iterator[tuple[int, int]]:
        """Yield the two operands of a node in both orders."""
        a, b = (self.at(j) for j in self.nodes[i].inputs)
        yield a, b
        yield b, a

    def row(self, i: int, of: int) -> bool:
        """Return whether a node is a constant with one number for every column of another."""
        return self.constant[i] and self.nodes[i].tensor.shape == self.nodes[of].tensor.shape[-1:]

    def operand(self, i: int, op: str) -> int | None:
        """Return the operand of an operator of one operand, or None if a node is another one."""
        return self.at(self.nodes[i].inputs[0]) if self.nodes[i].op == op else None

    def mean(self, i: int) -> int | None:
        """Return what a node is the mean of along the last axis, which it keeps."""
        x = self.operand(i, "reduce_mean")
        last = self.nodes[i].named_attrs() == {"axes": (-1,), "keepdims": 1}
        return x if x is not None and last else None

    def square(self, i: int) -> int | None:
        """Return what a node is the square of."""
        op = self.nodes[i].op
        if op not in ("mul", "pow"):
            return None
        a, b = (self.at(j) for j in self.nodes[i].inputs)
        squared = a == b if op == "mul" else self.numbers.get(b) == 2
        return a if squared else None

    def inverse(self, i: int) -> int | None:
        """Return what a node is the inverse root of."""
        node = self.nodes[i]
        if node.op == "reciprocal":
            return self.operand(self.at(node.inputs[0]), "sqrt")
        if node.op in ("pow", "div"):
            a, b = (self.at(j) for j in node.inputs)
            if node.op == "pow":
                return a if self.numbers.get(b) == -0.5 else None
            return self.operand(b, "sqrt") if self.numbers.get(a) == 1 else None
        return None

    def normalised(self, i: int) -> Norm | None:
        """Return the normalisation that a node is, without scale and shift."""
        if self.nodes[i].op == "div":
            top, bottom = (self.at(j) for j in self.nodes[i].inputs)
            return self.divided(top, self.operand(bottom, "sqrt"))
        if self.nodes[i].op == "mul":
            for a, b in self.sides(i):
                if (found := self.divided(a, self.inverse(b))) is not None:
                    return found
        return None

    def divided(self, d: int, variance: int | None) -> Norm | None:
        """Return the normalisation that divides a node by the root of another one."""
        if variance is None or self.nodes[variance].op != "add":
            return None
        for a, b in self.sides(variance):
            square = self.mean(a)
            if square is None or b not in self.numbers or self.square(square) != d:
                continue
            if self.nodes[d].op == "sub":
                x, mean = (self.at(j) for j in self.nodes[d].inputs)
                if self.mean(mean) == x:
                    return Norm("layernorm", x, self.numbers[b])
            return Norm("rmsnorm", d, self.numbers[b])
        return None


def _extended(norm: Norm, op: str, by: int) -> Norm | None:
    """Return a normalisation followed by a scale or a shift, or None if it takes no more of them."""
    if op == "mul":
        return replace(norm, scale=by) if norm.scale is None and norm.shift is None else None
    return replace(norm, shift=by) if norm.shift is None and norm.op == "layernorm" else None
