"""Ablation: the cost of the result without each rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.faces.plots.style import (
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    axes_for,
    legend_above,
    paper_style,
    say,
    set_title,
    wrapped,
)
from workbench.support.formatting import change, microseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.studies.analysis.ablation import Ablation


@dataclass(frozen=True, slots=True)
class Losses:
    """Costs in microseconds: of the original, of the best graph, and without each rule, costliest first."""

    original: float
    best: float
    rules: tuple[tuple[str, float], ...]
    source: str


def ablation_data(ablation: Ablation, most: int = 20) -> Losses:
    """Return the costs without each of the ``most`` most needed rules; raise ValueError before any run."""
    if ablation.best is None:
        raise ValueError("the ablation must have begun, got no result yet (try run())")
    rows = sorted(ablation.rows, key=lambda r: (-r.cost, r.rule))[:most]
    best = ablation.best
    return Losses(best.cost_before, best.cost_after, tuple((r.rule, r.cost) for r in rows), best.cost_source)


def plot_ablation(ablation: Ablation, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Draw the best cost without each rule as bars, with lines for the best graph and the original."""
    data = ablation_data(ablation, most)
    scale, unit = (1000.0, "ms") if data.original >= 10_000 else (1.0, "µs")
    with paper_style():
        ax = axes_for(ax, (6.4, 1.5 + 0.36 * max(2, len(data.rules))))
        if not data.rules:
            return say(ax, "no rule was left out")
        ax.grid(visible=False)
        for i, (_, cost) in enumerate(data.rules):
            needed = abs(cost - data.best) > 1e-9 * data.best
            ax.barh(
                i,
                cost / scale,
                0.62,
                color=BLUE if needed else GREY,
                hatch="" if needed else HATCHES[2],
                edgecolor="white",
                linewidth=0.6,
            )
            ax.annotate(
                f"{microseconds(cost)}  {change(data.best, cost)}" if needed else "not needed",
                (cost / scale, i),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )
        ax.axvline(data.best / scale, color=GREEN, linewidth=1.8, label="with all rules")
        ax.axvline(data.original / scale, color=GREY, linestyle="--", linewidth=1.4, label="original")
        ax.set_yticks(range(len(data.rules)), [f"without {rule}" for rule, _ in data.rules])
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.3 * max(data.original, *(cost for _, cost in data.rules)) / scale)
        note = f"\n{ablation.caution}" if ablation.caution else ""
        ax.set_xlabel(f"best cost in {unit}\n{wrapped(data.source)}{note}")
        set_title(ax, "Best cost without a rule")
        legend_above(ax)
    return ax
