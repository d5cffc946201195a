"""Latency of networks in several forms: the speed-up over the original, by network, on one target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.faces.plots import style
from workbench.studies.experiments.records import geometric_mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The names of the forms other than rivals.
ORIGINAL, BY_HAND, OURS = "original", "by hand", "ours"

#: Part of the distance between two networks that points fill.
_FILLED: Final = 0.78
#: Least distance of a speed-up from 1 at which its value is written next to its points.
_SAID: Final = 0.03

#: Markers of rivals, which are hollow, and colours and markers of the workbench's results by method.
_RIVALS: Final = ("o", "s", "^", "v")
_OURS: Final = ((style.BLUE, "D"), (style.GREEN, "P"), (style.PURPLE, "X"), (style.VERMILION, "*"))

_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0)
_FINE_TICKS: Final = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5)

_KEY: Final = (
    "one point per run, with its 95 % interval within that run; numbers: geometric means of the runs"
)

#: The names of targets in titles.
CALLED: Final = {
    "onnxruntime": "ONNX Runtime",
    "torch": "torch, call by call",
    "torch+compile": "torch.compile",
    "torch:cuda": "torch on the GPU, call by call",
    "torch:cuda+graph": "torch on the GPU, as a CUDA graph",
    "torch:cuda+compile": "torch.compile on the GPU",
    "torch:cuda+compile+graph": "torch.compile on the GPU, as a CUDA graph",
    "onnxruntime:cuda": "ONNX Runtime on the GPU",
    "onnxruntime:cuda+graph": "ONNX Runtime on the GPU, as a CUDA graph",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A speed-up over the original in one run, with its 95 % interval.

    The interval comes from the rounds of that run; the interval of another run may differ.
    """

    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LatencySeries:
    """The speed-ups of one form over the original, by network and run."""

    label: str
    form: str
    runs: tuple[tuple[Measured, ...], ...]

    @property
    def speedups(self) -> tuple[float, ...]:
        """Return the geometric means of the runs by network, or NaN for a network without runs."""
        return tuple(geometric_mean(r.speedup for r in runs) or math.nan for runs in self.runs)

    @property
    def lows(self) -> tuple[float, ...]:
        """Return the lowest end of the runs' intervals, by network."""
        return tuple(min((r.low for r in runs), default=math.nan) for runs in self.runs)

    @property
    def highs(self) -> tuple[float, ...]:
        """Return the highest end of the runs' intervals, by network."""
        return tuple(max((r.high for r in runs), default=math.nan) for runs in self.runs)

    def agree(self, i: int) -> bool:
        """Return whether the intervals of all runs of network ``i`` have a common point."""
        runs = self.runs[i]
        return not runs or max(r.low for r in runs) <= min(r.high for r in runs)

    def mean(self) -> float:
        """Return the geometric mean over the networks, or NaN if there are none."""
        return geometric_mean(self.speedups) or math.nan


@dataclass(frozen=True, slots=True)
class Latencies:
    """The series of one target; ``title`` names the runtime that ran the networks."""

    networks: tuple[str, ...]
    series: tuple[LatencySeries, ...]
    title: str


def latency_data(frame: pd.DataFrame, target: str = "onnxruntime") -> Latencies:
    """Return the speed-ups of timings (:func:`workbench.results.latency`) on a target, one series per form.

    The workbench's results have one series per method. The other forms (rivals, merged by hand) are the same
    graphs for all methods, so that their series have the runs of all methods. Raise ValueError for a target
    without timings.
    """
    known = list(dict.fromkeys(frame["target"]))
    if target not in known:
        raise ValueError(
            f"target must have timings, got {target!r}. There are: {', '.join(known) or 'no timings'}"
        )
    rows = frame[frame["target"] == target]
    title = "; ".join(_titles(rows)) or target
    rows = rows[rows["speedup"].notna() & (rows["form"] != ORIGINAL)]
    networks = tuple(dict.fromkeys(rows["network"].astype(str)))
    methods = list(dict.fromkeys(rows["method"].astype(str)))
    forms = list(dict.fromkeys(rows["form"].astype(str)))
    found = []
    last = (BY_HAND, OURS)
    for form in sorted(forms, key=lambda f: last.index(f) + 1 if f in last else 0):
        part = rows[rows["form"] == form]
        for method in methods if form == OURS and len(methods) > 1 else [None]:
            own = part if method is None else part[part["method"] == method]
            versions = dict.fromkeys(str(v) for v in own["version"] if isinstance(v, str) and v)
            label = " ".join([form, *versions]) if method is None else f"{form}, {method}"
            runs: dict[str, list[Measured]] = {network: [] for network in networks}
            columns = own[["network", "speedup", "speedup_low", "speedup_high"]]
            for network, *speedups in columns.itertuples(index=False):
                runs[str(network)].append(Measured(*map(float, speedups)))
            found.append(LatencySeries(label, form, tuple(map(tuple, runs.values()))))
    return Latencies(networks, tuple(found), title)


