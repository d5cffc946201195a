"""Time of a saturation by iteration, divided among the rules and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from workbench.faces.plots.style import COLOURS, FAINT, GREY, HATCHES, axes_for, paper_style, say, set_title
from workbench.run.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The name of the last part of each bar.
REST = "rebuilding and the rest"


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Seconds by part and iteration: ``seconds[i][j]`` belongs to ``parts[i]`` and ``iterations[j]``.

    Parts are the slowest rules, then ``"N other rules"`` and the rest: rebuilding of the e-graph, and time
    that the engine's clock of whole milliseconds does not attribute. ``told`` is the share of the time that
    is attributed to rules.
    """

    iterations: tuple[int, ...]
    parts: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]
    told: float


def iteration_time_data(trace: Trace, most: int = 6) -> IterationTime:
    """Return the seconds of each iteration by rule, with the ``most`` slowest rules listed separately.

    Without ``profile=True`` a rule that is faster than a millisecond counts towards the rest.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    steps = [s for s in trace if s.index > 0]
    spent: dict[str, list[float]] = {}
    for j, step in enumerate(steps):
        for rule in step.rules:
            if rule.seconds > 0:
                spent.setdefault(rule.rule, [0.0] * len(steps))[j] += rule.seconds
    order = sorted(spent, key=lambda rule: (-sum(spent[rule]), rule))
    parts, rows = list(order[:most]), [tuple(spent[rule]) for rule in order[:most]]
    if order[most:]:
        parts.append(f"{len(order) - most} other rules")
        rows.append(tuple(sum(spent[rule][j] for rule in order[most:]) for j in range(len(steps))))
    named = [sum(row[j] for row in rows) for j in range(len(steps))]
    total = sum(s.seconds for s in steps)
    parts.append(REST)
    # Rules and steps have different clocks, so the rules' sum can exceed their step's time slightly.
    rows.append(tuple(max(0.0, s.seconds - n) for s, n in zip(steps, named, strict=True)))
    told = min(1.0, sum(named) / total) if total > 0 else 0.0
    return IterationTime(tuple(s.index for s in steps), tuple(parts), tuple(rows), told)


def plot_iteration_time(trace: Trace, ax: Axes | None = None, *, most: int = 6) -> Axes:
    """Draw the milliseconds of each iteration as stacked bars of the slowest rules and the rest."""
    data = iteration_time_data(trace, most)
    with paper_style():
        ax = axes_for(ax, (6.0, 3.6))
        if not data.iterations:
            return say(ax, "no iterations recorded")
        bottom = [0.0] * len(data.iterations)
        for k, (part, row) in enumerate(zip(data.parts, data.seconds, strict=True)):
            values = [1000 * v for v in row]
            last = k == len(data.parts) - 1
            ax.bar(
                data.iterations,
                values,
                0.72,
                bottom=bottom,
                color=FAINT if last else GREY if k >= most else COLOURS[k % 7],
                hatch="" if k >= most or last else HATCHES[k % len(HATCHES)],
                edgecolor="white",
                linewidth=0.6,
                label=part,
            )
            bottom = [b + v for b, v in zip(bottom, values, strict=True)]
        note = "" if data.told > 0.5 else f"\n{data.told:.0%} of the time is known by rule (try profile=True)"
        ax.set_xlabel("iteration" + note)
        ax.set_ylabel("milliseconds")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        set_title(ax, "Saturation time by iteration")
        ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax
