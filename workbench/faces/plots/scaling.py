"""Figures of growing work: time by blocks; speed-up, e-nodes and time by k_multi; speed-up by time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from workbench.faces.plots.style import (
    DASHES,
    GREY,
    drawing,
    legend_above,
    legend_beside,
    name_axes,
    note,
    paper_style,
    say,
    series,
    set_title,
    whole_ticks,
    wrapped,
)
from workbench.studies.experiments.records import Estimate, Records, estimate, records_frame, refuse_mixed
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# -- blocks and k_multi --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Growing:
    """The optimiser's seconds on one family of networks, by the number of blocks.

    ``seconds`` is the records' column of this name: saturation, reading the e-graph and extraction. ``whole``
    covers the whole call, including the engine's start and the certificate (NaN if it was not recorded).
    """

    label: str
    blocks: tuple[int, ...]
    seconds: tuple[float, ...]
    whole: tuple[float, ...]
    e_nodes: tuple[float, ...]

    @property
    def slope(self) -> float:
        """Return the slope between the two largest sizes on logarithmic scales, or NaN for one size.

        The slope is 1 if time is proportional to the number of blocks. A fit through all sizes would be too
        low, because of the constant share in the time of small networks.
        """
        if len(self.blocks) < 2:
            return math.nan
        (b0, b1), (s0, s1) = self.blocks[-2:], self.seconds[-2:]
        return math.log(s1 / s0) / math.log(b1 / b0)


def scaling_data(records: Records) -> tuple[Growing, ...]:
    """Return one series per family (and method, if there are several) of the records with blocks.

    Repeats are averaged. Raise ValueError if no record has a number of blocks.
    """
    frame = records_frame(records, "network", "seconds")
    if "blocks" not in frame or frame["blocks"].isna().all():
        raise ValueError("the records must have 'blocks', got none (try a study of kind: branches)")
    frame = frame[frame["blocks"].notna() & frame["seconds"].notna()]
    if "call_seconds" not in frame:
        frame = frame.assign(call_seconds=math.nan)
    several = frame["method"].nunique() > 1
    found = []
    for (family, method), rows in frame.groupby(["family", "method"], sort=False):
        means = rows.groupby("blocks")[["seconds", "call_seconds", "nodes"]].mean()
        found.append(
            Growing(
                f"{family}, {method}" if several else str(family),
                tuple(int(b) for b in means.index),
                tuple(means["seconds"].astype(float)),
                tuple(means["call_seconds"].astype(float)),
                tuple(means["nodes"].astype(float)),
            )
        )
    return tuple(found)


def plot_scaling(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the optimiser's seconds by blocks on logarithmic scales, with a line of proportional growth.

    Solid lines cover saturation to extraction, with their slopes between the two largest sizes; dotted lines
    cover the whole call.
    """
    data = scaling_data(records)
    with drawing(ax, (6.4, 4.0)) as ax:
        if not data:
            return say(ax, "no records")
        ax.set_xscale("log")
        ax.set_yscale("log")
        for k, one in enumerate(data):
            slope = f" (slope {one.slope:.2f})" if one.slope == one.slope else ""
            colour, marker = series(k)
            ax.plot(one.blocks, one.seconds, marker=marker, color=colour, label=f"{one.label}{slope}")
            if any(v == v for v in one.whole):
                ax.plot(one.blocks, one.whole, ":", linewidth=1.2, color=colour)
        sizes = sorted({b for one in data for b in one.blocks})
        low = min(one.seconds[0] / one.blocks[0] for one in data)
        line = [low * b for b in sizes]
        ax.plot(sizes, line, "--", color=GREY, linewidth=1.2, label="in proportion", zorder=1)
        ax.set_xticks(sizes, [str(b) for b in sizes])
        ax.minorticks_off()
        ax.xaxis.label.set_fontsize(8.5)
        blocks = "\n".join(["blocks", *_notes(data, sizes, records)])
        name_axes(ax, "Optimiser time by blocks", blocks, "optimiser time in s", columns=3)
    return ax


