"""Grouped bars of several methods, shared by the figures of speed-up, time and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.patheffects import withStroke

from workbench.faces.plots.records import Series
from workbench.faces.plots.style import COLOURS, HATCHES, PUBLISHED_HATCHES
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The part of the width of a network that its bars fill.
FILLED = 0.82


def bar_styles(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return the fill style of each series: workbench runs in colour, published ones hatched on white."""
    styles: list[dict[str, Any]] = []
    ours = others = 0
    for one in series:
        if one.published:
            colour, hatch = COLOURS[-1 - others % 2], PUBLISHED_HATCHES[others % len(PUBLISHED_HATCHES)]
            others += 1
            styles.append({"facecolor": "white", "edgecolor": colour, "hatch": hatch})
        else:
            colour, hatch = COLOURS[ours % 6], HATCHES[ours % len(HATCHES)]
            ours += 1
            styles.append({"facecolor": colour, "edgecolor": "white" if hatch else colour, "hatch": hatch})
    return styles


def figure(value: float) -> str:
    """Return a number with three significant digits, and without an exponent from 1000 to a million.

    >>> figure(0.04567), figure(9.5), figure(226.4), figure(1140.3)
    ('0.0457', '9.5', '226', '1\u202f140')
    """
    return thousands(value) if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def bar_size(networks: int, series: int) -> tuple[float, float]:
    """Return the size in inches that keeps the bars of this many networks and series readable."""
    return max(4.0, min(12.0, 1.4 + networks * (0.34 + 0.3 * series))), 3.6


def turned(networks: Sequence[str], series: Sequence[Series]) -> bool:
    """Return whether the values are written vertically, because there are many bars."""
    return len(series) > 2 and len(networks) > 4


def draw_bars(
    ax: Axes,
    networks: Sequence[str],
    series: Sequence[Series],
    *,
    places: int | None = None,
    floor: float = 0.0,
) -> None:
    """Draw one group of bars per network, with standard errors and the values above the bars.

    Args:
        ax: The axes.
        networks: The names of the networks.
        series: The series; each has one value per network.
        places: Decimal places of the values; by default three significant digits.
        floor: The least height of a bar, for logarithmic axes; 0 for none.
    """
    width = FILLED / max(1, len(series))
    for k, (one, style) in enumerate(zip(series, bar_styles(series), strict=True)):
        at = [i - FILLED / 2 + (k + 0.5) * width for i in range(len(networks))]
        there = [(x, v) for x, v in zip(at, one.values, strict=True) if v.count]
        ax.bar(
            [x for x, _ in there],
            [max(v.mean, floor) if floor else v.mean for _, v in there],
            0.92 * width,
            yerr=[v.error for _, v in there] if any(v.error for _, v in there) else None,
            error_kw={"elinewidth": 1.0, "capsize": 2.5, "ecolor": "#222222"},
            linewidth=0.8,
            label=one.label,
            **style,
        )
        for x, v in there:
            ax.annotate(
                figure(v.mean) if places is None else f"{v.mean:.{places}f}",
                (x, v.mean + v.error if v.mean >= 0 else v.mean - v.error),
                xytext=(0, 3 if v.mean >= 0 else -3),
                textcoords="offset points",
                ha="center",
                va="bottom" if v.mean >= 0 else "top",
                fontsize=7.5,
                rotation=90 if turned(networks, series) else 0,
                path_effects=[withStroke(linewidth=2.5, foreground="white")],
                zorder=5,
            )
    crowded = len(networks) > 5
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    ax.set_xticks(range(len(networks)), networks, **slanted)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(networks) - 0.4)
