"""How many terms an e-graph holds, beside the graphs that a backtracking search looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.plots.bars import bar_size, draw_bars
from workbench.plots.records import Estimate, Records, Series, estimate, records_frame, series_of
from workbench.plots.style import axes_for, legend_above, paper_style, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Programs:
    """Hold log2 of the number of programs looked at, by series and network.

    For an e-graph it is the sum over e-classes of log2 of their size, which is an upper bound; for a
    backtracking search log2 of the number of graphs it took from its queue or put there.
    """

    networks: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def means(self) -> tuple[Estimate, ...]:
        """Return for each series the mean over its networks."""
        return tuple(estimate(v.mean for v in s.values) for s in self.series)


def programs_data(records: Records) -> Programs:
    """Return how many programs each method had before it, as exponents of two.

    Raise ValueError where records have neither ``programs`` nor ``candidates``.
    """
    frame = records_frame(records, "network")
    counted = np.log2(frame["candidates"].where(frame["candidates"] > 0))
    frame["programs"] = frame["programs"].fillna(counted)
    if len(frame) and frame["programs"].isna().all():
        raise ValueError("the records have neither 'programs' nor 'candidates'")
    return Programs(*series_of(frame[frame["programs"].notna()], "programs"))


def plot_programs(records: Records, ax: Axes | None = None) -> Axes:
    """Draw log2 of the number of programs by network, on a logarithmic scale."""
    data = programs_data(records)
    with paper_style():
        ax = axes_for(ax, bar_size(len(data.networks), len(data.series)))
        known = [v.mean for s in data.series for v in s.values if v.count and v.mean > 0]
        if not known:
            return say(ax, "no records")
        ax.set_yscale("log")
        low = min(1.0, min(known) / 2)
        draw_bars(ax, data.networks, data.series, floor=low)
        ax.set_ylim(low, max(known) * 4)
        ax.set_ylabel("log2 of the programs (upper bound)")
        ax.set_title("Programs represented")
        legend_above(ax)
    return ax
