"""The text form of a graph: one node a line, readable and diffable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.graph.graph import Graph


def format_attr(value: Any) -> str:
    """Return an attribute's value as the rule language writes it."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(str, value)) + ")"
    return str(value)


def format_graph(graph: Graph) -> str:
    """Return a line for every node: ``%3 = conv2d[groups=1](%0, %1) : float32[1, 8, 4, 4]``."""
    from workbench.ops import spec_of

    lines = [f"graph {graph.name}"]
    for i, node in enumerate(graph.nodes):
        spec = spec_of(node.op)
        shown = [
            f"{a.name}={format_attr(v)}"
            for a, v in zip(spec.attrs, node.attrs, strict=True)
            if v != a.default
        ]
        attrs = f"[{', '.join(shown)}]" if shown else ""
        operands = f"({', '.join(f'%{j}' for j in node.inputs)})" if node.inputs else ""
        lines.append(f"  %{i} = {node.op}{attrs}{operands} : {node.type}")
    lines += [f"  return {name} = %{i}" for name, i in graph.outputs]
    return "\n".join(lines)
