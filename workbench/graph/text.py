"""The text form of a graph: one node per line, readable and diffable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.graph.graph import Graph, Node


def format_attr(value: object) -> str:
    """Return an attribute's value in the notation of the rule language."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(str, value)) + ")"
    return str(value)


def format_attrs(node: Node) -> str:
    """Return the attributes of a node that are not defaults, as in ``[groups=1]``; or an empty text."""
    from workbench.ops import spec_of

    given = zip(spec_of(node.op).attrs, node.attrs, strict=True)
    shown = [f"{attr.name}={format_attr(value)}" for attr, value in given if value != attr.default]
    return f"[{', '.join(shown)}]" if shown else ""


def format_graph(graph: Graph) -> str:
    """Return one line per node: ``%3 = conv2d[groups=1](%0, %1) : float32[1, 8, 4, 4]``."""
    lines = [f"graph {graph.name}"]
    for i, node in enumerate(graph.nodes):
        attrs = format_attrs(node)
        operands = f"({', '.join(f'%{j}' for j in node.inputs)})" if node.inputs else ""
        lines.append(f"  %{i} = {node.op}{attrs}{operands} : {node.type}")
    lines += [f"  return {name} = %{i}" for name, i in graph.outputs]
    return "\n".join(lines)
