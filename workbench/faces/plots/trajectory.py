"""Speed-up against time: the results of methods under different bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.faces.plots.records import Estimate, Records, estimate, records_frame, refuse_mixed
from workbench.faces.plots.style import (
    DASHES,
    drawing,
    legend_beside,
    name_axes,
    note,
    say,
    series,
    wrapped,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
            _draw(ax, path, colour, marker, DASHES[m % len(DASHES)])
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


def _draw(ax: Axes, path: Path, colour: str, marker: str, dash: str) -> None:
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
