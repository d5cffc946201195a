"""Cost by operator, by iteration, without each rule, under the roof; the gap of an extraction; cycles of a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.faces.plots import style
from workbench.faces.plots.bars import figure
from workbench.run.trace import StepKind, Trace, cost_unit
from workbench.support.formatting import change, gain, microseconds, thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from workbench.kernels.accelerators import Layer, Placement
    from workbench.studies.analysis.ablation import Ablation
    from workbench.studies.devices.floors import Floors


#: Limits on operators, and on rules that are left out one by one.
MOST_OPERATORS: Final = 8
MOST_RULES: Final = 20


def _totals(trace: Trace) -> tuple[float, float, str]:
    """Return the costs before and after in a trace, and their source; raise ValueError if it has none."""
    meta = trace.meta
    if not {"cost_before", "cost_after"} <= meta.keys():
        raise ValueError(
            "the trace must have both cost_before and cost_after, got no costs (try workbench.optimize)"
        )
    source = str(meta.get("cost_source", "unknown source"))
    return float(meta["cost_before"]), float(meta["cost_after"]), source


def operator_costs(trace: Trace) -> list[tuple[str, float, float]]:
    """Return operators with their costs before and after in a trace, the costliest first.

    At most MOST_OPERATORS are listed; the others are added up as ``"N others"``.
    """
    by_operator: Mapping[str, Mapping[str, float]] = trace.meta.get("operator_costs", {})
    before, after = by_operator.get("before", {}), by_operator.get("after", {})
    rows = [(n, float(before.get(n, 0.0)), float(after.get(n, 0.0))) for n in {**before, **after}]
    rows = sorted((r for r in rows if r[1] or r[2]), key=lambda r: (-max(r[1:]), r[0]))
    rest = rows[MOST_OPERATORS - 1 :]
    if len(rest) > 1:
        others = (f"{len(rest)} others", sum(r[1] for r in rest), sum(r[2] for r in rest))
        rows = [*rows[: MOST_OPERATORS - 1], others]
    return rows


def plot_cost_bars(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cost before and after by operator, with the totals in the title."""
    whole, left, source = _totals(trace)
    rows = operator_costs(trace) or [("all", whole, left)]
    scale, unit = style.unit_of(whole)
    with style.drawing(ax, (6.0, 1.2 + 0.42 * len(rows))) as ax:
        ax.grid(visible=False)
        ax.grid(axis="x")
        for i, (_, before, after) in enumerate(rows):
            ax.barh(i - 0.2, before / scale, 0.36, color=style.GREY, label="before" if i == 0 else None)
            ax.barh(i + 0.2, after / scale, 0.36, color=style.BLUE, label="after" if i == 0 else None)
            for offset, value in ((-0.2, before), (0.2, after)):
                said = figure(value / scale) if value else "0"
                style.note(ax, said, (value / scale, i + offset), (3, 0), va="center", fontsize=8)
        style.name_rows(ax, [name for name, _, _ in rows])
        ax.margins(x=0.12)
        below = f"cost in {unit}\n{style.wrapped(source)}"
        style.name_axes(ax, f"Cost: {gain(whole, left)}", below, columns=0)
        ax.legend(loc="lower right")
    return ax


