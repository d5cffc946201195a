"""Figures of growing work: time by blocks; speed-up, e-nodes and time by k_multi; speed-up by time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from workbench.faces.plots import style
from workbench.studies.experiments.records import Estimate, Records, estimate, records_frame, refuse_mixed
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# -- blocks and k_multi --------------------------------------------------------------------------------
def scaling_data(records: Records) -> dict[str, pd.DataFrame]:
    """Return means of the records with blocks, by family (and method, if there are several).

    A frame has one row per number of ``blocks``. ``seconds`` covers saturation, reading the e-graph and
    extraction, ``call_seconds`` the whole call, including the engine's start and the certificate. Raise
    ValueError if no record has a number of blocks.
    """
    frame = records_frame(records, "network", "seconds")
    if "blocks" not in frame or frame["blocks"].isna().all():
        raise ValueError("the records must have 'blocks', got none (try a study of kind: branches)")
    frame = frame[frame["blocks"].notna() & frame["seconds"].notna()]
    if "call_seconds" not in frame:
        frame = frame.assign(call_seconds=math.nan)
    several, measured = frame["method"].nunique() > 1, ["seconds", "call_seconds", "nodes"]
    return {
        f"{family}, {method}" if several else str(family): rows.groupby("blocks", as_index=False)[measured]
        .mean()
        .astype(dict.fromkeys(measured, float))
        for (family, method), rows in frame.groupby(["family", "method"], sort=False)
    }


def slope(data: pd.DataFrame) -> float:
    """Return the slope between the two largest numbers of blocks on logarithmic scales, or NaN for one.

    The slope is 1 if time is proportional to the number of blocks. A fit through all of them would be too
    low, because of the constant share in the time of small networks.
    """
    if len(data) < 2:
        return math.nan
    (b0, s0), (b1, s1) = data[["blocks", "seconds"]].tail(2).itertuples(index=False)
    return math.log(s1 / s0) / math.log(b1 / b0)


def plot_scaling(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the optimiser's seconds by blocks on logarithmic scales, with a line of proportional growth.

    Solid lines cover saturation to extraction, with their slopes between the two largest sizes; dotted lines
    cover the whole call.
    """
    data = scaling_data(records)
    with style.drawing(ax, (6.4, 4.0)) as ax:
        if not data:
            return style.say(ax, "no records")
        ax.set_xscale("log")
        ax.set_yscale("log")
        for k, (name, one) in enumerate(data.items()):
            label = f"{name} (slope {slope(one):.2f})" if len(one) > 1 else name
            colour, marker = style.series(k)
            ax.plot(one["blocks"], one["seconds"], marker=marker, color=colour, label=label)
            if one["call_seconds"].notna().any():
                ax.plot(one["blocks"], one["call_seconds"], ":", linewidth=1.2, color=colour)
        sizes = sorted({int(b) for one in data.values() for b in one["blocks"]})
        low = min(one["seconds"].iloc[0] / one["blocks"].iloc[0] for one in data.values())
        line = [low * b for b in sizes]
        ax.plot(sizes, line, "--", color=style.GREY, linewidth=1.2, label="in proportion", zorder=1)
        ax.set_xticks(sizes, [str(b) for b in sizes])
        ax.minorticks_off()
        ax.xaxis.label.set_fontsize(8.5)
        blocks = "\n".join(["blocks", *_notes(list(data.values()), sizes, records)])
        style.name_axes(ax, "Optimiser time by blocks", blocks, "optimiser time in s", columns=3)
    return ax


def _notes(data: Sequence[pd.DataFrame], sizes: Sequence[int], records: Records) -> list[str]:
    """Return notes that explain lines and slopes, then the cost source, the machine and the versions."""
    told = "lines: saturation to extraction"
    if any(one["call_seconds"].notna().any() for one in data):
        told += "; dotted: the whole call, including the engine's start and the certificate"
    if len(sizes) > 1:
        same = len({tuple(one["blocks"].tail(2)) for one in data}) == 1
        ends = f"from {sizes[-2]} to {sizes[-1]} blocks" if same else "between the two largest sizes"
        told += f"\nslopes: {ends}"
    frame = records_frame(records, "network", "seconds")
    made = [
        "; ".join(dict.fromkeys(str(v).partition(";")[0] for v in frame[column] if isinstance(v, str) and v))
        for column in ("cost_source", "hardware", "versions")
        if column in frame
    ]
    return [told, *textwrap.wrap("; ".join(filter(None, made)), 100)]


Measure = Literal["speedup", "nodes", "seconds"]
MEASURES: Final[dict[str, str]] = {
    "speedup": "speed-up in %",
    "nodes": "e-nodes",
    "seconds": "optimiser time in s",
}

