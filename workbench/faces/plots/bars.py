"""Bars of records: speed-up, time of the optimiser and number of programs by network and method, time by stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.faces.plots.style import (
    BLUE,
    COLOURS,
    FAINT,
    GREEN,
    GREY,
    HATCHES,
    INK,
    ORANGE,
    PUBLISHED_HATCHES,
    PURPLE,
    RIM,
    SKY,
    VERMILION,
    drawing,
    name_axes,
    name_columns,
    name_rows,
    note,
    say,
    wrapped,
)
from workbench.studies.experiments.records import (
    Records,
    Series,
    estimate,
    geometric_mean,
    records_frame,
    refuse_mixed,
    series_of,
    sources,
)
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The part of the width of a network that its bars fill.
FILLED = 0.82


def bar_styles(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return the fill style of each series: workbench runs in colour, published ones hatched on white."""
    styles: list[dict[str, Any]] = []
    ours = others = 0
    for one in series:
        if one.published:
            colour, hatch = COLOURS[-1 - others % 2], PUBLISHED_HATCHES[others % len(PUBLISHED_HATCHES)]
            others += 1
            styles.append({"facecolor": "white", "edgecolor": colour, "hatch": hatch})
        else:
            colour, hatch = COLOURS[ours % 6], HATCHES[ours % len(HATCHES)]
            ours += 1
            styles.append({"facecolor": colour, "edgecolor": "white" if hatch else colour, "hatch": hatch})
    return styles


def figure(value: float) -> str:
    """Return a number with three significant digits, and without an exponent from 1000 to a million.

    >>> figure(0.04567), figure(9.5), figure(226.4), figure(1140.3)
    ('0.0457', '9.5', '226', '1\u202f140')
    """
    return thousands(value) if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def bar_size(networks: int, series: int) -> tuple[float, float]:
    """Return the size in inches that keeps the bars of this many networks and series readable."""
    return max(4.0, min(12.0, 1.4 + networks * (0.34 + 0.3 * series))), 3.6


def turned(networks: Sequence[str], series: Sequence[Series]) -> bool:
    """Return whether the values are written vertically, because there are many bars."""
    return len(series) > 2 and len(networks) > 4


def draw_bars(
    ax: Axes,
    networks: Sequence[str],
    series: Sequence[Series],
    *,
    places: int | None = None,
    floor: float = 0.0,
) -> None:
    """Draw one group of bars per network, with standard errors and the values above the bars.

    Args:
        ax: The axes.
        networks: The names of the networks.
        series: The series; each has one value per network.
        places: Decimal places of the values; by default three significant digits.
        floor: The least height of a bar, for logarithmic axes; 0 for none.
    """
    from matplotlib.patheffects import withStroke

    width = FILLED / max(1, len(series))
    for k, (one, style) in enumerate(zip(series, bar_styles(series), strict=True)):
        at = [i - FILLED / 2 + (k + 0.5) * width for i in range(len(networks))]
        there = [(x, v) for x, v in zip(at, one.values, strict=True) if v.count]
        ax.bar(
            [x for x, _ in there],
            [max(v.mean, floor) if floor else v.mean for _, v in there],
            0.92 * width,
            yerr=[v.error for _, v in there] if any(v.error for _, v in there) else None,
            error_kw={"elinewidth": 1.0, "capsize": 2.5, "ecolor": "#222222"},
            linewidth=0.8,
            label=one.label,
            **style,
        )
        for x, v in there:
            sign, side = (1, "bottom") if v.mean >= 0 else (-1, "top")
            note(
                ax,
                figure(v.mean) if places is None else f"{v.mean:.{places}f}",
                (x, v.mean + sign * v.error),
                (0, 3 * sign),
                ha="center",
                va=side,
                fontsize=7.5,
                rotation=90 if turned(networks, series) else 0,
                path_effects=[withStroke(linewidth=2.5, foreground="white")],
                zorder=5,
            )
    name_columns(ax, networks)
    ax.set_xlim(-0.6, len(networks) - 0.4)


@dataclass(frozen=True, slots=True)
class Speedups:
    """The speed-up in percent, (original / optimized - 1) · 100, by series and network."""

    networks: tuple[str, ...]
    series: tuple[Series, ...]


def speedup_data(records: Records) -> Speedups:
    """Return the mean speed-ups of records and their standard errors over repeats.

    Raise ValueError if the columns (:data:`~workbench.studies.experiments.records.COLUMNS`) contain neither costs nor
    speed-ups, or if repeats come from several machines or cost sources.
    """
    frame = records_frame(records, "network", "speedup")
    return Speedups(*series_of(frame, "speedup"))


