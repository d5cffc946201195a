"""Files that a study names: from its own folder, or from where an environment variable points to."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Final

#: What a name of a file ends in where it has no folder.
SUFFIXES: Final = (".rules", ".pb", ".txt", ".parquet")


def is_file_name(text: str) -> bool:
    """Say whether a setting names a file and not something of the library.

    >>> [is_file_name(t) for t in ("default", "own.rules", "${SHARED}/graph_subst.pb", "analytic:t4")]
    [False, True, True, False]
    """
    return "/" in text or "${" in text or text.endswith(SUFFIXES)


def unset(text: str) -> str | None:
    """Return the first environment variable that a text needs and that is not set."""
    return next((name for name in re.findall(r"\$\{(\w+)\}", text) if not os.environ.get(name)), None)


def filled(text: str) -> str:
    """Return a text with the environment's values in place of ``${NAME}``; all of them are set."""
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], text)


def find(text: str, home: Path) -> Path | str:
    """Return the file that a text names, seen from ``home``; or, as a text, why there is none."""
    name = unset(text)
    if name is not None:
        return f"{text}: {name} is not set in the environment"
    file = home / filled(text)
    return file if file.is_file() else f"{text}: there is no such file"


def sha256(file: Path) -> str:
    """Return the digest that stands for what a file holds."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def resource(text: str, home: Path) -> tuple[str, Any, str]:
    """Return what a setting names, how it stands in a run's settings, and why it is not here."""
    if not is_file_name(text):
        return text, text, ""
    file = find(text, home)
    if isinstance(file, str):
        return text, {"file": text}, file
    return str(file), {"file": text, "sha256": sha256(file)}, ""
