"""Layout of pictures: layers by Graphviz within a time budget, or simple layers without it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from workbench.faces.views import dot
from workbench.faces.views.dot import LINE, rounded
from workbench.faces.views.scene import LETTER, Scene, box_size
from workbench.support.deadline import OutOfTime

#: Number of boxes up to which a layout is always fast, so that it needs no separate process.
AT_ONCE: Final = 60
#: Limit in seconds on a layout.
BUDGET: Final = 5.0
Rectangle = tuple[float, float, float, float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a scene's parts in pixels, with y downwards.

    ``boxes`` and ``clusters`` are ``(left, top, width, height)`` by key. ``edges`` are in the scene's order;
    each has the points of a cubic spline, or the two points of a straight line.
    """

    width: float
    height: float
    boxes: dict[str, Rectangle]
    clusters: dict[str, Rectangle]
    edges: tuple[tuple[Point, ...], ...]


def lay_out(scene: Scene, *, seconds: float = BUDGET) -> Layout:
    """Return the layout of a scene in layers, with operands above their readers.

    Without Graphviz, or if Graphviz fails, the layers are simple and edges are straight. Raise OutOfTime if
    the layout takes more than ``seconds``.
    """
    keys = {box.key: str(i) for i, box in enumerate(scene.boxes)}
    frames = {cluster.key: str(i) for i, cluster in enumerate(scene.clusters)}
    request = {
        "boxes": [[*box_size(b), frames.get(b.cluster, "")] for b in scene.boxes],
        "edges": [[keys[e.source], keys[e.target], frames.get(e.from_cluster, "")] for e in scene.edges],
        "clusters": [len(c.label) * LETTER for c in scene.clusters],
    }
    size = len(scene.boxes) + 2 * len(scene.clusters)
    placed = _by_graphviz(request, size, seconds) or _by_layers(request)
    return Layout(
        placed["width"],
        placed["height"],
        {box.key: tuple(placed["boxes"][i]) for i, box in enumerate(scene.boxes)},
        {c.key: tuple(placed["clusters"][i]) for i, c in enumerate(scene.clusters)},
        tuple(tuple((x, y) for x, y in points) for points in placed["edges"]),
    )


def _by_graphviz(request: dict[str, Any], size: int, seconds: float) -> dict[str, Any] | None:
    if find_spec("pygraphviz") is None:
        return None
    if size <= AT_ONCE:
        return dot.place(request)
    # A layout cannot be interrupted, so a large one runs in a process that can be killed.
    command = [sys.executable, "-P", dot.__file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise OutOfTime(f"a layout of {size} parts took more than {seconds:g} s") from None
    return json.loads(done.stdout) if done.returncode == 0 else None


def _by_layers(request: dict[str, Any]) -> dict[str, Any]:
    """Place every box in the layer below its deepest operand, in the given order."""
    boxes, edges = request["boxes"], request["edges"]
    depth = _depths(len(boxes), [(int(s), int(t)) for s, t, _ in edges])
    rows: dict[int, list[int]] = {}
    for i, d in enumerate(depth):
        rows.setdefault(d, []).append(i)
    gap, places = 16.0, [[0.0] * 4 for _ in boxes]
    wide = max((sum(boxes[i][0] + gap for i in row) for row in rows.values()), default=0.0)
    top = 0.0
    for _, row in sorted(rows.items()):
        left = (wide - sum(boxes[i][0] + gap for i in row)) / 2
        for i in row:
            places[i] = rounded(left, top, boxes[i][0], boxes[i][1])
            left += boxes[i][0] + gap
        top += max(boxes[i][1] for i in row) + 2.2 * gap
    lines = []
    for s, t, _ in edges:
        x, y, w, h = places[int(s)]
        u, v, z, _h = places[int(t)]
        lines.append([rounded(x + w / 2, y + h), rounded(u + z / 2, v)])
    frames = []
    for k in range(len(request["clusters"])):
        inside = [places[i] for i, box in enumerate(boxes) if box[2] == str(k)] or [[0.0] * 4]
        left, up = min(p[0] for p in inside) - 6, min(p[1] for p in inside) - LINE - 4
        right, low = max(p[0] + p[2] for p in inside) + 6, max(p[1] + p[3] for p in inside) + 6
        frames.append(rounded(left, up, right - left, low - up))
    return {"width": wide, "height": top, "boxes": places, "clusters": frames, "edges": lines}


def _depths(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to every box, not counting edges within cycles."""
    import networkx as nx

    graph: Any = nx.DiGraph(edges)
    graph.add_nodes_from(range(count))
    whole = nx.condensation(graph)
    depth: dict[int, int] = {}
    for layer, group in enumerate(nx.topological_generations(whole)):
        for c in group:
            depth |= dict.fromkeys(whole.nodes[c]["members"], layer)
    return [depth[i] for i in range(count)]
