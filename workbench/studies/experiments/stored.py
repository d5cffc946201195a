"""The folder of stored runs: ``results/`` of the project, from whichever folder it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: The file that distinguishes a folder of stored runs from any other folder called ``results``.
MARK: Final = "README.md"


def stored_folder(given: str | os.PathLike[str] = "") -> Path:
    """Return the folder of stored runs.

    Args:
        given: The folder, if the caller knows it. If it is empty, the folder is ``results`` in the working
            folder or in one above it, or else next to the package in a repository.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    if given:
        if Path(given).is_dir():
            return Path(given)
        raise FileNotFoundError(f"the folder of stored runs must exist, got {os.fspath(given)!r}")
    here, package = Path.cwd(), Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents, package.parent):
        if (folder / "results" / MARK).is_file() and (folder / "experiments").is_dir():
            return folder / "results"
    raise FileNotFoundError(
        "no folder of stored runs is above the working folder or next to the package (name one; "
        "`workbench run experiments/headline.yaml` in a clone of the repository makes it)"
    )
