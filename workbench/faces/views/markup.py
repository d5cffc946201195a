"""HTML of faces and reports: parts that every notebook keeps, and the page of a file of its own.

The parts need no script and no network access, and read well without a style sheet, which notebooks drop.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.source { color: light-dark(#666, #aaa); margin-top: 0; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top;
  padding: 0.15rem 1rem 0.15rem 0; border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.law { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
img { max-width: 100%; } pre { overflow-x: auto; }
.passed { color: light-dark(#007a55, #2fc79a); }
.failed { color: light-dark(#c0392b, #ff7a66); font-weight: bold; }
p.lead { font-size: 1.1rem; margin: 0.3rem 0; } th.number { text-align: right; padding-right: 1rem; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
.sides figure { margin: 0; min-width: 0; } .sides figcaption { font-weight: 600; }
.sides p { margin: 0.3rem 0; max-height: 40rem; overflow: auto; border: 1px solid #8884; border-radius: 4px; }
.sides img { max-width: none; display: block; margin: auto; }
"""

#: The scripts and style sheets of widgets.
STATIC: Final = Path(__file__).parents[2] / "static"
#: The last line of a module of a widget.
EXPORT: Final = "export default { render };"

#: Limit on the rows of a table; the others are counted.
MOST_ROWS = 40


def page_of(title: str, body: str) -> str:
    """Return a self-contained page; ``title`` is a text, ``body`` is HTML."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def static_text(*names: str) -> str:
    """Return files of :data:`STATIC`, joined."""
    return "".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def live_page(title: str, style: str, face: str, script: str, model: str) -> str:
    """Return a page that a script draws.

    Args:
        title: The title of the page.
        style: Its style sheet.
        face: HTML for browsers without scripts.
        script: The script, a module with a function ``render``.
        model: The script's model, an expression.
    """
    return page_of(
        title,
        f'<style>{style}</style><div id="view"></div><noscript>{face}</noscript>\n'
        f'<script type="module">{script}\n'
        f'render({{ model: {model}, el: document.getElementById("view") }});</script>',
    )


def packed(data: object) -> str:
    """Return data as deflated JSON in base64, which a script unpacks when it is looked at."""
    return base64.b64encode(zlib.compress(json.dumps(data).encode(), 9)).decode()


def section(title: str, body: str) -> str:
    """Return a part of a page below a heading of its own."""
    return f"<h2>{escape(title)}</h2>\n{body}"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; ``kind`` is its class in the page's style."""
    tag = f'<p class="{kind}">' if kind else "<p>"
    return f"{tag}{escape(text)}</p>"


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    kinds: Sequence[str] = (),
    *,
    most: int = MOST_ROWS,
) -> str:
    """Return a table.

    Args:
        headings: The columns' headings; every text of the table is escaped.
        rows: The cells, row by row.
        kinds: The columns' classes in the page's style, such as ``"number"``, or "" for none.
        most: Limit on the rows shown; the others are counted.
    """
    every, kinds = list(rows), kinds or [""] * len(headings)
    tags = [f'<td class="{kind}">' if kind else "<td>" for kind in kinds]
    starts = ['<th class="number">' if kind == "number" else "<th>" for kind in kinds]
    head = "".join(f"{start}{escape(h)}</th>" for start, h in zip(starts, headings, strict=True))
    body = "".join(
        "<tr>" + "".join(f"{t}{escape(str(c))}</td>" for t, c in zip(tags, row, strict=True)) + "</tr>\n"
        for row in every[:most]
    )
    more = f"<p>{len(every) - most} more of {len(every)}</p>" if len(every) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>{more}"


def pairs(items: Iterable[tuple[str, object]]) -> str:
    """Return names and values as a table without headings."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>\n" for k, v in items)
    return f"<table><tbody>\n{rows}</tbody></table>"


def picture(svg: bytes, text: str, *, width: float | None = None) -> str:
    """Return an embedded picture with an alternative text; ``width`` in pixels is by default its own."""
    encoded = base64.b64encode(svg).decode()
    wide = "" if width is None else f' width="{width:.0f}"'
    return f'<p><img alt="{escape(text)}" src="data:image/svg+xml;base64,{encoded}"{wide}></p>'


def details(summary: str, body: str, *, open_: bool = False) -> str:
    """Return a part that opens on a click, by the browser's own means, without a script."""
    return f"<details{' open' if open_ else ''}><summary>{escape(summary)}</summary>{body}</details>"


def side_by_side(*figures: tuple[str, str]) -> str:
    """Return pictures with captions, each (caption, HTML), side by side if the page is wide enough."""
    parts = (f"<figure><figcaption>{escape(c)}</figcaption>{html}</figure>" for c, html in figures)
    return f'<div class="sides">{"".join(parts)}</div>'


def aligned(html: str) -> str:
    """Return HTML whose tables are read from the left in notebooks too, which set cells flush right."""
    style = ' style="text-align:left"'
    return html.replace("<td>", f"<td{style}>").replace("<th>", f"<th{style}>")


def heading(text: str, note: str = "") -> str:
    """Return the first line of a face: a title and a note."""
    after = f" {escape(note)}" if note else ""
    return f"<p><strong>{escape(text)}</strong>{after}</p>"


def preformatted(text: str) -> str:
    """Return preformatted text."""
    return f"<pre>{escape(text)}</pre>"
