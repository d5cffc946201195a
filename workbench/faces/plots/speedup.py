"""Speed-up by network and method, with published figures marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.faces.plots.bars import bar_size, draw_bars, turned
from workbench.faces.plots.records import (
    Estimate,
    Records,
    Series,
    estimate,
    records_frame,
    series_of,
    sources,
)
from workbench.faces.plots.style import INK, axes_for, legend_above, paper_style, say, set_title, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Speedups:
    """The speed-up in percent, (original / optimized - 1) · 100, by series and network."""

    networks: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def means(self) -> tuple[Estimate, ...]:
        """Return the mean over the networks that all series share, by series."""
        shared = [i for i in range(len(self.networks)) if all(s.values[i].count for s in self.series)]
        return tuple(estimate(s.values[i].mean for i in shared) for s in self.series)


def speedup_data(records: Records) -> Speedups:
    """Return the mean speed-ups of records and their standard errors over repeats.

    Raise ValueError if the columns (:data:`~workbench.faces.plots.records.COLUMNS`) contain neither costs nor
    speed-ups, or if repeats come from several machines or cost sources.
    """
    frame = records_frame(records, "network", "speedup")
    return Speedups(*series_of(frame, "speedup"))


def plot_speedup(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the speed-up by network as bars with standard errors; published figures are hatched."""
    data = speedup_data(records)
    with paper_style():
        ax = axes_for(ax, bar_size(len(data.networks), len(data.series)))
        if not data.series:
            return say(ax, "no records")
        draw_bars(ax, data.networks, data.series, places=1)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.margins(y=0.24 if turned(data.networks, data.series) else 0.16)
        ax.set_ylabel("speed-up in %")
        source = sources(data.series)
        ax.set_xlabel(wrapped(f"costs: {source}", 90) if source else "")
        set_title(ax, "Speed-up by network")
        legend_above(ax)
    return ax
