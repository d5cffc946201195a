"""Time of the optimiser by network, in comparison with TASO and Tensat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.faces.plots.bars import FILLED, bar_size, draw_bars, figure, turned
from workbench.faces.plots.records import Records, Series, records_frame, series_of
from workbench.faces.plots.style import GREY, INK, axes_for, legend_above, paper_style, say, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class OptimiserTimes:
    """The optimiser's seconds by series and network.

    ``best`` has the seconds until the best graph was found, if records contain them. ``ratios[i]`` is the
    time of ``reference`` divided by the time of the first series on network ``i``, or NaN if one of the two
    is missing.
    """

    networks: tuple[str, ...]
    series: tuple[Series, ...]
    best: tuple[Series, ...]
    reference: str | None
    ratios: tuple[float, ...]

    @property
    def mean_ratio(self) -> float:
        """Return the geometric mean of the known ratios, or NaN if none is known."""
        known = [r for r in self.ratios if r == r]
        return math.exp(sum(math.log(r) for r in known) / len(known)) if known else math.nan


def optimiser_time_data(records: Records, reference: str = "TASO") -> OptimiserTimes:
    """Return the mean seconds of records; ``reference`` is the method that the first one is compared with.

    Raise ValueError if the columns contain neither ``seconds`` nor ``saturation`` and ``extraction``.
    """
    frame = records_frame(records, "network", "seconds")
    networks, series = series_of(frame, "seconds")
    best = series_of(frame, "seconds_best")[1] if frame["seconds_best"].notna().any() else ()
    # The reference is a later series: the first one is not compared with itself.
    against = next((s for s in series[1:] if s.method == reference), None)
    ratios = tuple(
        other.mean / own.mean if own.count and other.count and own.mean > 0 else math.nan
        for own, other in (zip(series[0].values, against.values, strict=True) if against is not None else ())
    )
    return OptimiserTimes(networks, series, best, None if against is None else against.method, ratios)


def plot_optimiser_time(records: Records, ax: Axes | None = None, *, reference: str = "TASO") -> Axes:
    """Draw the optimiser's seconds by network on a logarithmic scale, with the ratio to ``reference``."""
    data = optimiser_time_data(records, reference)
    with paper_style():
        ax = axes_for(ax, bar_size(len(data.networks), len(data.series)))
        known = [v.mean for s in data.series for v in s.values if v.count and v.mean > 0]
        if not known:
            return say(ax, "no records")
        ax.set_yscale("log")
        low = 10 ** math.floor(math.log10(min(known)) - 0.3)
        draw_bars(ax, data.networks, data.series, floor=low)
        _draw_best(ax, data)
        top = max(known)
        ax.set_ylim(low, top * (top / low) ** (0.34 if turned(data.networks, data.series) else 0.2))
        for i, ratio in enumerate(data.ratios):
            if ratio == ratio:
                ax.annotate(
                    f"{figure(ratio)}×",
                    (i, 0.985),
                    xycoords=("data", "axes fraction"),
                    ha="center",
                    va="top",
                    fontsize=8.5,
                    fontweight="bold",
                    color=INK,
                )
        ax.set_ylabel("optimiser time in s")
        mean = data.mean_ratio
        if mean == mean:
            ax.set_xlabel(
                f"bold: {data.reference}'s time / {data.series[0].label}'s; geometric mean {figure(mean)}×"
            )
        set_title(ax, "Optimiser time by network")
        legend_above(ax)
    return ax


def _draw_best(ax: Axes, data: OptimiserTimes) -> None:
    """Mark on each bar the time at which the best graph was found."""
    width = FILLED / max(1, len(data.series))
    labelled = False
    for one in data.best:
        k = next(
            (i for i, s in enumerate(data.series) if (s.label, s.published) == (one.label, one.published)),
            None,
        )
        there = [(i, v.mean) for i, v in enumerate(one.values) if v.count]
        if k is None or not there:
            continue
        at = np.array([i for i, _ in there]) - FILLED / 2 + (k + 0.5) * width
        ax.hlines(
            [v for _, v in there],
            at - 0.46 * width,
            at + 0.46 * width,
            colors=INK,
            linewidth=2.2,
            label="_again" if labelled else "best graph found",
        )
        ax.plot(at, [v for _, v in there], "D", color="white", markeredgecolor=GREY, markersize=4)
        labelled = True
