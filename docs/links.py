"""Check that every link inside a built site leads to a file and a place in it: python docs/links.py SITE."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

#: Attributes that name another place.
LINKS: Final = {"href", "src"}


class _Page(HTMLParser):
    """The links of a page, and the places in it that links can name."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in LINKS and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def read(file: Path) -> _Page:
    """Return the links and places of a page."""
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> Iterator[str]:
    """Yield a line for every link that leads nowhere; links to other sites are not followed."""
    pages = {file: read(file) for file in sorted(site.rglob("*.html"))}
    places = {file.resolve(): page.places for file, page in pages.items()}
    for file, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{file.relative_to(site)}: {link} leads to no file"
            elif parts.fragment and target in places and unquote(parts.fragment) not in places[target]:
                yield f"{file.relative_to(site)}: {link} leads to no place in its file"


def main() -> None:
    """Print the broken links of the site that is named, and exit with 1 if there are any."""
    found = list(broken(Path(sys.argv[1])))
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
