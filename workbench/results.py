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

__all__ = ["MORE", "compare", "frame_of", "latency", "load", "records", "table", "with_published"]
