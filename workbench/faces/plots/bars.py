"""Bars of records: speed-up, time of the optimiser and number of programs by network and method, time by stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.faces.plots import style
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
    import pandas as pd
    from matplotlib.axes import Axes


#: The part of the width of a network that its bars fill.
FILLED = 0.82


def bar_styles(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return the fill style of each series: workbench runs in colour, published ones hatched on white."""
    ours = zip(cycle(style.COLOURS[:6]), cycle(style.HATCHES))
    others = zip(cycle(style.COLOURS[:-3:-1]), cycle(style.PUBLISHED_HATCHES))
    styles: list[dict[str, Any]] = []
    for one in series:
        colour, hatch = next(others if one.published else ours)
        face, edge = ("white", colour) if one.published else (colour, "white" if hatch else colour)
        styles.append({"facecolor": face, "edgecolor": edge, "hatch": hatch})
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


def _draw_bars(
    ax: Axes,
    networks: Sequence[str],
    series: Sequence[Series],
    *,
    places: int | None = None,
    floor: float = 0.0,
) -> None:
    """Draw one group of bars per network, with standard errors and the values above the bars.

    Values have ``places`` decimal places, by default three significant digits. ``floor`` is the least height of a
    bar, for logarithmic axes.
    """
    from matplotlib.patheffects import withStroke

    rim, turn = [withStroke(linewidth=2.5, foreground="white")], 90 if turned(networks, series) else 0
    text: Any = {"ha": "center", "fontsize": 7.5, "rotation": turn, "zorder": 5, "path_effects": rim}
    width = FILLED / max(1, len(series))
    for k, (one, look) in enumerate(zip(series, bar_styles(series), strict=True)):
        at = [i - FILLED / 2 + (k + 0.5) * width for i in range(len(networks))]
        there = [(x, v) for x, v in zip(at, one.values, strict=True) if v.count]
        errors = [v.error for _, v in there]
        ax.bar(
            [x for x, _ in there],
            [max(v.mean, floor) if floor else v.mean for _, v in there],
            0.92 * width,
            yerr=errors if any(errors) else None,
            error_kw={"elinewidth": 1.0, "capsize": 2.5, "ecolor": "#222222"},
            linewidth=0.8,
            label=one.label,
            **look,
        )
        for x, v in there:
            sign, side = (1, "bottom") if v.mean >= 0 else (-1, "top")
            said = figure(v.mean) if places is None else f"{v.mean:.{places}f}"
            style.note(ax, said, (x, v.mean + sign * v.error), (0, 3 * sign), va=side, **text)
    style.name_columns(ax, networks)
    ax.set_xlim(-0.6, len(networks) - 0.4)


def speedup_data(records: Records) -> tuple[tuple[str, ...], tuple[Series, ...]]:
    """Return networks, and series of speed-ups in percent: (original / optimized - 1) · 100, over repeats.

    Raise ValueError if the columns (:data:`~workbench.studies.experiments.records.COLUMNS`) contain neither costs nor
    speed-ups, or if repeats come from several machines or cost sources.
    """
    return series_of(records_frame(records, "network", "speedup"), "speedup")


