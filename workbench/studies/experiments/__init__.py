"""Studies: a YAML file lists the runs, each run writes a record, tables are generated from the records."""

from workbench.studies.experiments.foreign import (
    read_taso_log,
    read_taso_metrics,
    read_taso_timer,
    read_taso_times,
    read_tensat_stats,
)

__all__ = [
    "read_taso_log",
    "read_taso_metrics",
    "read_taso_timer",
    "read_taso_times",
    "read_tensat_stats",
]