def plot_cost_curve(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cost by iteration, with the original's and the result's cost and the proven bound."""
    before, after, source = _totals(trace)
    bound = trace.meta.get("cost_bound")
    points = [(s.index, float(s.cost)) for s in trace if s.cost is not None]
    steps, costs = zip(*(points or [(0, before), (max(1, len(trace) - 1), after)]), strict=True)
    scale, unit = style.unit_of(before)
    lowest = min(*costs, after, bound if bound is not None else after)
    span = max(before, *costs) - lowest or 0.02 * before or 1.0
    with style.drawing(ax, (6.0, 3.6)) as ax:
        values, name = [c / scale for c in costs], str(trace.meta.get("cost_curve", "best known"))
        ax.fill_between(steps, values, before / scale, step="post", color=style.FAINT, alpha=0.6, linewidth=0)
        ax.step(steps, values, where="post", color=style.BLUE, marker="o", label=name)
        ax.axhline(before / scale, color=style.GREY, linestyle="--", linewidth=1.4, label="original")
        if bound is not None:
            ax.axhline(bound / scale, color=style.GREEN, linestyle=":", linewidth=1.8, label="proven bound")
        found = str(trace.meta.get("cost_after_is", "extracted"))
        result = found if after < before else "result: the original"
        ax.plot([steps[-1]], [after / scale], "D", color=style.INK, markersize=6, label=result)
        ax.set_ylim((lowest - 0.12 * span) / scale, (lowest + 1.12 * span) / scale)
        style.whole_ticks(ax)
        below = f"iteration\ncosts {style.wrapped(source)}"
        style.name_axes(ax, "Cost by iteration", below, f"cost in {unit}")
    return ax


#: The steps of an extraction before any solver.
_MARKED: Final = [k.value for k in (StepKind.ORIGINAL, StepKind.TREE, StepKind.DAG, StepKind.LOCAL_SEARCH)]


def plot_gap(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the best cost and the proven bound over time; the optimum lies in the shaded part."""
    data, unit = trace.frame().dropna(subset="cost"), cost_unit(trace)
    with style.drawing(ax, (6.0, 3.4)) as ax:
        if data.empty:
            return style.say(ax, "no costs recorded")
        cost, end = data["cost"].astype(float), data["elapsed"].iloc[-1]
        bound = data["bound"].astype(float).fillna(0.0).clip(lower=0.0).cummax().clip(upper=cost)
        times = [0.0, *data["elapsed"], end * 1.02 or 1.0]
        costs, bounds = [cost.iloc[0], *cost, cost.iloc[-1]], [0.0, *bound, bound.iloc[-1]]
        ax.fill_between(times, bounds, costs, step="post", color=style.FAINT, alpha=0.6, linewidth=0)
        ax.step(times, costs, where="post", color=style.BLUE, label="best cost")
        ax.step(times, bounds, where="post", color=style.GREEN, linestyle="--", label="proven bound")
        for moment, value, name in _distinct(data[data["kind"].isin(_MARKED)], end):
            ax.plot([moment], [value], "o", color=style.INK, markersize=4)
            style.note(ax, name, (moment, value), (5, 5), fontsize=8)
        known = [b for b in bound if b > 0] or [0.0]
        span = max(costs) - min(known) or max(costs) or 1.0
        ax.set_ylim(max(0.0, min(known) - 0.12 * span), max(costs) + 0.2 * span)
        ax.set_xlim(0.0, times[-1])
        gap = max(0.0, (costs[-1] - bounds[-1]) / costs[-1]) if costs[-1] > 0 else 0.0
        state = "optimal" if gap <= 1e-6 else f"gap {gap:.2%}"
        priced = (s for s in trace if s.cost is not None)
        loops = sum(r.matches for s in priced for r in s.rules if r.rule == "loop formulas")
        title = f"Extraction: {f'{costs[-1]:.6g} {unit}'.rstrip()}, {state}"
        title += f", {loops} loop formulas" if loops else ""
        style.name_axes(ax, title, "seconds", f"cost in {unit}" if unit else "cost")
    return ax


def _distinct(marks: pd.DataFrame, end: float) -> list[tuple[float, float, str]]:
    """Return time, cost and name of steps; steps that would overlap become one with all their names."""
    found: list[tuple[float, float, str]] = []
    for moment, cost, name in zip(marks["elapsed"], marks["cost"], marks["kind"], strict=True):
        if found and found[-1][1] == cost and moment - found[-1][0] < 0.05 * end:
            found[-1] = (*found[-1][:2], f"{found[-1][2]}, {name}")
        else:
            found.append((moment, cost, name))
    return found


def plot_ablation(ablation: Ablation, ax: Axes | None = None) -> Axes:
    """Draw the best cost without each of the MOST_RULES most needed rules as bars.

    Lines are the costs of the best graph and of the original. Raise ValueError before any run.
    """
    best = ablation.best
    if best is None:
        raise ValueError("the ablation must have begun, got no result yet (try run())")
    rows = ablation.frame()[["rule", "cost"]].head(MOST_RULES)
    scale, unit = style.unit_of(best.cost_before)
    with style.drawing(ax, (6.4, 1.5 + 0.36 * max(2, len(rows)))) as ax:
        if rows.empty:
            return style.say(ax, "no rule was left out")
        ax.grid(visible=False)
        for i, cost in enumerate(rows["cost"]):
            needed = abs(cost - best.cost_after) > 1e-9 * best.cost_after
            colour, hatch = (style.BLUE, "") if needed else (style.GREY, style.HATCHES[2])
            ax.barh(i, cost / scale, 0.62, color=colour, hatch=hatch, **style.RIM)
            said = f"{microseconds(cost)}  {change(best.cost_after, cost)}" if needed else "not needed"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            style.note(ax, said, (cost / scale, i), (5, 0), va="center", fontsize=8, bbox=box)
        ax.axvline(best.cost_after / scale, color=style.GREEN, linewidth=1.8, label="with all rules")
        dashed: Any = {"color": style.GREY, "linestyle": "--", "linewidth": 1.4}
        ax.axvline(best.cost_before / scale, label="original", **dashed)
        style.name_rows(ax, [f"without {rule}" for rule in rows["rule"]])
        ax.set_xlim(0, 1.3 * max(best.cost_before, *rows["cost"]) / scale)
        below = [f"best cost in {unit}", style.wrapped(best.cost_source), ablation.caution]
        style.name_axes(ax, "Best cost without a rule", "\n".join(filter(None, below)))
    return ax


# -- operators under the roof of a machine -----------------------------------------------------------------
#: The number of operators that are named: those that lose the most time.
NAMED: Final = 4


def plot_roofline(floors: Floors, ax: Axes | None = None) -> Axes:
    """Draw the operators before and after by FLOP per byte and rate; the area of a point is its share of the time.

    The roof is the machine's measured peak and the bandwidth of its caches. Operators without arithmetic
    have no rate: the title of the axis has their time. The operators that lose most against the roof are named.
    """
    rows = floors.frame()
    drawn = rows[(rows["flop"] > 0) & (rows["cost"] > 0)]
    with style.drawing(ax, (6.4, 4.0)) as ax:
        if drawn.empty:
            return style.say(ax, "no operator has arithmetic")
        intensity, rate = drawn["flop"] / drawn["bytes"], drawn["flop"] / drawn["cost"] / 1e3
        drawn = drawn.assign(intensity=intensity, rate=rate, lost=drawn["cost"] - drawn["least"])
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(visible=True, axis="both", color=style.FAINT, linewidth=0.6)
        peak = floors.peak
        low, high = drawn["intensity"].min() / 2, drawn["intensity"].max() * 2
        x = np.geomspace(low, max(high, 4 * peak.flops / peak.bandwidth), 200)
        caches = peak.cache_bandwidth, "-", "roof: peak, caches"
        for bandwidth, line, name in (caches, (peak.bandwidth, ":", "from memory")):
            y = np.minimum(peak.flops, x * bandwidth) / 1e9
            ax.plot(x, y, line, color=style.INK, linewidth=1.3, label=name)
        for graph, colour, filled in (("before", style.GREY, False), ("after", style.BLUE, True)):
            part = drawn[drawn["graph"] == graph]
            area = 12 + 500 * part["cost"] / max(part["cost"].sum(), 1e-9)
            look: Any = {"facecolors": colour if filled else "none", "edgecolors": colour, "alpha": 0.7}
            ax.scatter(part["intensity"], part["rate"], area, label=graph, **look)
        worst = drawn[drawn["graph"] == "after"].nlargest(NAMED, "lost").drop_duplicates("operator")
        for name, intensity, rate in zip(worst["operator"], worst["intensity"], worst["rate"], strict=True):
            style.note(ax, str(name), (float(intensity), float(rate)), (6, -10), fontsize=8)
        moved = rows[(rows["graph"] == "after") & (rows["flop"] == 0)]["cost"].sum()
        extra = f"; {microseconds(moved)} without arithmetic" if moved > 0 else ""
        below = f"FLOP per byte{extra}\n{style.wrapped(peak.machine)}"
        style.name_axes(ax, "Operators under the roof", below, "Gflop/s")
        ax.legend(loc="lower right")
    return ax


# -- accelerators -----------------------------------------------------------------------------------------
def accelerator_size(placement: Placement) -> tuple[float, float]:
    """Return the size in inches at which the layers' names are readable."""
    return 7.0, max(2.0, 0.9 + 0.22 * len(placement.layers))


def plot_accelerator_cycles(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the cycles of every product on the unit next to those that memory needs."""
    layers = placement.layers
    with style.drawing(ax, accelerator_size(placement)) as ax:
        memory = {"color": style.FAINT, "edgecolor": style.GREY, "hatch": "////", "label": "memory"}
        done = {"color": style.BLUE, "label": "loads and calls"}
        cycles, needed = [y.tiling.cycles for y in layers], [y.price.memory for y in layers]
        _pairs(ax, layers, (cycles, done), (needed, memory))
        total = f"cycles ({thousands(round(placement.cycles))} of loads and calls in all)"
        style.name_axes(ax, f"{placement.unit.name}: cycles by product", total)
    return ax


def plot_accelerator_use(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the use of the multipliers and the waste by filling zeros of every product."""
    layers = placement.layers
    with style.drawing(ax, accelerator_size(placement)) as ax:
        used, zeros = [y.tiling.utilisation for y in layers], [y.tiling.waste for y in layers]
        waste = {"color": style.VERMILION, "hatch": "....", "label": "zeros that fill"}
        _pairs(ax, layers, (used, {"color": style.BLUE, "label": "multipliers used"}), (zeros, waste))
        ax.set_xlim(0, 1)
        title = f"{placement.unit.name}: {placement.utilisation:.0%} used, {placement.waste:.0%} zeros"
        style.name_axes(ax, title, "part of all multiplications possible; part of those done")
    return ax


def _pairs(ax: Axes, layers: Sequence[Layer], *bars: tuple[Sequence[float], Mapping[str, Any]]) -> None:
    """Draw two bars for each product, each with a look of its own."""
    for offset, (widths, look) in zip((-0.2, 0.2), bars, strict=True):
        ax.barh([p + offset for p in range(len(layers))], widths, 0.4, **look)
    ax.set_yticks(range(len(layers)), [layer.name for layer in layers], fontsize=8)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
