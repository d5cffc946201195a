"""Matplotlib figures of a trace or of records of runs; each has a function that returns its data.

A figure of records takes a pandas frame of records, or results of :func:`workbench.optimize`.
:data:`~workbench.studies.experiments.records.COLUMNS` describes the columns.
"""

from workbench.faces.plots.bars import plot_optimiser_time as plot_optimiser_time
from workbench.faces.plots.bars import plot_speedup as plot_speedup
from workbench.faces.plots.bars import plot_stages as plot_stages
from workbench.faces.plots.bars import speedup_data as speedup_data
from workbench.faces.plots.bars import stages_data as stages_data
from workbench.faces.plots.cost import plot_ablation as plot_ablation
from workbench.faces.plots.cost import plot_accelerator_cycles as plot_accelerator_cycles
from workbench.faces.plots.cost import plot_accelerator_use as plot_accelerator_use
from workbench.faces.plots.cost import plot_cost_bars as plot_cost_bars
from workbench.faces.plots.cost import plot_cost_curve as plot_cost_curve
from workbench.faces.plots.cost import plot_gap as plot_gap
from workbench.faces.plots.cost import plot_roofline as plot_roofline
from workbench.faces.plots.latency import latency_data as latency_data
from workbench.faces.plots.latency import plot_latency as plot_latency
from workbench.faces.plots.laws import funnel_data as funnel_data
from workbench.faces.plots.laws import plot_funnel as plot_funnel
from workbench.faces.plots.laws import plot_verification_rounds as plot_verification_rounds
from workbench.faces.plots.laws import plot_verification_seconds as plot_verification_seconds
from workbench.faces.plots.laws import rounds_data as rounds_data
from workbench.faces.plots.saturation import firing_data as firing_data
from workbench.faces.plots.saturation import plot_firing as plot_firing
from workbench.faces.plots.saturation import plot_growth as plot_growth
from workbench.faces.plots.scaling import k_multi_data as k_multi_data
from workbench.faces.plots.scaling import plot_k_multi_trends as plot_k_multi_trends
from workbench.faces.plots.scaling import plot_scaling as plot_scaling
from workbench.faces.plots.scaling import plot_trajectory as plot_trajectory
from workbench.faces.plots.scaling import scaling_data as scaling_data
from workbench.faces.plots.scaling import trajectory_data as trajectory_data
from workbench.faces.plots.style import figure_svg as figure_svg
from workbench.faces.plots.style import paper_style as paper_style
from workbench.studies.experiments.records import COLUMNS as COLUMNS
from workbench.studies.experiments.records import published_records as published_records
from workbench.studies.experiments.records import record as record
from workbench.studies.experiments.records import records_frame as records_frame
