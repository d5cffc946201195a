"""The gap of an extraction: best cost and proven bound over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workbench.faces.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    axes_for,
    legend_above,
    paper_style,
    say,
    set_title,
)
from workbench.run.trace import StepKind, Trace, cost_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKED: Final = (StepKind.ORIGINAL, StepKind.TREE, StepKind.DAG, StepKind.LOCAL_SEARCH)


@dataclass(frozen=True, slots=True)
class Gap:
    """The best cost and the bound at the end of each step, by seconds since the start.

    ``marks`` are the steps before any solver: seconds, cost, name.
    ``formulas`` counts the loop formulas that the solvers worked with in the end.
    """

    seconds: tuple[float, ...]
    costs: tuple[float, ...]
    bounds: tuple[float, ...]
    marks: tuple[tuple[float, float, str], ...]
    formulas: int

    @property
    def gap(self) -> float:
        """Return the relative distance between bound and cost at the end."""
        if not self.costs or self.costs[-1] <= 0:
            return 0.0
        return max(0.0, (self.costs[-1] - self.bounds[-1]) / self.costs[-1])


def gap_data(trace: Trace) -> Gap:
    """Return cost and bound over time from the trace of an extraction."""
    seconds: list[float] = []
    costs: list[float] = []
    bounds: list[float] = []
    marks: list[tuple[float, float, str]] = []
    elapsed, bound, formulas = 0.0, 0.0, 0
    for step in trace:
        elapsed += step.seconds
        if step.cost is None:
            continue
        bound = max(bound, step.bound or 0.0)
        seconds.append(elapsed)
        costs.append(step.cost)
        bounds.append(min(bound, step.cost))
        formulas += sum(r.matches for r in step.rules if r.rule == "loop formulas")
        if step.kind in _MARKED:
            marks.append((elapsed, step.cost, step.kind.value))
    return Gap(tuple(seconds), tuple(costs), tuple(bounds), tuple(marks), formulas)


def plot_gap(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the best cost and the proven bound over time; the optimum lies in the shaded part."""
    data, unit = gap_data(trace), cost_unit(trace)
    with paper_style():
        ax = axes_for(ax, (6.0, 3.4))
        if not data.costs:
            return say(ax, "no costs recorded")
        end = data.seconds[-1]
        times = [0.0, *data.seconds, end * 1.02 or 1.0]
        costs = [data.costs[0], *data.costs, data.costs[-1]]
        bounds = [0.0, *data.bounds, data.bounds[-1]]
        ax.fill_between(times, bounds, costs, step="post", color=FAINT, alpha=0.6, linewidth=0)
        ax.step(times, costs, where="post", color=BLUE, label="best cost")
        ax.step(times, bounds, where="post", color=GREEN, linestyle="--", label="proven bound")
        for moment, cost, name in _distinct(data.marks, end):
            ax.plot([moment], [cost], "o", color=INK, markersize=4)
            ax.annotate(name, (moment, cost), xytext=(5, 5), textcoords="offset points", fontsize=8)
        known = [b for b in data.bounds if b > 0] or [0.0]
        span = max(costs) - min(known) or max(costs) or 1.0
        ax.set_ylim(max(0.0, min(known) - 0.12 * span), max(costs) + 0.2 * span)
        ax.set_xlim(0.0, times[-1])
        ax.set_xlabel("seconds")
        ax.set_ylabel(f"cost in {unit}" if unit else "cost")
        set_title(ax, _title(data, unit))
        legend_above(ax)
    return ax


def _distinct(marks: tuple[tuple[float, float, str], ...], end: float) -> list[tuple[float, float, str]]:
    """Return the marks; marks that would overlap become one with all their names."""
    found: list[tuple[float, float, str]] = []
    for moment, cost, name in marks:
        if found and found[-1][1] == cost and moment - found[-1][0] < 0.05 * end:
            found[-1] = (*found[-1][:2], f"{found[-1][2]}, {name}")
        else:
            found.append((moment, cost, name))
    return found


def _title(data: Gap, unit: str) -> str:
    state = "optimal" if data.gap <= 1e-6 else f"gap {data.gap:.2%}"
    formulas = f", {data.formulas} loop formulas" if data.formulas else ""
    return f"Extraction: {f'{data.costs[-1]:.6g} {unit}'.rstrip()}, {state}{formulas}"