def _titles(rows: pd.DataFrame) -> list[str]:
    """Return the runtimes of the networks, with the machine if the runtime's title does not name it."""
    found: dict[str, None] = {}
    for title, hardware in zip(rows["title"], rows["hardware"], strict=True):
        known = [part for part in str(hardware or "").split(", ") if part and part not in str(title)]
        if title:
            found[", ".join([str(title), *(known if len(known) > 1 else [])])] = None
    return list(found)


def plot_latency(frame: pd.DataFrame, ax: Axes | None = None, *, target: str = "onnxruntime") -> Axes:
    """Draw the speed-up over the original by network on a logarithmic scale, one point per run.

    Each point has its 95 % interval. The geometric mean of the runs is written next to the points if it
    differs from 1 by 3 % or more.
    """
    data = latency_data(frame, target)
    size = max(5.0, min(11.0, 1.4 + len(data.networks) * (0.3 + 0.16 * len(data.series)))), 4.0
    with style.drawing(ax, size) as ax:
        if not data.series:
            return style.say(ax, "nothing was timed")
        ax.set_yscale("log")
        ax.axhline(1, color=style.INK, linewidth=0.9, zorder=1)
        for i in range(0, len(data.networks), 2):
            ax.axvspan(i - 0.5, i + 0.5, color=style.FAINT, alpha=0.3, linewidth=0, zorder=0)
        width = _FILLED / len(data.series)
        for k, (one, look) in enumerate(zip(data.series, _styles(data.series), strict=True)):
            _draw(ax, -_FILLED / 2 + (k + 0.5) * width, width, one, look)
        _limit(ax, data)
        style.name_columns(ax, data.networks)
        ax.set_xlim(-0.5, len(data.networks) - 0.5)
        ax.xaxis.label.set_fontsize(8.5)
        title = f"Speed-up in {CALLED.get(target, target)}"
        style.name_axes(ax, title, f"{data.title}\n{_KEY}", "times as fast as the original", columns=6)
    return ax


def _draw(ax: Axes, at: float, width: float, one: LatencySeries, look: Mapping[str, Any]) -> None:
    """Draw a series ``at`` a distance from its networks, the runs of one network side by side within ``width``."""
    points = [
        (i + at + 0.6 * width * ((j + 0.5) / len(runs) - 0.5), run.speedup, run.low, run.high)
        for i, runs in enumerate(one.runs)
        for j, run in enumerate(runs)
    ]
    x, y, low, high = np.reshape(points, (-1, 4)).T
    ends = np.maximum(0.0, (y - low, high - y))
    ax.errorbar(x, y, yerr=ends, linestyle="none", elinewidth=0.9, label=one.label, **look)
    for i, v in enumerate(one.speedups):
        if not abs(v - 1) >= _SAID:
            continue
        end, offset, side = (one.highs[i], 4, "bottom") if v >= 1 else (one.lows[i], -4, "top")
        text: Any = {"ha": "center", "va": side, "fontsize": 7.5, "rotation": 90, "color": style.INK}
        style.note(ax, f"{v:.2f}", (i + at, end), (0, offset), **text)


def _styles(series: Sequence[LatencySeries]) -> list[dict[str, Any]]:
    rivals, ours = cycle(_RIVALS), cycle(_OURS)
    styles: list[dict[str, Any]] = []
    for one in series:
        if one.form in (BY_HAND, OURS):
            colour, marker = (style.ORANGE, "s") if one.form == BY_HAND else next(ours)
            styles.append({"color": colour, "marker": marker, "markersize": 4.0})
        else:
            hollow = {"markersize": 3.6, "markerfacecolor": "white"}
            styles.append({"color": style.GREY, "marker": next(rivals), **hollow})
    return styles


def _limit(ax: Axes, data: Latencies) -> None:
    """Extend the axis for the numbers above the points, and set ticks at round numbers."""
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
