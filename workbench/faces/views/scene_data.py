"""Scenes with their layouts as plain data, which the viewer in the browser draws without a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from workbench.faces.views.graphs import Notes, folded_scene, placed_scene, shown_nodes, whole_scene
from workbench.faces.views.layout import Layout, lay_out
from workbench.faces.views.scene import COLOURS, MARKS, Scene
from workbench.faces.views.svg import path_of
from workbench.graph import Graph
from workbench.support.deadline import OutOfTime

#: Limit on the boxes of a whole graph: a browser moves this many smoothly.
MOST_WHOLE: Final = 700


def graph_pane(graph: Graph, notes: Notes | None = None, *, title: str = "") -> dict[str, Any]:
    """Return a graph as a pane with the level ``whole``, and with ``folded`` if it has repeated layers.

    The pane starts at the more readable level. Boxes of the folded level open the levels of single layers.
    """
    nodes = shown_nodes(graph)
    folded = folded_scene(graph, notes)
    levels: dict[str, Any] = {}
    if folded.levels:
        scene, layout = placed_scene(lambda _: folded)
        levels["folded"] = level(scene, layout)
        for name, inner in folded.levels.items():
            levels[name] = level(inner, lay_out(inner))
    most = min(len(nodes), MOST_WHOLE)
    try:
        levels["whole"] = level(*placed_scene(lambda most: whole_scene(graph, notes, most=most), most))
    except OutOfTime:
        if not levels:
            raise
    easy = "whole" if "folded" not in levels or len(nodes) <= 2 * len(folded.boxes) else "folded"
    return {"title": title or graph.name, "start": easy, "levels": levels}


def level(scene: Scene, layout: Layout) -> dict[str, Any]:
    """Return one level of a pane: positions in pixels, labels, marks, and the facts of each box."""
    boxes = []
    for box in scene.boxes:
        x, y, w, h = layout.boxes[box.key]
        told = {
            "key": box.key, "at": [x, y, w, h], "lines": list(box.lines), "family": box.family,
            "mark": box.mark, "groups": list(box.groups), "facts": [list(f) for f in box.facts],
            "opens": box.opens, "born": box.born, "bold": box.bold, "cluster": box.cluster,
            "cost": None if box.cost is None else round(box.cost, 2), "more": box.more,
        }  # fmt: skip
        boxes.append({k: v for k, v in told.items() if v or k in ("key", "at", "lines")})
    clusters = [
        {
            "key": c.key, "at": list(layout.clusters[c.key]), "label": c.label, "mark": c.mark,
            "merged": list(c.merged), "facts": [list(f) for f in c.facts],
        }
        for c in scene.clusters
    ]  # fmt: skip
    edges = [
        {"from": e.source, "to": e.target, "path": path_of(points)}
        | {k: v for k, v in {"note": e.note, "bold": e.bold}.items() if v}
        for e, points in zip(scene.edges, layout.edges, strict=True)
        if points
    ]
    return {
        "title": scene.title,
        "note": scene.note,
        "size": [round(layout.width, 1), round(layout.height, 1)],
        "boxes": boxes,
        "edges": edges,
        "clusters": clusters,
    }


def viewer_data(title: str, panes: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return all data of a viewer, ready for JSON, including the colours, so that they have one source."""
    legend = more.pop("legend", {})
    return {
        "title": title,
        "panes": list(panes),
        "colours": {name: list(pair) for name, pair in COLOURS.items()},
        "marks": {name: list(style) for name, style in MARKS.items()},
        "legend": [[mark, text] for mark, text in legend.items()],
        "steps": [],
        "table": None,
        **more,
    }
