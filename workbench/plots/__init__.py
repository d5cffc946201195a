"""Draw matplotlib figures of a trace; every figure has a data function beside the drawing one."""

from workbench.plots.cost import Costs, cost_data, plot_cost_bars, plot_cost_curve
from workbench.plots.firing import Firing, firing_data, plot_firing
from workbench.plots.gap import Gap, gap_data, plot_gap
from workbench.plots.growth import Growth, growth_data, plot_growth
from workbench.plots.style import figure_png, paper_style

__all__ = [
    "Costs",
    "Firing",
    "Gap",
    "Growth",
    "cost_data",
    "figure_png",
    "firing_data",
    "gap_data",
    "growth_data",
    "paper_style",
    "plot_cost_bars",
    "plot_cost_curve",
    "plot_firing",
    "plot_gap",
    "plot_growth",
]
