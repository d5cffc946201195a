"""Drawings in Graphviz's DOT language, as ``graphviz.Source``: to render, to edit, to put into a paper."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from workbench.graph.text import format_attrs
from workbench.ops.inputs_and_opaque import NAMED

if TYPE_CHECKING:
    import graphviz

    from workbench.graph.graph import Graph

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
    try:
        graphviz: Any = import_module("graphviz")
    except ImportError:
        raise ImportError(
            "to_dot() needs the package graphviz: pip install 'tamago-workbench[notebook]'"
        ) from None
    body = "\n".join(f"  {line}" for line in (*_STYLE, *statements))
    return graphviz.Source(f"digraph {quoted(name)} {{\n{body}\n}}\n")


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
