"""Cost by operator before and after, by iteration, without each rule, and the gap of an extraction to its bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workbench.faces.plots.bars import figure
from workbench.faces.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    HATCHES,
    INK,
    RIM,
    drawing,
    name_axes,
    name_rows,
    note,
    say,
    unit_of,
    whole_ticks,
    wrapped,
)
from workbench.run.trace import StepKind, Trace, cost_unit
from workbench.support.formatting import change, gain, microseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.studies.analysis.ablation import Ablation


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in microseconds and their source.

    ``operators`` has (operator, before, after), the costliest first; the last entry may be ``"N others"``,
    the sum of the remaining operators. ``curve`` has (iteration, cost), and ``curve_is`` is its name: a
    greedy estimate, or the best that was found. ``after_is`` is the name of ``after``.
    """

    before: float
    after: float
    source: str
    bound: float | None
    operators: tuple[tuple[str, float, float], ...]
    curve: tuple[tuple[int, float], ...]
    curve_is: str = "best known"
    after_is: str = "extracted"


def cost_data(trace: Trace, most: int = 8) -> Costs:
    """Return the costs in a trace; raise ValueError if it has none.

    At most ``most`` operators are listed; the others are added up.
    """
    meta = trace.meta
    if "cost_before" not in meta or "cost_after" not in meta:
        raise ValueError(
            "the trace must have both cost_before and cost_after, got no costs (try workbench.optimize)"
        )
    by_operator: Mapping[str, Mapping[str, float]] = meta.get("operator_costs", {})
    before, after = by_operator.get("before", {}), by_operator.get("after", {})
    names = sorted(
        {n for n in (*before, *after) if before.get(n, 0) or after.get(n, 0)},
        key=lambda n: (-max(before.get(n, 0.0), after.get(n, 0.0)), n),
    )
    rows = [(n, float(before.get(n, 0.0)), float(after.get(n, 0.0))) for n in names]
    if len(rows) > most:
        rest = rows[most - 1 :]
        others = f"{len(rest)} others"
        rows = [*rows[: most - 1], (others, sum(r[1] for r in rest), sum(r[2] for r in rest))]
    return Costs(
        before=float(meta["cost_before"]),
        after=float(meta["cost_after"]),
        source=str(meta.get("cost_source", "unknown source")),
        bound=meta.get("cost_bound"),
        operators=tuple(rows),
        curve=tuple((s.index, float(s.cost)) for s in trace if s.cost is not None),
        curve_is=str(meta.get("cost_curve", "best known")),
        after_is=str(meta.get("cost_after_is", "extracted")),
    )


def plot_cost_bars(trace: Trace, ax: Axes | None = None, *, most: int = 8) -> Axes:
    """Draw the cost before and after by operator, with the totals in the title."""
    data = cost_data(trace, most)
    rows = data.operators or (("all", data.before, data.after),)
    scale, unit = unit_of(data.before)
    with drawing(ax, (6.0, 1.2 + 0.42 * len(rows))) as ax:
        ax.grid(visible=False)
        ax.grid(axis="x")
        for i, (_, before, after) in enumerate(rows):
            ax.barh(i - 0.2, before / scale, 0.36, color=GREY, label="before" if i == 0 else None)
            ax.barh(i + 0.2, after / scale, 0.36, color=BLUE, label="after" if i == 0 else None)
            for offset, value in ((-0.2, before), (0.2, after)):
                said = figure(value / scale) if value else "0"
                note(ax, said, (value / scale, i + offset), (3, 0), va="center", fontsize=8)
        name_rows(ax, [name for name, _, _ in rows])
        ax.margins(x=0.12)
        said = f"cost in {unit}\n{wrapped(data.source)}"
        name_axes(ax, f"Cost: {gain(data.before, data.after)}", said, columns=0)
        ax.legend(loc="lower right")
    return ax


def plot_cost_curve(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cost by iteration, with the original's and the result's cost and the proven bound."""
    data = cost_data(trace)
    points = data.curve or ((0, data.before), (max(1, len(trace) - 1), data.after))
    steps, costs = zip(*points, strict=True)
    scale, unit = unit_of(data.before)
    lowest = min(*costs, data.after, data.bound if data.bound is not None else data.after)
    span = max(data.before, *costs) - lowest or 0.02 * data.before or 1.0
    with drawing(ax, (6.0, 3.6)) as ax:
        values = [c / scale for c in costs]
        ax.fill_between(steps, values, data.before / scale, step="post", color=FAINT, alpha=0.6, linewidth=0)
        ax.step(steps, values, where="post", color=BLUE, marker="o", label=data.curve_is)
        ax.axhline(data.before / scale, color=GREY, linestyle="--", linewidth=1.4, label="original")
        if data.bound is not None:
            ax.axhline(data.bound / scale, color=GREEN, linestyle=":", linewidth=1.8, label="proven bound")
        result = data.after_is if data.after < data.before else "result: the original"
        ax.plot([steps[-1]], [data.after / scale], "D", color=INK, markersize=6, label=result)
        ax.set_ylim((lowest - 0.12 * span) / scale, (lowest + 1.12 * span) / scale)
        whole_ticks(ax)
        source = f"iteration\ncosts {wrapped(data.source)}"
        name_axes(ax, "Cost by iteration", source, f"cost in {unit}")
    return ax


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
    with drawing(ax, (6.0, 3.4)) as ax:
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
            note(ax, name, (moment, cost), (5, 5), fontsize=8)
        known = [b for b in data.bounds if b > 0] or [0.0]
        span = max(costs) - min(known) or max(costs) or 1.0
        ax.set_ylim(max(0.0, min(known) - 0.12 * span), max(costs) + 0.2 * span)
        ax.set_xlim(0.0, times[-1])
        name_axes(ax, _title(data, unit), "seconds", f"cost in {unit}" if unit else "cost")
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
