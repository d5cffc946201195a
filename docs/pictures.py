"""Take the README's pictures out of the executed notebooks, one a story: python docs/pictures.py."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DOCS = Path(__file__).parent
#: The most important picture of a notebook, counted from 0.
CHOSEN: Final = {
    "01": 6, "02": 6, "03": 0, "04": 0, "05": 8, "06": 0, "07": 0, "08": 2, "09": 0, "10": 0,
    "12": 1, "13": 0,
}  # fmt: skip
_INLINE: Final = re.compile(r'src="data:image/(png|svg\+xml);base64,([^"]+)"')


def pictures(notebook: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the pictures of a notebook in order, each with the ending of its file."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                yield "png", base64.b64decode("".join(data["image/png"]))
            for kind, text in _INLINE.findall("".join(data.get("text/html", ""))):
                yield kind.removesuffix("+xml"), base64.b64decode(text)


def main() -> None:
    """Write the pictures into ``docs/pictures``."""
    folder = DOCS / "pictures"
    folder.mkdir(exist_ok=True)
    for notebook in sorted((DOCS.parent / "notebooks").glob("*.ipynb")):
        if (number := notebook.name[:2]) in CHOSEN:
            ending, content = list(pictures(notebook))[CHOSEN[number]]
            (folder / f"{notebook.stem}.{ending}").write_bytes(content)


if __name__ == "__main__":
    main()
