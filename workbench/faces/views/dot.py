"""The layered layout of Graphviz. As a program of its own it starts fast: it imports no package."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

#: Ratio of width to height beyond which a picture with frames is turned.
WIDE: Final = 2.5
#: The height in pixels of a line of text.
LINE: Final = 13.0

#: Space for the label of a frame. It contains no text, because Graphviz would need fonts for it.
_ROOM: Final = (
    '<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="0" CELLSPACING="0" FIXEDSIZE="TRUE" '
    'WIDTH="{width}" HEIGHT="{height}"><TR><TD></TD></TR></TABLE>>'
)


def place(request: dict[str, Any]) -> dict[str, Any]:
    """Place a request's boxes, edges and clusters by Graphviz's layered layout.

    Frames in a layer are side by side; if that is far too wide, layers run from left to right instead.
    """
    placed = _dot(request, "TB")
    if request["clusters"] and placed["width"] > WIDE * placed["height"]:
        placed = min(placed, _dot(request, "LR"), key=lambda p: max(p["width"], p["height"]))
    return placed


def _dot(request: dict[str, Any], direction: str) -> dict[str, Any]:
    import pygraphviz

    graph: Any = pygraphviz.AGraph(directed=True, strict=False)
    graph.graph_attr.update(
        rankdir=direction, nodesep="0.2", ranksep="0.35", compound="true", newrank="false"
    )
    graph.node_attr.update(shape="box", fixedsize="true", label="")
    members: dict[str, list[str]] = {}
    for i, (width, height, frame) in enumerate(request["boxes"]):
        graph.add_node(str(i), width=width / 72, height=height / 72)
        if frame:
            members.setdefault(frame, []).append(str(i))
    for frame, inside in members.items():
        room = _ROOM.format(width=round(request["clusters"][int(frame)]), height=round(LINE))
        graph.add_subgraph(inside, name=f"cluster_{frame}", label=room, margin="6")
    for i, (source, target, frame) in enumerate(request["edges"]):
        clipped = {"ltail": f"cluster_{frame}"} if frame and target not in members.get(frame, ()) else {}
        graph.add_edge(source, target, key=str(i), id=str(i), **clipped)
    laid = json.loads(graph.draw(format="json", prog="dot"))
    _, _, width, height = map(float, laid["bb"].split(","))
    boxes: list[Any] = [None] * len(request["boxes"])
    clusters: list[Any] = [[0.0, 0.0, 0.0, 0.0]] * len(request["clusters"])
    for thing in laid.get("objects", ()):
        if thing["name"].startswith("cluster_"):
            left, low, right, high = map(float, thing["bb"].split(","))
            clusters[int(thing["name"][8:])] = rounded(left, height - high, right - left, high - low)
        else:
            x, y = map(float, thing["pos"].split(","))
            w, h, _ = request["boxes"][int(thing["name"])]
            boxes[int(thing["name"])] = rounded(x - w / 2, height - y - h / 2, w, h)
    edges: list[Any] = [[]] * len(request["edges"])
    for edge in laid.get("edges", ()):
        edges[int(edge["id"])] = [rounded(x, height - y) for x, y in _spline(edge["pos"])]
    return {"width": width, "height": height, "boxes": boxes, "clusters": clusters, "edges": edges}


def _spline(text: str) -> list[tuple[float, float]]:
    """Return the points of a spline, with the tip of its arrow at the end."""
    parts = [part.split(",") for part in text.split()]
    tip = [(float(part[1]), float(part[2])) for part in parts if part[0] == "e"]
    points = [(float(part[0]), float(part[1])) for part in parts if part[0] not in ("s", "e")]
    # A straight piece of three points leads to the tip, because splines have 3 n + 1 points.
    return points + 3 * tip if tip else points


def rounded(*numbers: float) -> list[float]:
    """Return numbers of pixels with one decimal place."""
    return [round(x, 1) for x in numbers]


if __name__ == "__main__":
    json.dump(place(json.load(sys.stdin)), sys.stdout)
