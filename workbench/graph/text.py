"""The forms of a graph for people: text, one node per line, and drawings in Graphviz's DOT language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from workbench.ops import spec_of
from workbench.ops.inputs_and_opaque import NAMED
from workbench.support.wings import offered

if TYPE_CHECKING:
    import graphviz

    from workbench.graph.graph import Graph, Node


def format_attr(value: object) -> str:
    """Return an attribute's value in the notation of the rule language."""
    return f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)


def format_attrs(node: Node) -> str:
    """Return the attributes of a node that are not defaults, as in ``[groups=1]``; or an empty text."""
    given = zip(spec_of(node.op).attrs, node.attrs, strict=True)
    shown = [f"{attr.name}={format_attr(value)}" for attr, value in given if value != attr.default]
    return f"[{', '.join(shown)}]" if shown else ""


def node_text(node: Node) -> str:
    """Return a node on one line: ``conv2d[groups=1](%0, %1) : float32[1, 8, 4, 4]``."""
    operands = f"({', '.join(f'%{j}' for j in node.inputs)})" if node.inputs else ""
    return f"{node.op}{format_attrs(node)}{operands} : {node.type}"


def format_graph(graph: Graph) -> str:
    """Return one line per node: ``%3 = conv2d[groups=1](%0, %1) : float32[1, 8, 4, 4]``."""
    lines = [f"graph {graph.name}", *(f"  %{i} = {node_text(node)}" for i, node in enumerate(graph.nodes))]
    lines += [f"  return {name} = %{i}" for name, i in graph.outputs]
    return "\n".join(lines)


_STYLE: Final = (
    "compound=true",
    'node [shape=box, style="rounded,filled", fillcolor="#f4f6f8", color="#8a94a0", '
    'fontname="Helvetica", fontsize=10]',
    'edge [color="#5b6570", arrowsize=0.6]',
)


def quoted(text: str) -> str:
    r"""Return a text as a quoted string of the DOT language.

    >>> print(quoted('say "x"'))
    "say \"x\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def dot_source(name: str, statements: Iterable[str]) -> graphviz.Source:
    """Return statements as ``graphviz.Source``; raise ImportError if the package graphviz is missing."""
    body = "\n".join(f"  {line}" for line in (*_STYLE, *statements))
    return offered("dot_source")(f"digraph {quoted(name)} {{\n{body}\n}}\n")


def graph_dot(graph: Graph) -> graphviz.Source:
    """Return a drawing of a graph, operands above the operators that read them.

    Every node has its operator, the attributes that are not defaults, and its type. Nodes that depend on
    weights alone are drawn dashed: they are computed once.
    """
    folded = graph.constant()
    lines = []
    for i, node in enumerate(graph.nodes):
        title = str(node.attrs[0]) if node.op in NAMED else node.op + format_attrs(node)
        style = ', style="rounded,dashed"' if folded[i] else ""
        label = quoted(f"{title}\n{node.type}")
        lines.append(f"n{i} [label={label}{style}]")
        lines += [f"n{j} -> n{i}" for j in node.inputs]
    for k, (name, i) in enumerate(graph.outputs):
        lines += [f"out{k} [label={quoted(name)}, shape=plaintext]", f"n{i} -> out{k}"]
    return dot_source(graph.name, lines)