#: A network this many times above the next one compresses the axis: otherwise other lines would look flat.
_FAR: Final = 2.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a figure: the points of a network and a method, each a name and estimates over repeats."""

    network: str
    method: str
    published: bool
    points: tuple[tuple[Any, tuple[Estimate, ...]], ...]

    def estimates(self, place: int = 0) -> list[Estimate]:
        """Return one of the estimates of all points."""
        return [found[place] for _, found in self.points]


def _lines(frame: pd.DataFrame, point: str, *columns: str) -> Iterator[Line]:
    """Yield a line per network and method; the rows with one value of ``point`` are repeats of a point."""
    for (network, method, published), rows in frame.groupby(["network", "method", "published"], sort=False):
        points = []
        for value, part in rows.groupby(point, sort=False):
            refuse_mixed(part, f"{method} on {network}")
            points.append((value, tuple(estimate(part[column]) for column in columns)))
        yield Line(str(network), str(method), bool(published), tuple(points))


def k_multi_data(records: Records, measure: Measure = "speedup") -> tuple[Line, ...]:
    """Return one line per network and method, with k_multi ascending and repeats averaged.

    ``measure`` is ``"speedup"``, ``"nodes"`` or ``"seconds"``. Records without k_multi are left out. Methods
    whose names differ only by their k_multi (``ours-k0``, ``ours-k1``) form one line.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    frame = records_frame(records, "network", "k_multi", measure)
    frame = frame[frame["k_multi"].notna() & frame[measure].notna()].astype({"k_multi": int})
    named = zip(frame["method"], frame["k_multi"], strict=True)
    frame = frame.assign(method=[str(m).removesuffix(f"k{k}").rstrip("-_ ") for m, k in named])
    found = _lines(frame, "k_multi", measure)
    return tuple(replace(line, points=tuple(sorted(line.points))) for line in found)


def plot_k_multi_trends(records: Records, figure: Figure | None = None) -> Figure:
    """Draw speed-up, e-nodes and time against k_multi next to each other, with one legend.

    There is one line per network; e-nodes and time are on a logarithmic scale. If one network's speed-up lies
    far above the others', the axis is compressed above the others, and its label notes this.
    """
    with style.paper_style():
        if figure is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(10.0, 3.6), layout="constrained")
        trends: tuple[Line, ...] = ()
        for ax, measure in zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True):
            trends = k_multi_data(records, measure)  # type: ignore[arg-type]
            if trends:
                _draw(ax, trends, measure)
            else:
                style.say(ax, "no records with k_multi")
            style.set_title(ax, MEASURES[measure].partition(" in ")[0].capitalize())
        if trends:
            handles, labels = ax.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(7, len(labels)), fontsize=9)
    return figure


def _draw(ax: Axes, trends: Sequence[Line], measure: str) -> None:
    networks = list(dict.fromkeys(t.network for t in trends))
    methods = list(dict.fromkeys((t.method, t.published) for t in trends))
    for t in trends:
        i, m = networks.index(t.network), methods.index((t.method, t.published))
        colour, marker = style.series(i)
        name = t.network if len(methods) == 1 or not t.method else f"{t.network}, {t.method}"
        values = t.estimates()
        ax.errorbar(
            [k for k, _ in t.points],
            [v.mean for v in values],
            yerr=[v.error for v in values] if any(v.error for v in values) else None,
            color=colour,
            marker=marker,
            markerfacecolor="white" if t.published else None,
            linestyle=style.DASHES[m % len(style.DASHES)],
            capsize=2.5,
            elinewidth=1.0,
            label=name + (" (published)" if t.published else ""),
        )
    ax.set_xlabel("k_multi")
    style.whole_ticks(ax)
    ax.set_ylabel(MEASURES[measure])
    if measure != "speedup":
        ax.set_yscale("log")
        if measure == "nodes":
            from matplotlib.ticker import FuncFormatter

            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: thousands(v)))
        return
    highest = {n: max(v.mean for t in trends if t.network == n for v in t.estimates()) for n in networks}
    tops = sorted(highest.values(), reverse=True)
    if len(tops) > 1 and tops[1] > 0 and tops[0] > _FAR * tops[1]:
        lowest = min(0.0, *(v.mean - v.error for t in trends for v in t.estimates()))
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
    ax.axhline(knee, color=style.GREY, linewidth=0.9, linestyle=(0, (6, 4)))
    ax.set_ylabel(f"{MEASURES['speedup']} (compressed above {knee:g})")


# -- speed-up by time ----------------------------------------------------------------------------------
#: Points nearer to each other than this, in pixels, share a label.
_NEAR: Final = 30.0


