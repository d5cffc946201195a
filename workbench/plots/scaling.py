"""How the optimiser's time grows with the blocks of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.plots.records import Records, records_frame
from workbench.plots.style import COLOURS, GREY, MARKERS, axes_for, legend_above, paper_style, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Growing:
    """Hold the optimiser's seconds of one family of networks by their blocks.

    ``exponent`` is the slope on logarithmic scales, by least squares: 1 where time is proportional to the
    blocks; NaN with fewer than two sizes.
    """

    label: str
    blocks: tuple[int, ...]
    seconds: tuple[float, ...]
    e_nodes: tuple[float, ...]
    exponent: float


def scaling_data(records: Records) -> tuple[Growing, ...]:
    """Return a series for every family (and method, where there are several) of records with blocks.

    Repeats are put together by their mean. Raise ValueError where no record says its blocks.
    """
    frame = records_frame(records, "network", "seconds")
    if "blocks" not in frame or frame["blocks"].isna().all():
        raise ValueError("the records have no 'blocks': they are of a study of branches (kind: branches)")
    frame = frame[frame["blocks"].notna() & frame["seconds"].notna()]
    several = frame["method"].nunique() > 1
    found = []
    for (family, method), rows in frame.groupby(["family", "method"], sort=False):
        means = rows.groupby("blocks")[["seconds", "nodes"]].mean()
        found.append(
            Growing(
                f"{family}, {method}" if several else str(family),
                tuple(int(b) for b in means.index),
                tuple(means["seconds"].astype(float)),
                tuple(means["nodes"].astype(float)),
                _exponent(means.index, means["seconds"]),
            )
        )
    return tuple(found)


def _exponent(blocks: Iterable[float], seconds: Iterable[float]) -> float:
    x, y = (np.log(np.array([float(v) for v in values])) for values in (blocks, seconds))
    return float(np.polyfit(x, y, 1)[0]) if x.size > 1 else math.nan


def plot_scaling(records: Records, ax: Axes | None = None) -> Axes:
    """Draw the optimiser's seconds by blocks on logarithmic scales, beside a line of proportional growth."""
    data = scaling_data(records)
    with paper_style():
        ax = axes_for(ax, (6.4, 4.0))
        if not data:
            return say(ax, "no records")
        ax.set_xscale("log")
        ax.set_yscale("log")
        for k, one in enumerate(data):
            slope = f" (exponent {one.exponent:.2f})" if one.exponent == one.exponent else ""
            ax.plot(
                one.blocks,
                one.seconds,
                marker=MARKERS[k % len(MARKERS)],
                color=COLOURS[k % len(COLOURS)],
                label=f"{one.label}{slope}",
            )
        sizes = sorted({b for one in data for b in one.blocks})
        low = min(one.seconds[0] / one.blocks[0] for one in data)
        ax.plot(
            sizes, [low * b for b in sizes], "--", color=GREY, linewidth=1.2, label="in proportion", zorder=1
        )
        ax.set_xticks(sizes, [str(b) for b in sizes])
        ax.minorticks_off()
        ax.set_xlabel("blocks")
        ax.set_ylabel("optimiser time in s")
        ax.set_title("Optimiser time by blocks")
        legend_above(ax, 3)
    return ax