def plot_speedup(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the speed-up by network as bars with standard errors; published figures are hatched."""
    data = speedup_data(records)
    with drawing(ax, bar_size(len(data.networks), len(data.series))) as ax:
        if not data.series:
            return say(ax, "no records")
        draw_bars(ax, data.networks, data.series, places=1)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.margins(y=0.24 if turned(data.networks, data.series) else 0.16)
        source = sources(data.series)
        costs = wrapped(f"costs: {source}", 90) if source else ""
        name_axes(ax, "Speed-up by network", costs, "speed-up in %")
    return ax


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
        return geometric_mean(self.ratios) or math.nan


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
    with drawing(ax, bar_size(len(data.networks), len(data.series))) as ax:
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
        mean, own = data.mean_ratio, data.series[0].label
        bold = f"bold: {data.reference}'s time / {own}'s; geometric mean {figure(mean)}×"
        name_axes(ax, "Optimiser time by network", bold if mean == mean else "", "optimiser time in s")
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


#: Stages in order, named as in :attr:`workbench.Optimized.seconds`, with colour and hatch.
STAGES: Final[dict[str, tuple[str, str]]] = {
    "import": (FAINT, ""),
    "engine": (GREY, ""),
    "saturation": (BLUE, ""),
    "snapshot": (SKY, "////"),
    "pricing": (GREEN, ""),
    "extraction": (VERMILION, ""),
    "history": (PURPLE, "...."),
    "certificate": (ORANGE, "xxx"),
    "result": (FAINT, "////"),
}


@dataclass(frozen=True, slots=True)
class Stages:
    """Mean seconds: ``seconds[i][j]`` is of ``runs[i]`` in ``stages[j]``, over ``counts[i]`` repeats."""

    runs: tuple[str, ...]
    stages: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]

    @property
    def totals(self) -> tuple[float, ...]:
        """Return the sum of each run's stages."""
        return tuple(sum(row) for row in self.seconds)


def stages_data(records: Records, stages: tuple[str, ...] = tuple(STAGES)) -> Stages:
    """Return the seconds by stage of results, or of records with columns named like stages.

    Stages that no run has are left out; ``stages`` selects among them (Tensat's time covers
    ``("saturation", "extraction")``). Runs of the same network, method and k_multi are averaged. Raise
    ValueError for an unknown stage, or if no record has seconds of a stage.
    """
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ValueError(f"stages must be among {', '.join(STAGES)}, got {unknown[0]!r}")
    frame = records_frame(records, "network")
    there = [s for s in stages if s in frame.columns and frame[s].notna().any()]
    if len(frame) and not there:
        raise ValueError(f"the records must have seconds of a stage ({', '.join(stages)}), got none")
    frame = frame.dropna(subset=there, how="all") if there else frame
    several = {
        "method": frame["method"].nunique() > 1,
        "k_multi": frame["k_multi"].nunique() > 1,
    }
    runs, rows, counts = [], [], []
    groups = frame.groupby(["network", "method", "k_multi", "published"], sort=False, dropna=False)
    for (network, method, k, published), part in groups:
        refuse_mixed(part, f"{method} on {network}")
        names = [str(network)]
        names += [str(method)] if several["method"] else []
        names += [f"k={k:g}"] if several["k_multi"] and k == k else []
        runs.append(", ".join(names) + (" (published)" if published else ""))
        means = [estimate(part[s]) for s in there]
        rows.append(tuple(m.mean if m.count else 0.0 for m in means))
        counts.append(len(part))
    return Stages(tuple(runs), tuple(there), tuple(rows), tuple(counts))


def plot_stages(
    records: Records,
    ax: Axes | None = None,
    *,
    stages: tuple[str, ...] = tuple(STAGES),
    share: bool = False,
) -> Axes:
    """Draw the seconds by stage as stacked bars, one bar per run.

    Args:
        records: The records.
        ax: The axes; by default those of a new figure.
        stages: The stages to draw.
        share: Whether to draw percentages of each run's time instead of seconds.
    """
    data = stages_data(records, stages)
    with drawing(ax, (7.0, 1.5 + 0.42 * max(1, len(data.runs)))) as ax:
        if not data.runs:
            return say(ax, "no records")
        ax.grid(visible=False)
        ax.grid(axis="x")
        left = [0.0] * len(data.runs)
        scale = [100 / total if share and total > 0 else 1.0 for total in data.totals]
        longest = max(100.0 if share else max(data.totals), 1e-9)
        for j, stage in enumerate(data.stages):
            colour, hatch = STAGES[stage]
            widths = [row[j] * s for row, s in zip(data.seconds, scale, strict=True)]
            places, look = range(len(data.runs)), {"color": colour, "hatch": hatch, **RIM}
            ax.barh(places, widths, 0.62, left=left, label=stage, **look)
            for i, width in enumerate(widths):
                if width > 0.085 * longest:
                    ax.text(
                        left[i] + width / 2,
                        i,
                        f"{width:.0f} %" if share else f"{width:.2g}",
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=INK,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85},
                    )
                left[i] += width
        for i, total in enumerate(data.totals):
            said = f"{total:.3g} s" + (f", {data.counts[i]} repeats" if data.counts[i] > 1 else "")
            note(ax, said, (left[i], i), (4, 0), va="center", fontsize=8)
        name_rows(ax, data.runs)
        ax.set_xlim(0, longest * 1.18)
        name_axes(ax, "Time by stage", "share of the run's time in %" if share else "seconds")
    return ax