def trajectory_data(records: Records) -> tuple[Line, ...]:
    """Return one line per network and method by time; its points have seconds and speed-up.

    Repeats under one bound are one point. It has the name of the bound (``k=1``, ``n=100``): the ``budget``
    of a run, or its ``k_multi`` if it has no budget.
    """
    frame = records_frame(records, "network", "seconds", "speedup")
    frame = frame[frame["seconds"].notna() & frame["speedup"].notna()]
    frame = frame.assign(bound=[_bound(row) for _, row in frame.iterrows()])
    lines = _lines(frame, "bound", "seconds", "speedup")
    return tuple(replace(y, points=tuple(sorted(y.points, key=lambda p: p[1][0].mean))) for y in lines)


def _bound(row: pd.Series) -> str:
    budget, k = row["budget"], row["k_multi"]
    if isinstance(budget, str):
        return budget
    if budget == budget and budget is not None:
        return f"n={budget:g}"
    return f"k={k:g}" if k == k else ""


def plot_trajectory(records: Records, ax: Axes | None = None) -> Axes:
    """Draw speed-up against time: one marker per network, hollow if published, lines between points of a method."""
    paths = trajectory_data(records)
    with style.drawing(ax, (6.0, 4.0)) as ax:
        if not paths:
            return style.say(ax, "no records")
        networks = list(dict.fromkeys(p.network for p in paths))
        methods = list(dict.fromkeys((p.method, p.published) for p in paths))
        ax.grid(axis="x")
        for path in paths:
            i, m = networks.index(path.network), methods.index((path.method, path.published))
            colour, marker = style.series(i)
            _draw_path(ax, path, colour, marker, style.DASHES[m % len(style.DASHES)])
        ax.set_xscale("log")
        ax.margins(x=0.08, y=0.1)
        # The limits of the axes must be final before labels are placed.
        ax.autoscale_view()
        for path in paths:
            _draw_labels(ax, path, style.series(networks.index(path.network))[0])
        frame = records_frame(records)
        costs = dict.fromkeys(f"costs: {s}" for s in frame[~frame["published"]]["cost_source"] if s)
        time = "optimiser time in s\n" + style.wrapped("; ".join(costs), 80)
        style.name_axes(ax, "Speed-up reached, by time", time, "speed-up in %", columns=0)
        _legends(ax, networks, methods, {p.method for p in paths if len(p.points) > 1})
    return ax


def _draw_path(ax: Axes, path: Line, colour: str, marker: str, dash: str) -> None:
    x, y = path.estimates(0), path.estimates(1)
    several = any(v.count > 1 for v in x)
    ax.errorbar(
        [v.mean for v in x],
        [v.mean for v in y],
        xerr=[v.error for v in x] if several else None,
        yerr=[v.error for v in y] if several else None,
        color=colour,
        marker=marker,
        markersize=6,
        markerfacecolor="white" if path.published else colour,
        linestyle=dash if len(path.points) > 1 else "none",
        linewidth=1.4,
        elinewidth=0.9,
        capsize=2,
    )


def _draw_labels(ax: Axes, path: Line, colour: str) -> None:
    """Label the points; points that are near to each other share a label."""
    if len(path.points) < 2:
        return
    groups: list[tuple[np.ndarray, list[tuple[str, float, float]]]] = []
    for name, (seconds, speedup) in path.points:
        if name:
            place = ax.transData.transform((seconds.mean, speedup.mean))
            near = next((group for at, group in groups if np.abs(at - place).max() < _NEAR), [])
            if not near:
                groups.append((place, near))
            near.append((name, seconds.mean, speedup.mean))
    for _, group in groups:
        names = sorted(name for name, _, _ in group)
        first = names[0].partition("=")
        same = all(n.startswith(first[0] + "=") for n in names) and first[1]
        text = ", ".join([names[0], *(n.partition("=")[2] for n in names[1:])] if same else names)
        at = group[0][1], max(y for _, _, y in group)
        style.note(ax, text, at, (4, 5), fontsize=7.5, color=colour)


def _legends(ax: Axes, networks: list[str], methods: list[tuple[str, bool]], connected: set[str]) -> None:
    """Add a legend for the networks' colours and markers, and for the methods' lines and fillings."""
    from matplotlib.lines import Line2D

    handles = []
    for i, name in enumerate(networks):
        colour, marker = style.series(i)
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=name))
    for m, (method, published) in enumerate(methods):
        dash: Any = style.DASHES[m % len(style.DASHES)] if method in connected else "none"
        label, face = (f"{method}, published", "white") if published else (method, style.INK)
        dot: Any = {"color": style.INK, "marker": "o", "markerfacecolor": face}
        handles.append(Line2D([], [], linestyle=dash, label=label, **dot))
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), handles=handles)
