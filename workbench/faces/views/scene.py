"""The parts of a picture of a graph, boxes, edges, clusters and their marks, and their layout within a time budget."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from workbench.faces.views import dot
from workbench.faces.views.dot import LINE, rounded
from workbench.ops import Trait, with_trait
from workbench.support.deadline import OutOfTime

#: The colours of a drawing by role, on light and on dark pages. ``fill-…`` is the fill of an operator family;
#: these also differ in lightness, and labels name the operators anyway. ``mark-…`` is the border of a mark.
COLOURS: Final = {
    "paper": ("#ffffff", "#111111"), "frame": ("#fafafa", "#1b1b1b"), "ink": ("#111111", "#f0f0f0"),
    "soft": ("#555555", "#b8b8b8"), "edge": ("#777777", "#9a9a9a"), "heavy": ("#222222", "#f0f0f0"),
    "fill-product": ("#cfe3f5", "#1d4468"), "fill-pool": ("#d8f0d3", "#21502a"),
    "fill-work": ("#ececf7", "#363650"), "fill-view": ("#f7f7f7", "#2b2b2b"),
    "fill-input": ("#ffffff", "#111111"), "fill-constant": ("#efe9dc", "#47402e"),
    "fill-opaque": ("#fde3c8", "#5f3b16"), "fill-group": ("#dcd6ee", "#423667"),
    "mark-": ("#8a8a8a", "#8a8a8a"), "mark-removed": ("#d55e00", "#ff8a3d"),
    "mark-added": ("#007a5a", "#2fc79a"), "mark-rewritten": ("#0072b2", "#5db4ee"),
    "mark-new": ("#007a5a", "#2fc79a"), "mark-merged": ("#b0518a", "#e69ac4"),
    "mark-chosen": ("#7b3fe4", "#b893ff"), "mark-cycle": ("#d55e00", "#ff8a3d"),
    "mark-stub": ("#bbbbbb", "#666666"),
}  # fmt: skip

#: Marks: the dashes of the border, and a sign in the corner with the same meaning.
MARKS: Final = {
    "": ("", ""),
    "removed": ("6 3", "−"),
    "added": ("", "+"),
    "rewritten": ("2 2", "≡"),
    "new": ("", "+"),
    "merged": ("6 3", "∪"),
    "chosen": ("", ""),
    "cycle": ("2 2", "↻"),
    "stub": ("2 2", ""),
}

#: The family of an operator is that of the first of these traits that it has.
_FAMILY_OF: Final = (
    (Trait.VIEW, "view"),
    (Trait.PRODUCT, "product"),
    (Trait.REDUCES, "pool"),
    (Trait.CONSTANT, "constant"),
    (Trait.NAMED, "input"),
    (Trait.RUNTIME, "opaque"),
)


def family_of(op: str) -> str:
    """Return the family of an operator, which determines its colour."""
    return next((family for trait, family in _FAMILY_OF if op in with_trait(trait)), "work")


@dataclass(frozen=True, slots=True)
class Box:
    """A node of a picture.

    Boxes that share a name in ``groups``, such as an e-class, correspond to each other. ``facts`` are shown
    when the box is selected. ``opens`` is the name of the level that shows the contents of the box. ``born``
    is the first step in which the box exists. ``cost`` is in the unit of the scene's costs, None if unknown.
    ``more`` is whether the box stands for parts that are not drawn.
    """

    key: str
    lines: tuple[str, ...]
    family: str = "work"
    mark: str = ""
    cluster: str = ""
    groups: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    opens: str = ""
    born: int = 0
    bold: bool = False
    cost: float | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one box to another; if ``from_cluster`` is set, it begins at that frame.

    ``place`` is written next to the tip: the number of the operand.
    """

    source: str
    target: str
    note: str = ""
    from_cluster: str = ""
    bold: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A frame around boxes: an e-class, with the steps in which other e-classes were merged into it."""

    key: str
    label: str
    mark: str = ""
    merged: tuple[int, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """The parts of a picture; ``note`` reports parts that are not shown."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...] = ()
    note: str = ""
    levels: dict[str, Scene] = field(default_factory=dict)


#: Pixels: the width of a letter, the padding of a label.
LETTER, PAD = 6.1, 8.0


def box_size(box: Box) -> tuple[float, float]:
    """Return the width and height in pixels of a box with its lines of text and its sign."""
    signed = bool(MARKS[box.mark][1]) or box.born > 0
    wide = max([3.0, *map(len, box.lines)]) * LETTER + 2 * PAD
    return wide + (2 * LETTER if signed else 0.0), max(1, len(box.lines)) * LINE + PAD


def cut(text: str, most: int = 34) -> str:
    """Return a text shortened to ``most`` characters, so that it fits into a box."""
    return text if len(text) <= most else text[: most - 1] + "…"


# -- layout -----------------------------------------------------------------------------------------------
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
    rows = _layers(len(boxes), [(int(s), int(t)) for s, t, _ in edges])
    gap, places = 16.0, [[0.0] * 4 for _ in boxes]
    wide = max((sum(boxes[i][0] + gap for i in row) for row in rows), default=0.0)
    top = 0.0
    for row in rows:
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


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the boxes by the length of the longest path to them, not counting edges within cycles."""
    import networkx as nx

    graph: Any = nx.DiGraph(edges)
    graph.add_nodes_from(range(count))
    whole = nx.condensation(graph)
    layers = nx.topological_generations(whole)
    return [sorted(i for c in layer for i in whole.nodes[c]["members"]) for layer in layers]
