"""Graphs as layered drawings: laid out by Graphviz, or by layers where it is not installed."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

from workbench.graph import Graph

#: Nodes above which a drawing says nothing any more.
MOST_NODES: Final = 160

#: Operators by what they do, in colours that can be told apart: products, windows, the rest of the work.
FAMILIES: Final = {
    "matmul": "#9ecae1", "conv2d": "#9ecae1", "maxpool": "#c7e9c0", "avgpool": "#c7e9c0",
    "input": "#ffffff", "weight": "#f0f0f0", "opaque": "#fdd0a2",
}  # fmt: skip


def shown_nodes(graph: Graph) -> list[int]:
    """Return the nodes that are drawn: what depends on inputs; weights stand in their readers' labels."""
    running = [i for i, node in enumerate(graph.nodes) if node.op not in ("weight", "input")]
    return [*graph.inputs, *running]


def node_label(graph: Graph, i: int) -> str:
    """Return a node's label: operator, result type, and the types of the weights it reads."""
    node = graph.nodes[i]
    title = node.attr("name") if node.op == "input" else node.op
    weights = [str(graph.nodes[j].type) for j in node.inputs if graph.nodes[j].op == "weight"]
    return "\n".join([str(title), str(node.type), *(f"weight {w}" for w in weights)])


def graph_svg(graph: Graph, *, most: int = MOST_NODES, fill: Mapping[int, str] | None = None) -> bytes | None:
    """Return a drawing of a graph as SVG, or None where it has too many nodes to be read.

    ``fill`` gives nodes another colour than their operator's.
    """
    nodes = shown_nodes(graph)
    if len(nodes) > most:
        return None

    def colour(i: int) -> str:
        return (fill or {}).get(i) or FAMILIES.get(graph.nodes[i].op, "#e5e5f7")

    edges = [
        (j, i) for i in nodes for j in dict.fromkeys(graph.nodes[i].inputs) if graph.nodes[j].op != "weight"
    ]
    try:
        import pygraphviz
    except ImportError:
        return _by_layers(graph, nodes, edges, colour)
    drawing: Any = pygraphviz.AGraph(directed=True, rankdir="TB", nodesep="0.2", ranksep="0.3")
    drawing.node_attr.update(
        shape="box", style="filled,rounded", fontname="Helvetica", fontsize="10", margin="0.08,0.04"
    )
    drawing.edge_attr.update(arrowsize="0.6", color="#666666")
    for i in nodes:
        drawing.add_node(i, label=node_label(graph, i), fillcolor=colour(i))
    for name, i in graph.outputs:
        drawing.add_node(f"out {name}", label=name, shape="plaintext", style="")
        edges.append((i, f"out {name}"))  # type: ignore[arg-type]
    for source, target in edges:
        drawing.add_edge(source, target)
    return bytes(drawing.draw(format="svg", prog="dot"))


def _by_layers(
    graph: Graph, nodes: list[int], edges: list[tuple[int, int]], colour: Callable[[int], str]
) -> bytes:
    """Draw without Graphviz: every node as low as its deepest operand demands."""
    import networkx as nx
    from matplotlib.figure import Figure

    drawn: Any = nx.DiGraph()
    drawn.add_nodes_from(nodes)
    drawn.add_edges_from(edges)
    for layer, group in enumerate(nx.topological_generations(drawn)):
        for i in group:
            drawn.nodes[i]["layer"] = -layer
    places = nx.multipartite_layout(drawn, subset_key="layer", align="horizontal")
    place = {i: (float(x), float(y)) for i, (x, y) in places.items()}
    layers = {drawn.nodes[i]["layer"] for i in nodes}
    figure = Figure(figsize=(8, max(2.0, 0.7 * len(layers))), layout="constrained")
    axes = figure.subplots()
    axes.axis("off")
    for source, target in edges:
        axes.annotate("", place[target], place[source], arrowprops={"arrowstyle": "->", "color": "#666666"})
    for i in nodes:
        axes.text(
            place[i][0],
            place[i][1],
            node_label(graph, i),
            ha="center",
            va="center",
            fontsize=7,
            bbox={"boxstyle": "round", "facecolor": colour(i), "edgecolor": "#666666"},
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()
