"""Studies: what is run is said in a YAML file, every run leaves a record, the records make the tables."""

from workbench.experiments.foreign import (
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
