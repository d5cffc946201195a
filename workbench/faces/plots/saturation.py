"""Figures of a saturation by iteration: growth of the e-graph, time, and the activity of each rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.faces.plots import style
from workbench.run.trace import StepKind, Trace, by_rule, sizes
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


#: A limit above this multiple of the size is named and not drawn: the curves would look flat.
_FAR = 4
#: Above this ratio of the last size to the first the axis is logarithmic: a linear one would hide the start.
_LOG_RATIO = 30


def plot_growth(trace: Trace, ax: Axes | None = None, title: str = "") -> Axes:
    """Draw e-nodes and e-classes by iteration, with the limits as lines.

    The axis is logarithmic if the e-graph grew very much. A limit far above the curve is named, not drawn.
    Without a ``title`` the graph, the stop reason and the seconds are the title.
    """
    data, names = trace.frame(), sizes(trace)
    with style.drawing(ax, (6.0, 3.6)) as ax:
        if data.empty:
            return style.say(ax, "no steps recorded")
        last = data.iloc[-1]
        made = f"{names[0]} ({thousands(data['e_nodes'].iloc[0])} at the start)"
        ax.plot(data["step"], data["e_nodes"], color=style.BLUE, marker="o", label=made)
        ax.plot(data["step"], data["e_classes"], "--s", color=style.ORANGE, label=names[1])
        _draw_limits(data, trace.meta, ax)
        for value, colour in ((last["e_nodes"], style.BLUE), (last["e_classes"], style.DARK_ORANGE)):
            at = (last["step"], value)
            style.note(ax, thousands(value), at, (7, 0), color=colour, fontsize=9, va="center")
        span = max(1, last["step"])
        ax.set_xlim(-0.05 * span, 1.16 * span)
        cut = data[data["kind"] == StepKind.CUT.value]
        if len(cut):
            marked = cut["step"], cut["e_nodes"]
            ax.plot(*marked, "x", color=style.VERMILION, markersize=9, label="iteration cut")
        most = trace.meta.get("iteration_limit")
        limit = "" if most is None else f" (limit {most})"
        style.whole_ticks(ax)
        graph, reason = trace.meta.get("graph", "e-graph"), trace.meta.get("stop_reason")
        stop = f": {reason}" if reason else ""
        said = f"Growth, {graph}{stop} after {last['step']} iterations, {last['elapsed']:.2f} s"
        style.name_axes(ax, title or said, "iteration" + limit, "count", columns=3)
    return ax


def _draw_limits(data: pd.DataFrame, meta: Mapping[str, Any], ax: Axes) -> None:
    top, limit = data["e_nodes"].max(), meta.get("e_node_limit")
    together = len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    if top > _LOG_RATIO * max(1, data["e_nodes"].iloc[0]) or (together and ax.get_yscale() == "log"):
        ax.set_yscale("log")
        low, high = max(1, data["e_classes"].min()) / 1.6, 2.2 * top
    else:
        low, high = 0.0, 1.14 * top
    line: Any = {"color": style.VERMILION, "linestyle": ":", "linewidth": 1.4}
    near = limit is not None and limit <= _FAR * top
    if limit is not None and near:
        high = max(high, limit * (2.2 if ax.get_yscale() == "log" else 1.14))
        ax.axhline(limit, **line)
    if together:
        # Axes with a shared scale have shared ticks.
        high = max(high, ax.get_ylim()[1])
        low = min(low, ax.get_ylim()[0]) if ax.get_yscale() == "log" else 0.0
    ax.set_ylim(low, high)
    if limit is not None:
        said, look = f"e-node limit {thousands(limit)}", {"color": style.VERMILION, "fontsize": 9}
        if near:
            style.note(
                ax, said, (0.01, limit), (0, 3), xycoords=("axes fraction", "data"), va="bottom", **look
            )
        else:
            said += ", far above"
            style.note(ax, said, (0.01, 0.985), (0, 0), xycoords="axes fraction", va="top", **look)
    most = meta.get("iteration_limit")
    if most is not None and data["step"].iloc[-1] >= most:
        ax.axvline(most, **line)


#: Limits on rules and on columns: a longer run is drawn in blocks of iterations.
MOST_RULES: Final = 16
MOST_COLUMNS: Final = 30


@dataclass(frozen=True, slots=True, eq=False)
class Firing:
    """E-nodes by rule and iteration: ``counts[i, j]`` belongs to ``rules[i]`` and ``iterations[j]``.

    In a long run each column covers ``block`` iterations, of which ``iterations[j]`` is the first.
    ``left_out`` is the number of less active rules that are not among ``rules``, and ``left_out_count`` the
    sum of their counts.
    """

    rules: tuple[str, ...]
    iterations: tuple[int, ...]
    counts: np.ndarray
    left_out: int
    left_out_count: int
    block: int = 1


def firing_data(trace: Trace) -> Firing:
    """Return the e-nodes that rules made and that exist at the end, the most active first, at most MOST_RULES."""
    steps = [s for s in trace if s.index > 0]
    block = max(1, -(-len(steps) // MOST_COLUMNS))
    iterations = tuple(s.index for s in steps)[::block]
    rows = by_rule(steps, attrgetter("e_nodes"))
    counts = np.array(list(rows.values()), np.int64).reshape(len(rows), len(steps))
    if block > 1:
        counts = np.add.reduceat(counts, range(0, len(steps), block), axis=1)
    rules, left = tuple(rows)[:MOST_RULES], counts[MOST_RULES:]
    return Firing(rules, iterations, counts[:MOST_RULES], len(left), int(left.sum()), block)


def firing_size(data: Firing) -> tuple[float, float]:
    """Return the size in inches at which the numbers in all cells are readable."""
    return 3.4 + 0.52 * max(4, len(data.iterations)), 1.3 + 0.27 * max(3, len(data.rules))


def plot_firing(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw a heat map of e-nodes by rules and iterations with numbers; darker is more, on a logarithmic scale."""
    data = firing_data(trace)
    with style.drawing(ax, firing_size(data)) as ax:
        ax.grid(visible=False)
        made = sizes(trace)[0]
        style.set_title(ax, f"Rule firing: {f'{made} made' if made == 'e-nodes' else made} by iteration")
        if not data.rules:
            return style.say(ax, "no rule fired")
        shade = np.log1p(data.counts.astype(float))
        shade = np.ma.masked_equal(shade, 0) / max(float(shade.max()), 1e-9)
        ax.imshow(shade, cmap="Blues", vmin=-0.12, vmax=1.15, aspect="auto", interpolation="nearest")
        for (i, j), count in np.ndenumerate(data.counts):
            if count:
                colour = "white" if shade[i, j] > 0.62 else style.INK_ON_COLOUR
                ax.text(j, i, _short(int(count)), ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(data.iterations)), [str(i) for i in data.iterations])
        ax.set_yticks(range(len(data.rules)), data.rules, fontsize=9)
        ax.tick_params(length=0)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.set_xticks(np.arange(-0.5, len(data.iterations)), minor=True)
        ax.set_yticks(np.arange(-0.5, len(data.rules)), minor=True)
        ax.grid(which="minor", axis="both", color="white", linewidth=2)
        ax.tick_params(which="minor", length=0)
        more = f"  ({data.left_out} more rules: {thousands(data.left_out_count)})" if data.left_out else ""
        blocks = f", {data.block} at a time" if data.block > 1 else ""
        ax.set_xlabel("iteration" + blocks + more)
    return ax


def _short(count: int) -> str:
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"
