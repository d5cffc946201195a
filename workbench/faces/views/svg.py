"""A scene with its layout as self-contained SVG, which static faces embed as a picture."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.views.dot import LINE
from workbench.faces.views.scene import COLOURS, MARKS, Layout, Point, Scene
from workbench.support.messages import require

if TYPE_CHECKING:
    import graphviz

_SIZE = re.compile(r'(?:width|height)="([0-9.]+)"')


_STYLE: Final = (
    "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle}"
    ".e{fill:none;stroke-width:1}.e.h{stroke-width:2.2}.s{font-weight:bold;font-size:13px}"
    ".l{text-anchor:start;font-size:10px}.k{paint-order:stroke;stroke-width:3px}"
)


def _style(scene: Scene) -> str:
    """Return the style sheet of a scene, with the colours that it uses, for light and for dark pages."""
    roles = {f"fill-{box.family}" for box in scene.boxes} | {f"mark-{box.mark}" for box in scene.boxes}
    roles |= {f"mark-{cluster.mark or 'stub'}" for cluster in scene.clusters}
    light, dark = (_colours(roles, at) for at in (0, 1))
    return f"{_STYLE}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _colours(roles: Iterable[str], at: int) -> str:
    of = {name: pair[at] for name, pair in COLOURS.items()}
    rules = [
        f".b{{fill:{of['paper']}}}text{{fill:{of['ink']}}}.c{{fill:{of['frame']}}}.k{{stroke:{of['frame']}}}.l{{fill:{of['soft']}}}",
        f".e{{stroke:{of['edge']}}}.a{{fill:{of['edge']}}}.e.h{{stroke:{of['heavy']}}}",
    ]
    for role in sorted(roles):
        what, _, kind = role.partition("-")
        if what == "fill":
            rules.append(f".f-{kind}{{fill:{of[role]}}}")
        else:
            sign = f".s.m-{kind}{{fill:{of[role]};stroke:none}}" if kind and MARKS[kind][1] else ""
            rules.append(f".m-{kind}{{stroke:{of[role]}}}{sign}")
    return "".join(rules)


def svg(scene: Scene, layout: Layout) -> bytes:
    """Return the picture as SVG, with the scene's note at its top."""
    note = f'<text class="l" x="4" y="{LINE}">{escape(scene.note)}</text>' if scene.note else ""
    top = LINE * 1.5 if note else 0.0
    width, height = max(layout.width, 6.0 * len(scene.note)) + 8, layout.height + top + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_style(scene)}</style><defs><marker id="a" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="a"/></marker></defs>'
        '<rect width="100%" height="100%" class="b"/>',
        note,
        f'<g transform="translate(4 {top + 4:.0f})">',
        *_clusters(scene, layout),
        *_edges(scene, layout),
        *_labels(scene, layout),
        *_boxes(scene, layout),
        "</g></svg>",
    ]
    return "".join(parts).encode()


def width_of(picture: bytes) -> float:
    """Return the width in pixels of a picture of :func:`svg`."""
    return float(_SIZE.findall(picture[:400].decode(errors="ignore"))[0])


def beside(*pictures: bytes) -> bytes:
    """Return several pictures of :func:`svg` as one, side by side and aligned at the top."""
    left, height, parts, gap = 0.0, 0.0, [], 24.0
    for picture in pictures:
        text = picture.decode()
        wide, high = map(float, _SIZE.findall(text)[:2])
        parts.append(text.replace("<svg ", f'<svg x="{left:.0f}" ', 1))
        left, height = left + wide + gap, max(height, high)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left - gap:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {left - gap:.0f} {height:.0f}"><rect width="100%" height="100%" class="b"/>'
        f"{''.join(parts)}</svg>"
    ).encode()


def path_of(points: tuple[Point, ...]) -> str:
    """Return a spline, or a straight line of two points, as an SVG path."""
    start, *rest = (f"{x:g} {y:g}" for x, y in points)
    return f"M{start}{'L' if len(rest) < 3 else 'C'}{' '.join(rest)}"


def _border(mark: str, bold: bool, kind: str) -> str:
    """Return class, width and dashes of a frame; ``kind`` is the class of its fill."""
    dashes, _ = MARKS[mark]
    wide = 2.6 if bold else 1.8 if mark else 1
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'class="{kind} m-{mark}" stroke-width="{wide}"{dashed}'


def _clusters(scene: Scene, layout: Layout) -> Iterator[str]:
    for cluster in scene.clusters:
        x, y, w, h = layout.clusters[cluster.key]
        border = _border(cluster.mark or "stub", False, "c")
        yield f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" {border}/>'


def _labels(scene: Scene, layout: Layout) -> Iterator[str]:
    """Yield the labels of frames, with a rim that keeps them legible where edges cross them."""
    for cluster in scene.clusters:
        x, y, _, _ = layout.clusters[cluster.key]
        label = escape(f"{MARKS[cluster.mark][1]} {cluster.label}".strip())
        yield f'<text class="l k" x="{x + 4:g}" y="{y + 11:g}">{label}</text>'


def _edges(scene: Scene, layout: Layout) -> Iterator[str]:
    for edge, points in zip(scene.edges, layout.edges, strict=True):
        if points:
            kind = "e h" if edge.bold else "e"
            yield f'<path class="{kind}" marker-end="url(#a)" d="{path_of(points)}"/>'
            if edge.place:
                x, y = points[-1]
                yield f'<text class="l" x="{x - 9:g}" y="{y - 4:g}">{escape(edge.place)}</text>'


def _boxes(scene: Scene, layout: Layout) -> Iterator[str]:
    for box in scene.boxes:
        x, y, w, h = layout.boxes[box.key]
        border = _border(box.mark, box.bold, f"f-{box.family}")
        yield f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" {border}/>'
        for k, line in enumerate(box.lines):
            yield f'<text x="{x + w / 2:g}" y="{y + LINE * (k + 1):g}">{escape(line)}</text>'
        if sign := MARKS[box.mark][1]:
            yield f'<text class="s m-{box.mark}" x="{x + 7:g}" y="{y + 12:g}">{sign}</text>'


def drawn_source(text: str) -> graphviz.Source:
    """Return a text in DOT as ``graphviz.Source``, which a notebook shows as a picture.

    Without the program ``dot`` pygraphviz draws it; without both the text is shown, and ``render`` raises.
    Raise ImportError if the package graphviz is missing.
    """
    graphviz = require("graphviz", "notebook")
    if shutil.which("dot") is not None:
        return graphviz.Source(text)

    class Source(graphviz.Source):  # type: ignore[misc, name-defined]  # imported on demand
        """A text in DOT that pygraphviz draws."""

        def pipe(
            self, format: str | None = None, *_: object, encoding: str | None = None, **__: object
        ) -> Any:
            import pygraphviz

            drawn = pygraphviz.AGraph(string=self.source).draw(format=format or "svg", prog=self.engine)
            return drawn if encoding is None else str(drawn, encoding)

        def _repr_mimebundle_(self, *include: object, **options: object) -> Any:
            try:
                return super()._repr_mimebundle_(*include, **options)
            except ImportError:
                return {"text/plain": self.source}

    return Source(text)
