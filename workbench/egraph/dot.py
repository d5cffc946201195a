"""Drawings of e-graphs in Graphviz's DOT language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from workbench.graph.dot import dot_source, quoted
from workbench.ops.inputs_and_opaque import NAMED

if TYPE_CHECKING:
    import graphviz

    from workbench.egraph.egraph import EGraph

#: E-nodes up to which a drawing can be read, and Graphviz places it in seconds.
MOST_E_NODES: Final = 2000


def egraph_dot(egraph: EGraph, *, most: int = MOST_E_NODES) -> graphviz.Source:
    """Return a drawing of an e-graph: one frame per e-class, an arrow from an e-node to each operand.

    Raise ValueError if there are more than ``most`` e-nodes.
    """
    if len(egraph) > most:
        raise ValueError(
            f"an e-graph must have at most {most} e-nodes to be drawn, got {len(egraph)} "
            "(try view(), which shows a part of it, or most=…)"
        )
    members, roots = egraph.members(), set(egraph.roots)
    lines = []
    for c, nodes in enumerate(members):
        title = egraph.class_name(c) + (f" : {egraph.types[c]}" if egraph.types and egraph.types[c] else "")
        lines += [f"subgraph cluster_{c} {{", f"label={quoted(title)}; style=dashed; fontsize=9"]
        lines += ["penwidth=2"] if c in roots else []
        lines += [f"n{i} [label={quoted(_label(egraph, i))}]" for i in nodes]
        lines.append("}")
    for i in range(len(egraph)):
        # An arrow ends at a frame: it is drawn to an e-node in it and clipped there.
        lines += [f"n{i} -> n{members[c][0]} [lhead=cluster_{c}]" for c in egraph.operands(i).tolist()]
    return dot_source("egraph", lines)


def _label(egraph: EGraph, i: int) -> str:
    shown = [str(value) for value in egraph.attrs[i]] if egraph.ops[i] in NAMED else []
    return " ".join([egraph.ops[i], *shown])
