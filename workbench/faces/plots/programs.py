"""The number of terms in an e-graph, in comparison with the graphs of a backtracking search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.faces.plots.bars import bar_size, draw_bars
from workbench.faces.plots.records import Estimate, Records, Series, estimate, records_frame, series_of
from workbench.faces.plots.style import axes_for, legend_above, paper_style, say, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Programs:
    """log2 of the number of programs considered, by series and network.

    For an e-graph this is the sum over e-classes of log2 of their sizes, which is an upper bound; for a
    backtracking search it is log2 of the number of graphs that were ever in its queue.
    """

    networks: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def means(self) -> tuple[Estimate, ...]:
        """Return the mean over the networks, by series."""
        return tuple(estimate(v.mean for v in s.values) for s in self.series)


def programs_data(records: Records) -> Programs:
    """Return log2 of the number of programs that each method considered.

    Raise ValueError if the records have neither ``programs`` nor ``candidates``.
    """
    frame = records_frame(records, "network")
    counted = np.log2(frame["candidates"].where(frame["candidates"] > 0))
    frame["programs"] = frame["programs"].fillna(counted)
    if len(frame) and frame["programs"].isna().all():
        raise ValueError("the records must have 'programs' or 'candidates', got neither")
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
        set_title(ax, "Programs represented")
        legend_above(ax)
    return ax
