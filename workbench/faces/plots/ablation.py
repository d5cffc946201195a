"""Ablation: the cost of the result without each rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.faces.plots.style import (
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    RIM,
    drawing,
    name_axes,
    name_rows,
    note,
    say,
    unit_of,
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
    scale, unit = unit_of(data.original)
    with drawing(ax, (6.4, 1.5 + 0.36 * max(2, len(data.rules)))) as ax:
        if not data.rules:
            return say(ax, "no rule was left out")
        ax.grid(visible=False)
        for i, (_, cost) in enumerate(data.rules):
            needed = abs(cost - data.best) > 1e-9 * data.best
            colour, hatch = (BLUE, "") if needed else (GREY, HATCHES[2])
            ax.barh(i, cost / scale, 0.62, color=colour, hatch=hatch, **RIM)
            said = f"{microseconds(cost)}  {change(data.best, cost)}" if needed else "not needed"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            note(ax, said, (cost / scale, i), (5, 0), va="center", fontsize=8, bbox=box)
        ax.axvline(data.best / scale, color=GREEN, linewidth=1.8, label="with all rules")
        ax.axvline(data.original / scale, color=GREY, linestyle="--", linewidth=1.4, label="original")
        name_rows(ax, [f"without {rule}" for rule, _ in data.rules])
        ax.set_xlim(0, 1.3 * max(data.original, *(cost for _, cost in data.rules)) / scale)
        caution = f"\n{ablation.caution}" if ablation.caution else ""
        name_axes(ax, "Best cost without a rule", f"best cost in {unit}\n{wrapped(data.source)}{caution}")
    return ax
