"""A scene with its layout as self-contained SVG, which static faces embed as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from workbench.views.layout import Layout, Point
from workbench.views.scene import FAMILIES, LINE, MARKS, Scene

_SIZE = re.compile(r'(?:width|height)="([0-9.]+)"')
_STYLE = (
    "text{font:11px Helvetica,Arial,sans-serif;text-anchor:middle;fill:#111}"
    ".e{fill:none;stroke:#777;stroke-width:1}.c{fill:#fafafa}.s{font-weight:bold;font-size:13px}"
    ".l{text-anchor:start;font-size:10px;fill:#444}"
)


def svg(scene: Scene, layout: Layout) -> bytes:
    """Return the picture as SVG, with the scene's note at its top."""
    note = [scene.note] if scene.note else []
    top = LINE * (len(note) + 0.5) if note else 0.0
    width, height = max(layout.width, 6.0 * len(scene.note)) + 8, layout.height + top + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}</style><defs><marker id="a" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
        '<rect width="100%" height="100%" fill="#fff"/>',
        *(f'<text class="l" x="4" y="{LINE}">{escape(line)}</text>' for line in note),
        f'<g transform="translate(4 {top + 4:.0f})">',
        *_clusters(scene, layout),
        *_edges(scene, layout),
        *_boxes(scene, layout),
        "</g></svg>",
    ]
    return "".join(parts).encode()


def beside(*pictures: bytes, gap: float = 24.0) -> bytes:
    """Return several pictures of :func:`svg` as one, side by side and aligned at the top."""
    left, height, parts = 0.0, 0.0, []
    for picture in pictures:
        text = picture.decode()
        wide, high = map(float, _SIZE.findall(text)[:2])
        parts.append(text.replace("<svg ", f'<svg x="{left:.0f}" ', 1))
        left, height = left + wide + gap, max(height, high)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left - gap:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {left - gap:.0f} {height:.0f}"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(parts)
        + "</svg>"
    ).encode()


def path_of(points: tuple[Point, ...]) -> str:
    """Return a spline, or a straight line of two points, as an SVG path."""
    start, *rest = (f"{x:g} {y:g}" for x, y in points)
    if len(rest) < 3:
        return f"M{start}L{' '.join(rest)}"
    return f"M{start}C{' '.join(rest)}"


def _border(mark: str, bold: bool) -> str:
    colour, dashes, _ = MARKS[mark]
    wide = 2.6 if bold else 1.8 if mark else 1
    return f'stroke="{colour}" stroke-width="{wide}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _clusters(scene: Scene, layout: Layout) -> Iterator[str]:
    for cluster in scene.clusters:
        x, y, w, h = layout.clusters[cluster.key]
        border = _border(cluster.mark or "stub", False)
        yield f'<rect class="c" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" {border}/>'
        sign = MARKS[cluster.mark][2]
        label = escape(f"{sign} {cluster.label}".strip())
        yield f'<text class="l" x="{x + 4:g}" y="{y + 11:g}">{label}</text>'


def _edges(scene: Scene, layout: Layout) -> Iterator[str]:
    for edge, points in zip(scene.edges, layout.edges, strict=True):
        if points:
            heavy = ' stroke-width="2.2" style="stroke:#222"' if edge.bold else ""
            yield f'<path class="e" marker-end="url(#a)" d="{path_of(points)}"{heavy}/>'
            if edge.place:
                x, y = points[-1]
                yield f'<text class="l" x="{x - 9:g}" y="{y - 4:g}">{escape(edge.place)}</text>'


def _boxes(scene: Scene, layout: Layout) -> Iterator[str]:
    for box in scene.boxes:
        x, y, w, h = layout.boxes[box.key]
        fill, border = FAMILIES[box.family], _border(box.mark, box.bold)
        yield f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" {border}/>'
        for k, line in enumerate(box.lines):
            yield f'<text x="{x + w / 2:g}" y="{y + LINE * (k + 1):g}">{escape(line)}</text>'
        colour, _, sign = MARKS[box.mark]
        if sign:
            yield f'<text class="s" x="{x + 7:g}" y="{y + 12:g}" style="fill:{colour}">{sign}</text>'