def _notes(data: Sequence[Growing], sizes: Sequence[int], records: Records) -> list[str]:
    """Return notes that explain lines and slopes, then the cost source, the machine and the versions."""
    told = "lines: saturation to extraction"
    if any(v == v for one in data for v in one.whole):
        told += "; dotted: the whole call, including the engine's start and the certificate"
    if len(sizes) > 1:
        told += (
            f"\nslopes: from {sizes[-2]} to {sizes[-1]} blocks"
            if _same_ends(data)
            else "\nslopes: between the two largest sizes"
        )
    frame = records_frame(records, "network", "seconds")
    made = [
        "; ".join(dict.fromkeys(str(v).partition(";")[0] for v in frame[column] if isinstance(v, str) and v))
        for column in ("cost_source", "hardware", "versions")
        if column in frame
    ]
    return [told, *textwrap.wrap("; ".join(filter(None, made)), 100)]


def _same_ends(data: Sequence[Growing]) -> bool:
    return len({one.blocks[-2:] for one in data}) == 1


Measure = Literal["speedup", "nodes", "seconds"]
MEASURES: Final[dict[str, str]] = {
    "speedup": "speed-up in %",
    "nodes": "e-nodes",
    "seconds": "optimiser time in s",
}

#: A network this many times above the next one compresses the axis: otherwise other lines would look flat.
_FAR: Final = 2.0


@dataclass(frozen=True, slots=True)
class Trend:
    """One line of the figure: the estimates of a network and a method by k_multi."""

    network: str
    method: str
    published: bool
    k_multi: tuple[int, ...]
    values: tuple[Estimate, ...]


def k_multi_data(records: Records, measure: Measure = "speedup") -> tuple[Trend, ...]:
    """Return one line per network and method, with k_multi ascending and repeats averaged.

    ``measure`` is ``"speedup"``, ``"nodes"`` or ``"seconds"``. Records without k_multi are left out. Methods
    whose names differ only by their k_multi (``ours-k0``, ``ours-k1``) form one line.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    frame = records_frame(records, "network", "k_multi", measure)
    frame = frame[frame["k_multi"].notna() & frame[measure].notna()]
    frame = frame.assign(
        method=[_family(m, int(k)) for m, k in zip(frame["method"], frame["k_multi"], strict=True)]
    )
    trends = []
    for (network, method, published), rows in frame.groupby(["network", "method", "published"], sort=False):
        refuse_mixed(rows, f"{method} on {network}")
        groups = [
            (k, rows.loc[rows["k_multi"] == k, measure]) for k in sorted({int(k) for k in rows["k_multi"]})
        ]
        trends.append(
            Trend(
                str(network),
                str(method),
                bool(published),
                tuple(k for k, _ in groups),
                tuple(estimate(v) for _, v in groups),
            )
        )
    return tuple(trends)


def _family(method: str, k: int) -> str:
    """Return a method's name without its k_multi."""
    return str(method).removesuffix(f"k{k}").rstrip("-_ ")


def plot_k_multi(records: Records, ax: Axes | None = None, *, measure: Measure = "speedup") -> Axes:
    """Draw a measure against k_multi, one line per network; e-nodes and time on a logarithmic scale.

    If one network's speed-up lies far above the others', the axis is compressed above the others, and its
    label notes this.
    """
    trends = k_multi_data(records, measure)
    with drawing(ax, (4.6, 3.6)) as ax:
        if not trends:
            return say(ax, "no records with k_multi")
        _draw(ax, trends, measure)
        set_title(ax, f"{_capital(MEASURES[measure].partition(' in ')[0])} by k_multi")
        legend_above(ax)
    return ax


def plot_k_multi_trends(records: Records, figure: Figure | None = None) -> Figure:
    """Draw speed-up, e-nodes and time against k_multi next to each other, with one legend."""
    with paper_style():
        if figure is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(10.0, 3.6), layout="constrained")
        trends: tuple[Trend, ...] = ()
        for ax, measure in zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True):
            trends = k_multi_data(records, measure)  # type: ignore[arg-type]
            if trends:
                _draw(ax, trends, measure)
            else:
                say(ax, "no records with k_multi")
            set_title(ax, _capital(MEASURES[measure].partition(" in ")[0]))
        if trends:
            handles, labels = ax.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(7, len(labels)), fontsize=9)
    return figure


