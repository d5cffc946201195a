"""Matplotlib figures of a trace or of records of runs; each has a function that returns its data.

A figure of records takes a pandas frame, a file of records, or results of :func:`workbench.optimize`.
:data:`~workbench.faces.plots.records.COLUMNS` describes the columns.
"""

from workbench.faces.plots.ablation import Losses, ablation_data, plot_ablation
from workbench.faces.plots.accelerator import (
    AcceleratorLayers,
    accelerator_data,
    plot_accelerator_cycles,
    plot_accelerator_use,
)
from workbench.faces.plots.bars import (
    OptimiserTimes,
    Programs,
    Speedups,
    optimiser_time_data,
    plot_optimiser_time,
    plot_programs,
    plot_speedup,
    programs_data,
    speedup_data,
)
from workbench.faces.plots.cost import (
    Costs,
    Gap,
    cost_data,
    gap_data,
    plot_cost_bars,
    plot_cost_curve,
    plot_gap,
)
from workbench.faces.plots.latency import Latencies, latency_data, plot_latency
from workbench.faces.plots.laws import (
    Funnel,
    Round,
    funnel_data,
    plot_funnel,
    plot_verification_rounds,
    plot_verification_seconds,
    rounds_data,
)
from workbench.faces.plots.records import COLUMNS, published_records, record, records_frame
from workbench.faces.plots.saturation import (
    Firing,
    Growth,
    IterationTime,
    firing_data,
    growth_data,
    iteration_time_data,
    plot_firing,
    plot_growth,
    plot_iteration_time,
)
from workbench.faces.plots.scaling import (
    Growing,
    Trend,
    k_multi_data,
    plot_k_multi,
    plot_k_multi_trends,
    plot_scaling,
    scaling_data,
)
from workbench.faces.plots.stages import Stages, plot_stages, stages_data
from workbench.faces.plots.style import figure_png, figure_svg, paper_style
from workbench.faces.plots.trajectory import plot_trajectory, trajectory_data

__all__ = [
    "COLUMNS",
    "AcceleratorLayers",
    "Costs",
    "Firing",
    "Funnel",
    "Gap",
    "Growing",
    "Growth",
    "IterationTime",
    "Latencies",
    "Losses",
    "OptimiserTimes",
    "Programs",
    "Round",
    "Speedups",
    "Stages",
    "Trend",
    "ablation_data",
    "accelerator_data",
    "cost_data",
    "figure_png",
    "figure_svg",
    "firing_data",
    "funnel_data",
    "gap_data",
    "growth_data",
    "iteration_time_data",
    "k_multi_data",
    "latency_data",
    "optimiser_time_data",
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
    "plot_iteration_time",
    "plot_k_multi",
    "plot_k_multi_trends",
    "plot_latency",
    "plot_optimiser_time",
    "plot_programs",
    "plot_scaling",
    "plot_speedup",
    "plot_stages",
    "plot_trajectory",
    "plot_verification_rounds",
    "plot_verification_seconds",
    "programs_data",
    "published_records",
    "record",
    "records_frame",
    "rounds_data",
    "scaling_data",
    "speedup_data",
    "stages_data",
    "trajectory_data",
]
