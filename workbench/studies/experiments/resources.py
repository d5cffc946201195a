"""Files that a study names, relative to its own folder or through environment variables."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Final

#: Suffixes by which the name of a file is recognised if it has no folder.
SUFFIXES: Final = (".rules", ".pb", ".txt", ".parquet", ".yaml")


def is_file_name(text: str) -> bool:
    """Return whether a setting names a file, and not an entry of the library.

    >>> [is_file_name(t) for t in ("default", "own.rules", "${SHARED}/graph_subst.pb", "analytic:t4")]
    [False, True, True, False]
    """
    return "/" in text or "${" in text or text.endswith(SUFFIXES)


def unset(text: str) -> str | None:
    """Return the first environment variable that a text needs and that is not set, or None."""
    return next((name for name in re.findall(r"\$\{(\w+)\}", text) if not os.environ.get(name)), None)


def filled(text: str) -> str:
    """Return a text with ``${NAME}`` replaced by the environment's values; all of them must be set."""
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], text)


def find(text: str, home: Path) -> Path | str:
    """Return the path of the file that a text names, relative to ``home``, or a text with the reason."""
    name = unset(text)
    if name is not None:
        return f"{text}: {name} is not set in the environment"
    file = home / filled(text)
    return file if file.is_file() else f"{text}: there is no such file"


def sha256(file: Path) -> str:
    """Return the SHA-256 digest of a file's contents."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def resource(text: str, home: Path) -> tuple[str, Any, str]:
    """Return the value of a setting, its form in a run's settings, and the reason if its file is missing.

    The value is the name of an entry of the library, or the path of a file. A file appears in the run's
    settings with its digest, or without one if it is missing. The reason is empty for an existing resource.
    """
    if not is_file_name(text):
        return text, text, ""
    file = find(text, home)
    if isinstance(file, str):
        return text, {"file": text}, file
    return str(file), {"file": text, "sha256": sha256(file)}, ""