def plot_speedup(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the speed-up by network as bars with standard errors; published figures are hatched."""
    networks, series = speedup_data(records)
    with style.drawing(ax, bar_size(len(networks), len(series))) as ax:
        if not series:
            return style.say(ax, "no records")
        _draw_bars(ax, networks, series, places=1)
        ax.axhline(0, color=style.INK, linewidth=0.8)
        ax.margins(y=0.24 if turned(networks, series) else 0.16)
        source = sources(series)
        costs = style.wrapped(f"costs: {source}", 90) if source else ""
        style.name_axes(ax, "Speed-up by network", costs, "speed-up in %")
    return ax


def time_ratios(series: Sequence[Series], reference: str = "TASO") -> list[float]:
    """Return by network the time of the method ``reference`` divided by that of the first series.

    A ratio is NaN if one of the two is missing; there are none without a later series of the method.
    """
    # The reference is a later series: the first one is not compared with itself.
    against = next((s for s in series[1:] if s.method == reference), None)
    return [
        other.mean / own.mean if own.count and other.count and own.mean > 0 else math.nan
        for own, other in (zip(series[0].values, against.values, strict=True) if against is not None else ())
    ]


def plot_optimiser_time(records: Records, ax: Axes | None = None, *, reference: str = "TASO") -> Axes:
    """Draw the optimiser's seconds by network on a logarithmic scale, with the ratio to ``reference``."""
    frame = records_frame(records, "network", "seconds")
    networks, series = series_of(frame, "seconds")
    best = series_of(frame, "seconds_best")[1] if frame["seconds_best"].notna().any() else ()
    with style.drawing(ax, bar_size(len(networks), len(series))) as ax:
        known = [v.mean for s in series for v in s.values if v.count and v.mean > 0]
        if not known:
            return style.say(ax, "no records")
        ax.set_yscale("log")
        low = 10 ** math.floor(math.log10(min(known)) - 0.3)
        _draw_bars(ax, networks, series, floor=low)
        _draw_best(ax, series, best)
        top = max(known)
        ax.set_ylim(low, top * (top / low) ** (0.34 if turned(networks, series) else 0.2))
        ratios = time_ratios(series, reference)
        look: Any = {"ha": "center", "va": "top", "fontsize": 8.5, "fontweight": "bold", "color": style.INK}
        for i, ratio in enumerate(ratios):
            if ratio == ratio:
                at = (i, 0.985)
                style.note(ax, f"{figure(ratio)}×", at, (0, 0), xycoords=("data", "axes fraction"), **look)
        mean = geometric_mean(ratios)
        bold = f"bold: {reference}'s time / {series[0].label}'s"
        below = f"{bold}; geometric mean {figure(mean)}×" if mean else ""
        style.name_axes(ax, "Optimiser time by network", below, "optimiser time in s")
    return ax


def _draw_best(ax: Axes, series: Sequence[Series], best: Sequence[Series]) -> None:
    """Mark on each bar the time at which the best graph was found."""
    width = FILLED / max(1, len(series))
    of = {(s.label, s.published): k for k, s in enumerate(series)}
    label = "best graph found"
    for one in best:
        k = of.get((one.label, one.published))
        there = [(i, v.mean) for i, v in enumerate(one.values) if v.count]
        if k is None or not there:
            continue
        places, means = (np.array(column) for column in zip(*there, strict=True))
        at = places - FILLED / 2 + (k + 0.5) * width
        ax.hlines(means, at - 0.46 * width, at + 0.46 * width, colors=style.INK, linewidth=2.2, label=label)
        ax.plot(at, means, "D", color="white", markeredgecolor=style.GREY, markersize=4)
        label = "_again"


#: Stages in order, named as in :attr:`workbench.Optimized.seconds`, with colour and hatch.
STAGES: Final[dict[str, tuple[str, str]]] = {
    "import": (style.FAINT, ""),
    "engine": (style.GREY, ""),
    "saturation": (style.BLUE, ""),
    "snapshot": (style.SKY, "////"),
    "pricing": (style.GREEN, ""),
    "extraction": (style.VERMILION, ""),
    "history": (style.PURPLE, "...."),
    "certificate": (style.ORANGE, "xxx"),
    "result": (style.FAINT, "////"),
}


def stages_data(records: Records) -> pd.DataFrame:
    """Return the seconds by stage of results, or of records with columns named like stages.

    There is one row per run, under its name, and the column ``repeats`` has the number of its repeats.
    Stages that no run has are left out. Runs of the same network, method and k_multi are averaged. Raise
    ValueError if no record has seconds of a stage.
    """
    import pandas as pd

    frame = records_frame(records, "network")
    there = [s for s in STAGES if s in frame.columns and frame[s].notna().any()]
    if len(frame) and not there:
        raise ValueError(f"the records must have seconds of a stage ({', '.join(STAGES)}), got none")
    frame = frame.dropna(subset=there, how="all") if there else frame
    several = {column: frame[column].nunique() > 1 for column in ("method", "k_multi")}
    runs, rows = [], []
    groups = frame.groupby(["network", "method", "k_multi", "published"], sort=False, dropna=False)
    for (network, method, k, published), part in groups:
        refuse_mixed(part, f"{method} on {network}")
        names = [str(network)]
        names += [str(method)] if several["method"] else []
        names += [f"k={k:g}"] if several["k_multi"] and k == k else []
        runs.append(", ".join(names) + (" (published)" if published else ""))
        means = [estimate(part[s]) for s in there]
        rows.append([*(m.mean if m.count else 0.0 for m in means), len(part)])
    return pd.DataFrame(rows, index=runs, columns=[*there, "repeats"])


def plot_stages(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the seconds by stage as stacked bars, one bar per run."""
    data = stages_data(records)
    seconds = data.drop(columns="repeats")
    totals = seconds.sum(axis=1).tolist()
    with style.drawing(ax, (7.0, 1.5 + 0.42 * max(1, len(data)))) as ax:
        if data.empty:
            return style.say(ax, "no records")
        ax.grid(visible=False)
        ax.grid(axis="x")
        left = [0.0] * len(data)
        longest = max(*totals, 1e-9)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
        inside: Any = {"ha": "center", "va": "center", "fontsize": 8, "color": style.INK, "bbox": box}
        for stage in seconds:
            colour, hatch = STAGES[str(stage)]
            widths = seconds[stage].tolist()
            look = {"color": colour, "hatch": hatch, **style.RIM}
            ax.barh(range(len(data)), widths, 0.62, left=left, label=stage, **look)
            for i, width in enumerate(widths):
                if width > 0.085 * longest:
                    ax.text(left[i] + width / 2, i, f"{width:.2g}", **inside)
                left[i] += width
        for i, (total, repeats) in enumerate(zip(totals, data["repeats"], strict=True)):
            said = f"{total:.3g} s" + (f", {repeats} repeats" if repeats > 1 else "")
            style.note(ax, said, (left[i], i), (4, 0), va="center", fontsize=8)
        style.name_rows(ax, [str(run) for run in data.index])
        ax.set_xlim(0, longest * 1.18)
        style.name_axes(ax, "Time by stage", "seconds")
    return ax
