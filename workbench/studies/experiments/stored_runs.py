"""Stored runs for people: every readable run below a folder, with its trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from workbench.run.display import Face
from workbench.run.trace import Trace
from workbench.studies.experiments.results import frame_of, row_of
from workbench.studies.experiments.store import RECORD, TRACE, load_record, record_folders, stored_folder
from workbench.support.messages import one_line
from workbench.support.wings import offered

if TYPE_CHECKING:
    import os

    import pandas as pd

#: The folder in a study's folder that holds a folder for each run.
RUNS: Final = "runs"
#: The figures of a row that are computed with; a record with another value there is skipped.
NUMBERS: Final = (
    "original", "optimized", "saturation", "extraction", "seconds", "bound", "nodes", "classes", "iter",
    "k_multi", "repeat", "seed", "wall_seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One stored run: the study's name, the row of its figures, and its record as it was written.

    ``study`` is the name of the study's folder, and ``row["study"]`` the kind of study. ``measured`` holds
    the speed-ups that were timed, by target and form.
    """

    study: str
    name: str
    row: Mapping[str, Any]
    record: Mapping[str, Any]
    measured: Mapping[tuple[str, str], float]
    folder: Path

    @property
    def failed(self) -> bool:
        """Return whether the run has no result."""
        return bool(self.row["failed"])

    @property
    def trace_file(self) -> Path | None:
        """Return the file of the steps, or None if it is not stored."""
        file = self.folder / TRACE
        return file if file.is_file() else None

    def trace(self) -> Trace:
        """Return the steps of the run; raise FileNotFoundError if none are stored, ValueError for unreadable ones."""
        if self.trace_file is None:
            raise FileNotFoundError(f"{self.name} must have a stored trace, got none in {self.folder}")
        return Trace.load(self.trace_file)


@dataclass(eq=False, repr=False)
class StoredRuns(Face):
    """The runs below a folder, which ``view()`` shows; ``skipped`` has a line for each file that is not a record."""

    folder: Path
    runs: tuple[StoredRun, ...]
    skipped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[StoredRun]:
        return iter(self.runs)

    def __getitem__(self, name: str) -> StoredRun:
        """Return a run by its name, or by ``STUDY/NAME`` if several studies have the name."""
        found = [r for r in self.runs if name in (r.name, f"{r.study}/{r.name}")]
        if len(found) == 1:
            return found[0]
        if not found:
            raise KeyError(f"no run called {name!r} in {self.folder}")
        raise KeyError(f"{name!r} must name one run, got {', '.join(f'{r.study}/{r.name}' for r in found)}")

    @property
    def name(self) -> str:
        """Return the name of the folder, which unlike its path is the same on every machine."""
        return self.folder.resolve().name

    @cached_property
    def studies(self) -> tuple[str, ...]:
        """Return the names of the studies, in order."""
        return tuple(dict.fromkeys(run.study for run in self.runs))

    def only(self, *studies: str) -> StoredRuns:
        """Return the runs of some studies; raise LookupError if a study has no run here."""
        for name in studies:
            if name not in self.studies:
                raise LookupError(f"no study called {name!r}; there are: {', '.join(self.studies)}")
        return StoredRuns(self.folder, tuple(r for r in self.runs if r.study in studies), self.skipped)

    def frame(self) -> pd.DataFrame:
        """Return the runs as a frame with the columns of :func:`workbench.results.load`."""
        return frame_of({**run.row, "folder": run.folder.as_posix()} for run in self.runs)

    def __repr__(self) -> str:
        lines = [f"StoredRuns: {len(self)} runs of {len(self.studies)} studies in {self.name}"]
        for study in self.studies:
            runs = [r for r in self.runs if r.study == study]
            failed = sum(r.failed for r in runs)
            lines.append(f"  {study}: {len(runs)} runs" + (f", {failed} failed" if failed else ""))
        return "\n".join([*lines, *(f"  skipped: {line}" for line in self.skipped)])

    def page(self) -> str:
        """Return the runs as one page of HTML with all data, which needs no network and no server."""
        return str(offered("page")(self))


def browse(folder: str | os.PathLike[str] = "") -> StoredRuns:
    """Return the runs below the folder of a run, of a study or of several; other files are skipped.

    Without one it is the project's (:func:`workbench.results.stored_folder`). Raise FileNotFoundError if there is none.
    """
    root = stored_folder(folder)
    runs, skipped = [], []
    for place in record_folders(root):
        try:
            runs.append(_run(root, place))
        except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
            kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
            skipped.append(f"{(place / RECORD).relative_to(root)}: {(kind + one_line(error))[:200]}")
    runs.sort(key=lambda run: run.study)
    return StoredRuns(root, tuple(runs), tuple(skipped))


def number(value: object) -> float | None:
    """Return a value as a finite number, or None if it is none."""
    return float(value) if _is_number(value) and math.isfinite(value) else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _run(root: Path, folder: Path) -> StoredRun:
    """Return the run of a folder; raise ValueError or LookupError if its record is none."""
    record = load_record(folder)
    if record is None or not {"row", "config", "name", "failed", "provenance"} <= record.keys():
        raise ValueError("not the record of a run")
    row = row_of(record)
    row |= {key: str(row[key]) for key in ("network", "method", "study")}
    for key in NUMBERS:
        if row.get(key) is not None and not _is_number(row[key]):
            raise ValueError(f"{key} must be a number, got {row[key]!r}")
    timed = (record.get("latency") or {}).get("rows", ())
    measured = {
        (str(timing["target"]), str(timing["form"])): found
        for timing in timed
        if (found := number(timing.get("speedup"))) is not None
    }
    before, after = number(row.get("original")), number(row.get("optimized"))
    row |= {"speedup": 100 * (before / after - 1) if before and after else None}
    # A study is called by the path from the root to the folder above that of the runs.
    home = folder.parent.parent if folder.parent.name == RUNS else folder.parent
    inside = home.is_relative_to(root) and home != root
    study = home.relative_to(root).as_posix() if inside else home.resolve().name or "runs"
    return StoredRun(study, str(record["name"]), row, record, measured, folder)
