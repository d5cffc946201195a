"""Stored runs: as frames (``load``), as tables, and to look at (``workbench.results.browse().view()``)."""

from workbench.studies.experiments.results import (
    MORE,
    compare,
    frame_of,
    latency,
    load,
    records,
    table,
    with_published,
)
from workbench.studies.experiments.store import stored_folder
from workbench.studies.experiments.stored_runs import StoredRun, StoredRuns, browse

__all__ = [
    "MORE",
    "StoredRun",
    "StoredRuns",
    "browse",
    "compare",
    "frame_of",
    "latency",
    "load",
    "records",
    "stored_folder",
    "table",
    "with_published",
]
