"""Matplotlib figures of a trace or of records of runs; each has a function that returns its data.

A figure of records takes a pandas frame, a file of records, or results of :func:`workbench.optimize`.
:data:`~workbench.studies.experiments.records.COLUMNS` describes the columns.
"""

from workbench.faces.plots.accelerator import (
    plot_accelerator_cycles,
    plot_accelerator_use,
)
from workbench.faces.plots.bars import (
    plot_optimiser_time,
    plot_speedup,
    plot_stages,
    speedup_data,
    stages_data,
)
from workbench.faces.plots.cost import (
    plot_ablation,
    plot_cost_bars,
    plot_cost_curve,
    plot_gap,
)
from workbench.faces.plots.latency import Latencies, latency_data, plot_latency
from workbench.faces.plots.laws import (
    funnel_data,
    plot_funnel,
    plot_verification_rounds,
    plot_verification_seconds,
    rounds_data,
)
from workbench.faces.plots.saturation import (
    Firing,
    firing_data,
    plot_firing,
    plot_growth,
)
from workbench.faces.plots.scaling import (
    k_multi_data,
    plot_k_multi_trends,
    plot_scaling,
    plot_trajectory,
    scaling_data,
    trajectory_data,
)
from workbench.faces.plots.style import figure_png, figure_svg, paper_style
from workbench.studies.experiments.records import COLUMNS, published_records, record, records_frame

__all__ = [
    "COLUMNS",
    "Firing",
    "Latencies",
    "figure_png",
    "figure_svg",
    "firing_data",
    "funnel_data",
    "k_multi_data",
    "latency_data",
    "paper_style",
    "plot_ablation",
    "plot_accelerator_cycles",
    "plot_accelerator_use",
    "plot_cost_bars",
    "plot_cost_curve",
    "plot_firing",
    "plot_funnel",
    "plot_gap",
    "plot_growth",
    "plot_k_multi_trends",
    "plot_latency",
    "plot_optimiser_time",
    "plot_scaling",
    "plot_speedup",
    "plot_stages",
    "plot_trajectory",
    "plot_verification_rounds",
    "plot_verification_seconds",
    "published_records",
    "record",
    "records_frame",
    "rounds_data",
    "scaling_data",
    "speedup_data",
    "stages_data",
    "trajectory_data",
]