def _draw(ax: Axes, trends: Sequence[Trend], measure: str) -> None:
    networks = list(dict.fromkeys(t.network for t in trends))
    methods = list(dict.fromkeys((t.method, t.published) for t in trends))
    for t in trends:
        i, m = networks.index(t.network), methods.index((t.method, t.published))
        colour, marker = series(i)
        name = t.network if len(methods) == 1 or not t.method else f"{t.network}, {t.method}"
        ax.errorbar(
            t.k_multi,
            [v.mean for v in t.values],
            yerr=[v.error for v in t.values] if any(v.error for v in t.values) else None,
            color=colour,
            marker=marker,
            markerfacecolor="white" if t.published else None,
            linestyle=DASHES[m % len(DASHES)],
            capsize=2.5,
            elinewidth=1.0,
            label=name + (" (published)" if t.published else ""),
        )
    ax.set_xlabel("k_multi")
    whole_ticks(ax)
    ax.set_ylabel(MEASURES[measure])
    if measure != "speedup":
        ax.set_yscale("log")
        if measure == "nodes":
            from matplotlib.ticker import FuncFormatter

            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: thousands(v)))
        return
    tops = sorted(
        (max(v.mean for t in trends if t.network == n for v in t.values) for n in networks), reverse=True
    )
    if len(tops) > 1 and tops[1] > 0 and tops[0] > _FAR * tops[1]:
        lowest = min(0.0, *(v.mean - v.error for t in trends for v in t.values))
        _compress(ax, lowest, tops[1], tops[0])


def _compress(ax: Axes, lowest: float, knee: float, top: float) -> None:
    """Compress the values above ``knee`` to a quarter of the height, and note this in the axis label."""
    from matplotlib.ticker import MaxNLocator

    knee = 5.0 * math.ceil(1.1 * knee / 5)
    slope = (knee - lowest) / 3 / (1.08 * top - knee)

    def forward(v: np.ndarray) -> np.ndarray:
        return np.where(v <= knee, v, knee + (v - knee) * slope)

    def back(v: np.ndarray) -> np.ndarray:
        return np.where(v <= knee, v, knee + (v - knee) / slope)

    ax.set_yscale("function", functions=(forward, back))
    ax.set_ylim(lowest - 0.03 * (knee - lowest), 1.08 * top)
    below = [t for t in MaxNLocator(5).tick_values(lowest, knee) if lowest <= t <= knee]
    above = [t for t in MaxNLocator(3).tick_values(knee, top) if knee + 0.1 * (top - knee) < t <= 1.08 * top]
    ax.set_yticks([*below, *above])
    ax.axhline(knee, color=GREY, linewidth=0.9, linestyle=(0, (6, 4)))
    ax.set_ylabel(f"{MEASURES['speedup']} (compressed above {knee:g})")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- speed-up by time ----------------------------------------------------------------------------------
#: Points nearer to each other than this, in pixels, share a label.
_NEAR: Final = 30.0


@dataclass(frozen=True, slots=True)
class Point:
    """The time and the speed-up of a method under one bound, named by ``label`` (``k=1``, ``n=100``)."""

    label: str
    seconds: Estimate
    speedup: Estimate


@dataclass(frozen=True, slots=True)
class Path:
    """The points of a method on a network, by time."""

    network: str
    method: str
    published: bool
    points: tuple[Point, ...]


def trajectory_data(records: Records) -> tuple[Path, ...]:
    """Return one path per network and method; repeats under the same bound are one point.

    The bound of a run is its ``budget``, or its ``k_multi`` if it has no budget.
    """
    frame = records_frame(records, "network", "seconds", "speedup")
    frame = frame[frame["seconds"].notna() & frame["speedup"].notna()]
    frame = frame.assign(bound=[_bound(row) for _, row in frame.iterrows()])
    paths = []
    for (network, method, published), rows in frame.groupby(["network", "method", "published"], sort=False):
        points = []
        for bound, part in rows.groupby("bound", sort=False):
            refuse_mixed(part, f"{method} on {network}")
            points.append(Point(str(bound), estimate(part["seconds"]), estimate(part["speedup"])))
        points.sort(key=lambda p: p.seconds.mean)
        paths.append(Path(str(network), str(method), bool(published), tuple(points)))
    return tuple(paths)


def _bound(row: pd.Series) -> str:
    budget, k = row["budget"], row["k_multi"]
    if isinstance(budget, str):
        return budget
    if budget == budget and budget is not None:
        return f"n={budget:g}"
    return f"k={k:g}" if k == k else ""


