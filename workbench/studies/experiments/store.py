"""Records of runs: one folder per run, named by the settings, that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from workbench.run.trace import Trace
from workbench.support.files import UnwritableOutput
from workbench.support.machine import processor

#: The file of the record, whose existence means that the run is done, and the file of the steps.
RECORD: Final = "run.json"
TRACE: Final = "trace.parquet"

#: The folder of the package.
PACKAGE: Final = Path(__file__).resolve().parents[2]


def digest(config: Mapping[str, Any]) -> str:
    """Return a digest of settings, twelve hexadecimal digits, that does not depend on the order of keys."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def repetition(record: Mapping[str, Any]) -> int:
    """Return the number of an extraction's run among its repetitions, from 1.

    A run is called ``INSTANCE:METHOD`` or ``INSTANCE:METHOD#2``. An instance's name may itself have a ``#``.
    """
    own = f"{record['row']['instance']}:{record['row']['method']}"
    return int(record["name"].removeprefix(own).removeprefix("#") or 1)


def record_folders(root: Path) -> list[Path]:
    """Return the folders of all records below a folder; one that is being written has a temporary name."""
    return [file.parent for file in sorted(root.rglob(RECORD)) if ".part-" not in str(file)]


def load_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a run, or None if it is not done; raise ValueError if it cannot be read."""
    file = folder / RECORD
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        found = f"unreadable JSON: {error}"
    else:
        if isinstance(record, dict):
            return record
        found = type(record).__name__
    raise ValueError(f"{file} must be the record of a run, got {found} (delete it to run it again)")


def save_record(folder: Path, record: Mapping[str, Any], trace: Trace | None = None) -> None:
    """Write a run's record and its trace in place of existing ones; raise UnwritableOutput if that is impossible."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as temporary:
            whole = Path(temporary) / "new"
            whole.mkdir()
            if trace is not None:
                trace.save(whole / TRACE)
            (whole / RECORD).write_text(text, encoding="utf-8")
            if folder.exists():
                folder.rename(Path(temporary) / "old")
            whole.rename(folder)
    except OSError as error:
        raise UnwritableOutput(f"{folder}: {error.strerror or error}") from error


def provenance() -> dict[str, Any]:
    """Return what figures depend on besides settings: versions, commit (``+`` if changed), machine, time and load."""
    from workbench.optimizer.result import versions

    return {
        "versions": {**versions(), "numpy": version("numpy")},
        "commit": commit(),
        "machine": {
            "cpus": os.cpu_count(),
            "processor": processor(),
            "platform": platform.platform(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        },
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
    }


def commit() -> str | None:
    """Return the git commit of the package, with ``+`` if files differ from it; None outside of git."""

    def git(*arguments: str) -> str | None:
        try:
            return subprocess.check_output(
                ["git", "-C", str(PACKAGE), *arguments], text=True, stderr=subprocess.DEVNULL
            ).strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    # A package that is installed below another repository does not belong to that repository.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", ".", "../rules")
    return head and head + ("+" if changed else "")


def finite(value: object) -> object:
    """Return a value, or None for a number that is not finite, which JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: The file that distinguishes a folder of stored runs from any other folder called ``results``.
MARK: Final = "README.md"


def stored_folder(given: str | os.PathLike[str] = "") -> Path:
    """Return the folder of stored runs; raise FileNotFoundError if there is none.

    If none is given, the folder is ``results`` in the working folder or in one above it, or else next to the
    package in a repository.
    """
    if given:
        if Path(given).is_dir():
            return Path(given)
        raise FileNotFoundError(f"the folder of stored runs must exist, got {os.fspath(given)!r}")
    here = Path.cwd()
    for folder in (here, *here.parents, PACKAGE.parent):
        if (folder / "results" / MARK).is_file() and (folder / "experiments").is_dir():
            return folder / "results"
    raise FileNotFoundError(
        "no folder of stored runs is above the working folder or next to the package (name one; "
        "`workbench run experiments/headline.yaml` in a clone of the repository makes it)"
    )
