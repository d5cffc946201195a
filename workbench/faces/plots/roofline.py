"""Operators under the roof of a machine: what each attains of the least time that its work needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.faces.plots.style import BLUE, FAINT, GREY, INK, drawing, name_axes, note, say, wrapped
from workbench.support.formatting import microseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.studies.devices.floors import Floors

#: The number of operators that are named: those that lose the most time.
NAMED: Final = 4


def plot_roofline(floors: Floors, ax: Axes | None = None) -> Axes:
    """Draw the operators before and after by FLOP per byte and rate; the area of a point is its share of the time.

    The roof is the machine's measured peak and the bandwidth of its caches. Operators without arithmetic
    have no rate: the title of the axis has their time. The operators that lose most against the roof are named.
    """
    rows = floors.frame()
    drawn = rows[(rows["flop"] > 0) & (rows["cost"] > 0)]
    with drawing(ax, (6.4, 4.0)) as ax:
        if drawn.empty:
            return say(ax, "no operator has arithmetic")
        drawn = drawn.assign(
            intensity=drawn["flop"] / drawn["bytes"],
            rate=drawn["flop"] / drawn["cost"] / 1e3,
            lost=drawn["cost"] - drawn["least"],
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(visible=True, axis="both", color=FAINT, linewidth=0.6)
        peak = floors.peak
        low, high = drawn["intensity"].min() / 2, drawn["intensity"].max() * 2
        x = np.geomspace(low, max(high, 4 * peak.flops / peak.bandwidth), 200)
        for bandwidth, line, name in (
            (peak.cache_bandwidth, "-", "roof: peak, caches"),
            (peak.bandwidth, ":", "from memory"),
        ):
            y = np.minimum(peak.flops, x * bandwidth) / 1e9
            ax.plot(x, y, line, color=INK, linewidth=1.3, label=name)
        for graph, colour, filled in (("before", GREY, False), ("after", BLUE, True)):
            part = drawn[drawn["graph"] == graph]
            area = 12 + 500 * part["cost"] / max(part["cost"].sum(), 1e-9)
            face = colour if filled else "none"
            ax.scatter(
                part["intensity"],
                part["rate"],
                area,
                facecolors=face,
                edgecolors=colour,
                alpha=0.7,
                label=graph,
            )
        worst = drawn[drawn["graph"] == "after"].nlargest(NAMED, "lost").drop_duplicates("operator")
        for name, intensity, rate in zip(worst["operator"], worst["intensity"], worst["rate"], strict=True):
            note(ax, str(name), (float(intensity), float(rate)), (6, -10), fontsize=8)
        moved = rows[(rows["graph"] == "after") & (rows["flop"] == 0)]["cost"].sum()
        extra = f"; {microseconds(moved)} without arithmetic" if moved > 0 else ""
        name_axes(ax, "Operators under the roof", f"FLOP per byte{extra}\n{wrapped(peak.machine)}", "Gflop/s")
        ax.legend(loc="lower right")
    return ax
