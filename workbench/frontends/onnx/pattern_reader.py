"""Reading of a graph's operators in search of patterns of exporters."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.graph import Graph
from workbench.graph.dataflow import numbers_in


class Reader:
    """A reader of a graph's operators, which passes through identities."""

    def __init__(self, graph: Graph) -> None:
        self.nodes, self.numbers, self.constant = graph.nodes, numbers_in(graph), graph.constant()

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

    def operand(self, i: int, op: str) -> int | None:
        """Return the operand of an operator of one operand, or None if a node is another one."""
        return self.at(self.nodes[i].inputs[0]) if self.nodes[i].op == op else None