def plot_trajectory(
    records: Records, ax: Axes | None = None, *, log: bool = True, until: float | None = None
) -> Axes:
    """Draw speed-up against time, with one marker per network and lines between the points of a method.

    Published points are hollow.

    Args:
        records: The records.
        ax: The axes; by default those of a new figure.
        log: Whether time has a logarithmic scale.
        until: Seconds up to which lines continue horizontally, because a result is not lost later.
    """
    paths = trajectory_data(records)
    with drawing(ax, (6.0, 4.0)) as ax:
        if not paths:
            return say(ax, "no records")
        networks = list(dict.fromkeys(p.network for p in paths))
        methods = list(dict.fromkeys((p.method, p.published) for p in paths))
        ax.grid(axis="x")
        for path in paths:
            i, m = networks.index(path.network), methods.index((path.method, path.published))
            colour, marker = series(i)
            _draw_path(ax, path, colour, marker, DASHES[m % len(DASHES)])
            if until is not None and path.points[-1].seconds.mean < until:
                last, dash = path.points[-1], DASHES[m % len(DASHES)]
                ends = [last.seconds.mean, until], [last.speedup.mean] * 2
                ax.plot(*ends, color=colour, linestyle=dash, linewidth=0.8)
        if log:
            ax.set_xscale("log")
        else:
            longest = max(p.points[-1].seconds.mean for p in paths)
            ax.set_xlim(0, 1.05 * max(longest, until or 0.0))
        ax.margins(x=0.08, y=0.1)
        # The limits of the axes must be final before labels are placed.
        ax.autoscale_view()
        for path in paths:
            _draw_labels(ax, path, series(networks.index(path.network))[0])
        time = "optimiser time in s\n" + wrapped(_sources(records), 80)
        name_axes(ax, "Speed-up reached, by time", time, "speed-up in %", columns=0)
        _legends(ax, networks, methods, {p.method for p in paths if len(p.points) > 1})
    return ax


def _draw_path(ax: Axes, path: Path, colour: str, marker: str, dash: str) -> None:
    x = [p.seconds.mean for p in path.points]
    y = [p.speedup.mean for p in path.points]
    several = any(p.seconds.count > 1 for p in path.points)
    ax.errorbar(
        x,
        y,
        xerr=[p.seconds.error for p in path.points] if several else None,
        yerr=[p.speedup.error for p in path.points] if several else None,
        color=colour,
        marker=marker,
        markersize=6,
        markerfacecolor="white" if path.published else colour,
        linestyle=dash if len(path.points) > 1 else "none",
        linewidth=1.4,
        elinewidth=0.9,
        capsize=2,
    )


def _draw_labels(ax: Axes, path: Path, colour: str) -> None:
    """Label the points; points that are near to each other share a label."""
    if len(path.points) < 2:
        return
    groups: list[list[Point]] = []
    places: list[np.ndarray] = []
    for point in path.points:
        if not point.label:
            continue
        place = ax.transData.transform((point.seconds.mean, point.speedup.mean))
        near = next((k for k, p in enumerate(places) if np.abs(p - place).max() < _NEAR), None)
        if near is None:
            groups.append([point])
            places.append(place)
        else:
            groups[near].append(point)
    for group in groups:
        names = sorted(p.label for p in group)
        first = names[0].partition("=")
        same = all(n.startswith(first[0] + "=") for n in names) and first[1]
        text = ", ".join([names[0], *(n.partition("=")[2] for n in names[1:])] if same else names)
        at = group[0].seconds.mean, max(p.speedup.mean for p in group)
        note(ax, text, at, (4, 5), fontsize=7.5, color=colour)


def _legends(ax: Axes, networks: list[str], methods: list[tuple[str, bool]], connected: set[str]) -> None:
    """Add a legend for the networks' colours and markers, and for the methods' lines and fillings."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=name)
        for name, (colour, marker) in zip(networks, map(series, range(len(networks))), strict=True)
    ]
    handles += [
        Line2D(
            [],
            [],
            color="#222222",
            marker="o",
            markerfacecolor="white" if published else "#222222",
            linestyle=DASHES[m % len(DASHES)] if method in connected else "none",
            label=method + (", published" if published else ""),
        )
        for m, (method, published) in enumerate(methods)
    ]
    legend_beside(ax, handles=handles)


def _sources(records: Records) -> str:
    frame = records_frame(records)
    own = frame[~frame["published"]]
    return "; ".join(dict.fromkeys(f"costs: {s}" for s in own["cost_source"] if s))
