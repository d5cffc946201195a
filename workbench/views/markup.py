"""HTML that survives a notebook: no script, no style sheet, nothing from a network."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

#: Rows of a table that are shown; the rest is counted.
MOST_ROWS = 40


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = MOST_ROWS) -> str:
    """Return a table; every text is escaped, and what goes beyond ``most`` rows is counted, not shown."""
    every = list(rows)
    head = "".join(f"<th>{escape(h)}</th>" for h in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in every[:most]
    )
    more = f"<p>{len(every) - most} more of {len(every)}</p>" if len(every) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>{more}"


def pairs(items: Iterable[tuple[str, object]]) -> str:
    """Return names and values as a table without headings."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>\n" for k, v in items)
    return f"<table><tbody>\n{rows}</tbody></table>"


def picture(data: bytes, text: str, *, kind: str = "png") -> str:
    """Return a picture within the page; ``text`` is for those who do not see it."""
    form = {"png": "image/png", "svg": "image/svg+xml"}[kind]
    encoded = base64.b64encode(data).decode()
    return f'<p><img alt="{escape(text)}" src="data:{form};base64,{encoded}"></p>'


def details(summary: str, body: str, *, open_: bool = False) -> str:
    """Return a part that opens on a click; without scripts it is the browser's own."""
    return f"<details{' open' if open_ else ''}><summary>{escape(summary)}</summary>{body}</details>"


def heading(text: str, note: str = "") -> str:
    """Return the first line of a face: what it is, and what is to be known of it."""
    after = f" {escape(note)}" if note else ""
    return f"<p><strong>{escape(text)}</strong>{after}</p>"


def preformatted(text: str) -> str:
    """Return text as it stands."""
    return f"<pre>{escape(text)}</pre>"
