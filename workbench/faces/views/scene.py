"""The parts of a picture of a graph before the layout: boxes, edges, clusters and their marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from workbench.faces.views.dot import LINE
from workbench.ops import Trait, with_trait

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
