"""Growth of the e-graph: e-nodes and e-classes by iteration, with the limits of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from workbench.faces.plots.style import (
    BLUE,
    DARK_ORANGE,
    ORANGE,
    VERMILION,
    axes_for,
    legend_above,
    paper_style,
    say,
    set_title,
)
from workbench.run.trace import StepKind, Trace, sizes
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A limit above this multiple of the size is named and not drawn: the curves would look flat.
_FAR = 4
#: Above this ratio of the last size to the first the axis is logarithmic: a linear one would hide the start.
_LOG_RATIO = 30


@dataclass(frozen=True, slots=True)
class Growth:
    """The sizes after each iteration; iteration 0 is the start graph.

    ``cuts`` are the iterations that a limit cut short or undid, each with its reason as a text.
    ``names`` are the names of the two sizes.
    """

    iterations: tuple[int, ...]
    e_nodes: tuple[int, ...]
    e_classes: tuple[int, ...]
    seconds: tuple[float, ...]
    e_node_limit: int | None
    iteration_limit: int | None
    stop_reason: str | None
    cuts: tuple[tuple[int, str], ...]
    names: tuple[str, str] = ("e-nodes", "e-classes")


def growth_data(trace: Trace) -> Growth:
    """Return the sizes by iteration and the limits from a saturation's trace; ``seconds`` are cumulative."""
    elapsed, total = [], 0.0
    for step in trace:
        total += step.seconds
        elapsed.append(total)
    return Growth(
        iterations=tuple(s.index for s in trace),
        e_nodes=tuple(s.e_nodes for s in trace),
        e_classes=tuple(s.e_classes for s in trace),
        seconds=tuple(elapsed),
        e_node_limit=trace.meta.get("e_node_limit"),
        iteration_limit=trace.meta.get("iteration_limit"),
        stop_reason=trace.meta.get("stop_reason"),
        cuts=tuple((s.index, s.note) for s in trace if s.kind is StepKind.CUT),
        names=sizes(trace),
    )


def plot_growth(trace: Trace, ax: Axes | None = None, title: str = "") -> Axes:
    """Draw e-nodes and e-classes by iteration, with the limits as lines.

    The axis is logarithmic if the e-graph grew very much. A limit far above the curve is named, not drawn.
    Without a ``title`` the graph, the stop reason and the seconds are the title.
    """
    data = growth_data(trace)
    with paper_style():
        ax = axes_for(ax, (6.0, 3.6))
        if not data.iterations:
            return say(ax, "no steps recorded")
        ax.plot(
            data.iterations,
            data.e_nodes,
            color=BLUE,
            marker="o",
            label=f"{data.names[0]} ({thousands(data.e_nodes[0])} at the start)",
        )
        ax.plot(
            data.iterations, data.e_classes, color=ORANGE, marker="s", linestyle="--", label=data.names[1]
        )
        _draw_limits(data, ax)
        _label_ends(data, ax)
        _mark_cuts(data, ax)
        limit = "" if data.iteration_limit is None else f" (limit {data.iteration_limit})"
        ax.set_xlabel("iteration" + limit)
        ax.set_ylabel("count")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        set_title(ax, title or _title(trace, data))
        legend_above(ax, 3)
    return ax


def _title(trace: Trace, data: Growth) -> str:
    graph = trace.meta.get("graph", "e-graph")
    stop = f": {data.stop_reason}" if data.stop_reason else ""
    return f"Growth, {graph}{stop} after {data.iterations[-1]} iterations, {data.seconds[-1]:.2f} s"


def _draw_limits(data: Growth, ax: Axes) -> None:
    top, limit = max(data.e_nodes), data.e_node_limit
    together = len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    if top > _LOG_RATIO * max(1, data.e_nodes[0]) or (together and ax.get_yscale() == "log"):
        ax.set_yscale("log")
        low, high = max(1, min(data.e_classes)) / 1.6, 2.2 * top
    else:
        low, high = 0.0, 1.14 * top
    near = limit is not None and limit <= _FAR * top
    if limit is not None and near:
        high = max(high, limit * (2.2 if ax.get_yscale() == "log" else 1.14))
        ax.axhline(limit, color=VERMILION, linestyle=":", linewidth=1.4)
    if together:
        # Axes with a shared scale have shared ticks.
        high = max(high, ax.get_ylim()[1])
        low = min(low, ax.get_ylim()[0]) if ax.get_yscale() == "log" else 0.0
    ax.set_ylim(low, high)
    if limit is not None:
        ax.annotate(
            f"e-node limit {thousands(limit)}{'' if near else ', far above'}",
            (0.01, limit) if near else (0.01, 0.985),
            xycoords=("axes fraction", "data") if near else "axes fraction",
            xytext=(0, 3 if near else 0),
            textcoords="offset points",
            va="bottom" if near else "top",
            color=VERMILION,
            fontsize=9,
        )
    if data.iteration_limit is not None and data.iterations[-1] >= data.iteration_limit:
        ax.axvline(data.iteration_limit, color=VERMILION, linestyle=":", linewidth=1.4)


def _label_ends(data: Growth, ax: Axes) -> None:
    for value, colour in ((data.e_nodes[-1], BLUE), (data.e_classes[-1], DARK_ORANGE)):
        ax.annotate(
            thousands(value),
            (data.iterations[-1], value),
            xytext=(7, 0),
            textcoords="offset points",
            color=colour,
            fontsize=9,
            va="center",
        )
    span = max(1, data.iterations[-1])
    ax.set_xlim(-0.05 * span, 1.16 * span)


def _mark_cuts(data: Growth, ax: Axes) -> None:
    sizes = dict(zip(data.iterations, data.e_nodes, strict=True))
    cut = [i for i, _ in data.cuts]
    if cut:
        ax.plot(cut, [sizes[i] for i in cut], "x", color=VERMILION, markersize=9, label="iteration cut")
