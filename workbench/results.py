"""Stored runs as frames and tables: ``workbench.results.load("results/headline")``."""

from workbench.experiments.results import (
    MORE,
    compare,
    frame_of,
    latency,
    load,
    records,
    table,
    with_published,
)
from workbench.experiments.stored import stored_folder

__all__ = [
    "MORE",
    "compare",
    "frame_of",
    "latency",
    "load",
    "records",
    "stored_folder",
    "table",
    "with_published",
]
