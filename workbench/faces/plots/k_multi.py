"""Speed-up, e-nodes and time against k_multi, the number of iterations with multi-pattern rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from workbench.faces.plots.records import Estimate, Records, estimate, records_frame, refuse_mixed
from workbench.faces.plots.style import (
    DASHES,
    GREY,
    axes_for,
    legend_above,
    paper_style,
    say,
    series,
    set_title,
)
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    with paper_style():
        ax = axes_for(ax, (4.6, 3.6))
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
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel(MEASURES[measure])
    if measure != "speedup":
        ax.set_yscale("log")
        if measure == "nodes":
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
