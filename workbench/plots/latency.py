"""Latency of networks in several forms: the speed-up over the original, by network, on one target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from workbench.plots.bars import FILLED
from workbench.plots.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    axes_for,
    legend_above,
    paper_style,
    say,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: What the forms are called that are not rivals.
ORIGINAL, BY_HAND, OURS = "original", "by hand", "ours"

#: How bars are filled: rivals' hatched on white, merged by hand in one colour, ours in others by method.
_RIVALS: Final = ("////", "\\\\\\\\", "||||", "----")
_OURS: Final = ((BLUE, ""), (SKY, "...."), (GREEN, "xxx"), (PURPLE, "oo"))

_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0)
_FINE_TICKS: Final = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5)

#: What targets are called in a title.
_CALLED: Final = {
    "onnxruntime": "ONNX Runtime",
    "torch": "torch, operator by operator",
    "torch+compile": "torch.compile",
    "torch:cuda": "torch on the GPU, operator by operator",
    "torch:cuda+graph": "torch on the GPU, as a CUDA graph",
    "torch:cuda+compile": "torch.compile on the GPU",
}


@dataclass(frozen=True, slots=True)
class LatencySeries:
    """Hold the speed-ups of one form over the original, by network, NaN where it was not timed.

    ``lows`` and ``highs`` are the ends of the intervals that hold them with 95 %.
    """

    label: str
    form: str
    speedups: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Hold the series of one target; ``title`` says what ran the networks."""

    networks: tuple[str, ...]
    series: tuple[LatencySeries, ...]
    title: str


def latency_data(frame: pd.DataFrame, target: str = "onnxruntime") -> Latencies:
    """Return the speed-ups of timings (:func:`workbench.results.latency`) on a target, one series a form.

    Ours is a series for each method. What was timed in several runs has the geometric mean of their
    speed-ups, and the widest of their intervals. Raise ValueError for a target that no run has.
    """
    known = list(dict.fromkeys(frame["target"]))
    if target not in known:
        raise ValueError(f"nothing was timed on {target!r}; there are: {', '.join(known) or 'no timings'}")
    rows = frame[frame["target"] == target]
    title = next((str(t) for t in rows["title"] if t), target)
    rows = rows[rows["speedup"].notna() & (rows["form"] != ORIGINAL)]
    networks = tuple(dict.fromkeys(rows["network"].astype(str)))
    methods = list(dict.fromkeys(rows["method"].astype(str)))
    forms = list(dict.fromkeys(rows["form"].astype(str)))
    found = []
    for form in [
        *(f for f in forms if f not in (BY_HAND, OURS)),
        *(f for f in (BY_HAND, OURS) if f in forms),
    ]:
        part = rows[rows["form"] == form]
        for method in methods if form == OURS and len(methods) > 1 else [None]:
            own = part if method is None else part[part["method"] == method]
            label = form if method is None else f"{form}, {method}"
            found.append(_series(label, form, own, networks))
    return Latencies(networks, tuple(found), title)


def _series(label: str, form: str, rows: pd.DataFrame, networks: Sequence[str]) -> LatencySeries:
    cells = [rows[rows["network"] == network] for network in networks]
    means = [math.exp(sum(map(math.log, c["speedup"])) / len(c)) if len(c) else math.nan for c in cells]
    lows, highs = (
        [float(c["speedup_low"].min()) for c in cells],
        [float(c["speedup_high"].max()) for c in cells],
    )
    return LatencySeries(label, form, tuple(means), tuple(lows), tuple(highs))


def plot_latency(frame: pd.DataFrame, ax: Axes | None = None, *, target: str = "onnxruntime") -> Axes:
    """Draw the speed-up over the original by network, as bars from 1 on a logarithmic scale."""
    data = latency_data(frame, target)
    with paper_style():
        size = max(5.0, min(13.0, 1.4 + len(data.networks) * (0.3 + 0.2 * len(data.series)))), 4.0
        ax = axes_for(ax, size)
        if not data.series:
            return say(ax, "nothing was timed")
        ax.set_yscale("log")
        width = FILLED / len(data.series)
        for k, (one, style) in enumerate(zip(data.series, _styles(data.series), strict=True)):
            at = [i - FILLED / 2 + (k + 0.5) * width for i in range(len(data.networks))]
            _draw(ax, at, one, 0.9 * width, style)
        ax.axhline(1, color=INK, linewidth=0.9)
        _limit(ax, data)
        slanted: Mapping[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(data.networks)), data.networks, **(slanted if len(data.networks) > 5 else {}))
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(data.networks) - 0.4)
        ax.set_ylabel("times as fast as the original")
        ax.set_xlabel(f"{data.title}; lines: 95 % intervals", fontsize=8.5)
        ax.set_title(f"Speed-up in {_CALLED.get(target, target)}")
        legend_above(ax, 6)
    return ax


def _draw(ax: Axes, at: Sequence[float], one: LatencySeries, width: float, style: Mapping[str, Any]) -> None:
    there = [i for i, v in enumerate(one.speedups) if v == v]
    values = [one.speedups[i] for i in there]
    ax.bar(
        [at[i] for i in there],
        [v - 1 for v in values],
        width,
        bottom=1,
        yerr=(
            [max(0.0, v - one.lows[i]) for i, v in zip(there, values, strict=True)],
            [max(0.0, one.highs[i] - v) for i, v in zip(there, values, strict=True)],
        ),
        error_kw={"elinewidth": 0.9, "capsize": 1.8, "ecolor": INK},
        linewidth=0.8,
        label=one.label,
        **style,
    )
    for i, v in zip(there, values, strict=True):
        ax.annotate(
            f"{v:.2f}",
            (at[i], max(one.highs[i], v) if v >= 1 else min(one.lows[i], v)),
            xytext=(0, 3 if v >= 1 else -3),
            textcoords="offset points",
            ha="center",
            va="bottom" if v >= 1 else "top",
            fontsize=7.5,
            rotation=90,
            color=INK if one.form in (BY_HAND, OURS) else GREY,
        )


def _styles(series: Sequence[LatencySeries]) -> list[dict[str, Any]]:
    styles: list[dict[str, Any]] = []
    rivals = ours = 0
    for one in series:
        if one.form == BY_HAND:
            styles.append({"facecolor": ORANGE, "edgecolor": ORANGE})
        elif one.form == OURS:
            colour, hatch = _OURS[ours % len(_OURS)]
            ours += 1
            styles.append({"facecolor": colour, "edgecolor": "white" if hatch else colour, "hatch": hatch})
        else:
            styles.append({"facecolor": "white", "edgecolor": GREY, "hatch": _RIVALS[rivals % len(_RIVALS)]})
            rivals += 1
    return styles


def _limit(ax: Axes, data: Latencies) -> None:
    """Leave room for the figures above the bars, and put ticks at round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ends = [v for s in data.series for v in (*s.lows, *s.highs) if v == v]
    low, high = min(0.97, *ends), max(1.03, *ends)
    reach = high / low
    ax.set_ylim(low / reach**0.16, high * reach**0.26)
    bottom, top = ax.get_ylim()
    ticks = [t for t in (_TICKS if reach > 2.5 else _FINE_TICKS) if bottom <= t <= top]
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
