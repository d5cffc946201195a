"""Scaling: the optimiser's time against the number of blocks of a network."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.faces.plots.records import Records, records_frame
from workbench.faces.plots.style import GREY, axes_for, legend_above, paper_style, say, series, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    with paper_style():
        ax = axes_for(ax, (6.4, 4.0))
        if not data:
            return say(ax, "no records")
        ax.set_xscale("log")
        ax.set_yscale("log")
        for k, one in enumerate(data):
            slope = f" (slope {one.slope:.2f})" if one.slope == one.slope else ""
            colour, marker = series(k)
            style: dict[str, Any] = {"color": colour}
            ax.plot(
                one.blocks,
                one.seconds,
                marker=marker,
                label=f"{one.label}{slope}",
                **style,
            )
            if any(v == v for v in one.whole):
                ax.plot(one.blocks, one.whole, ":", linewidth=1.2, **style)
        sizes = sorted({b for one in data for b in one.blocks})
        low = min(one.seconds[0] / one.blocks[0] for one in data)
        ax.plot(
            sizes, [low * b for b in sizes], "--", color=GREY, linewidth=1.2, label="in proportion", zorder=1
        )
        ax.set_xticks(sizes, [str(b) for b in sizes])
        ax.minorticks_off()
        ax.set_xlabel("\n".join(["blocks", *_notes(data, sizes, records)]))
        ax.xaxis.label.set_fontsize(8.5)
        ax.set_ylabel("optimiser time in s")
        set_title(ax, "Optimiser time by blocks")
        legend_above(ax, 3)
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
