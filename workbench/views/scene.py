"""What a picture of a graph shows, before anything is placed: boxes, edges, clusters and their marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Fills by operator family; they differ in lightness too, and the label names the operator anyway.
FAMILIES: Final = {
    "product": "#cfe3f5", "pool": "#d8f0d3", "work": "#ececf7", "view": "#f7f7f7",
    "input": "#ffffff", "constant": "#efe9dc", "opaque": "#fde3c8", "group": "#dcd6ee",
}  # fmt: skip

#: Marks: the colour and dashes of the border, and the sign in the corner that says the same without colour.
MARKS: Final = {
    "": ("#8a8a8a", "", ""),
    "removed": ("#d55e00", "6 3", "−"),
    "added": ("#007a5a", "", "+"),
    "rewritten": ("#0072b2", "2 2", "≡"),
    "new": ("#007a5a", "", "+"),
    "merged": ("#cc79a7", "6 3", "∪"),
    "chosen": ("#111111", "", ""),
    "cycle": ("#d55e00", "2 2", "↻"),
    "stub": ("#bbbbbb", "2 2", ""),
}

_FAMILY_OF: Final = {
    **dict.fromkeys(("matmul", "conv2d"), "product"),
    **dict.fromkeys(("maxpool", "avgpool", "reduce_sum", "reduce_mean", "reduce_max"), "pool"),
    **dict.fromkeys(("eye", "ones", "identity_kernel", "mean_kernel"), "constant"),
    **dict.fromkeys(("reshape", "slice", "transpose", "expand", "identity", "project"), "view"),
    "input": "input",
    "weight": "constant",
    "opaque": "opaque",
}


def family_of(op: str) -> str:
    """Return the family in whose colour an operator is drawn."""
    return _FAMILY_OF.get(op, "work")


@dataclass(frozen=True, slots=True)
class Box:
    """Hold a node of a picture.

    ``groups`` are names it shares with what corresponds to it elsewhere (e-classes); ``facts`` are told
    when it is chosen; ``opens`` names the level that shows what it stands for; ``born`` is the step from
    which it is there.
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


@dataclass(frozen=True, slots=True)
class Edge:
    """Hold an arrow from one box to another; where ``from_cluster`` is set, it begins at that frame.

    ``place`` stands beside its tip: which operand it is.
    """

    source: str
    target: str
    note: str = ""
    from_cluster: str = ""
    bold: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hold a frame around boxes: an e-class, with the steps in which others were merged into it."""

    key: str
    label: str
    mark: str = ""
    merged: tuple[int, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """Hold a picture's parts; ``note`` states what is not shown."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...] = ()
    note: str = ""
    levels: dict[str, Scene] = field(default_factory=dict)


#: Pixels: of a letter, of a line, around a label.
LETTER, LINE, PAD = 6.1, 13.0, 8.0


def box_size(box: Box) -> tuple[float, float]:
    """Return the width and height of a box around its lines of text and its sign, in pixels."""
    signed = bool(MARKS[box.mark][2]) or box.born > 0
    wide = max([3.0, *map(len, box.lines)]) * LETTER + 2 * PAD
    return wide + (2 * LETTER if signed else 0.0), max(1, len(box.lines)) * LINE + PAD


def cut(text: str, most: int = 34) -> str:
    """Return a text that fits into a box."""
    return text if len(text) <= most else text[: most - 1] + "…"
