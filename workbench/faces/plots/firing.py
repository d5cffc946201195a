"""Rule firing: the activity of each rule in each iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from workbench.faces.plots.style import INK_ON_COLOUR, axes_for, paper_style, say, set_title
from workbench.run.trace import Trace, sizes
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measure = Literal["matches", "e_nodes"]
_MEASURES = ("matches", "e_nodes")
#: Limit on columns: a longer run is drawn in blocks of iterations.
MOST_COLUMNS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Firing:
    """Counts by rule and iteration: ``counts[i, j]`` belongs to ``rules[i]`` and ``iterations[j]``.

    In a long run each column covers ``block`` iterations, of which ``iterations[j]`` is the first.
    ``left_out`` is the number of less active rules that are not among ``rules``, and ``left_out_count`` the
    sum of their counts.
    """

    rules: tuple[str, ...]
    iterations: tuple[int, ...]
    counts: np.ndarray
    measure: Measure
    left_out: int
    left_out_count: int
    block: int = 1


def firing_data(trace: Trace, measure: Measure = "e_nodes", most: int = 16) -> Firing:
    """Return the counts of at most ``most`` rules, the most active first; inactive rules are left out.

    ``measure`` is ``"matches"`` or ``"e_nodes"`` (those that the rule made and that exist at the end).
    """
    if measure not in _MEASURES:
        raise ValueError(f"measure must be one of {', '.join(_MEASURES)}, got {measure!r}")
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    every = [s.index for s in trace if s.index > 0]
    block = max(1, -(-len(every) // MOST_COLUMNS))
    iterations = tuple(every[::block])
    column = {index: j // block for j, index in enumerate(every)}
    rows: dict[str, np.ndarray] = {}
    for step in trace:
        for record in step.rules:
            count = record.matches if measure == "matches" else record.e_nodes
            if count and step.index in column:
                row = rows.setdefault(record.rule, np.zeros(len(iterations), dtype=np.int64))
                row[column[step.index]] += count
    order = sorted(rows, key=lambda rule: (-int(rows[rule].sum()), rule))
    shown, rest = order[:most], order[most:]
    counts = np.array([rows[rule] for rule in shown]) if shown else np.zeros((0, len(iterations)), np.int64)
    return Firing(
        tuple(shown),
        iterations,
        counts,
        measure,
        len(rest),
        int(sum(int(rows[r].sum()) for r in rest)),
        block,
    )


def firing_size(data: Firing) -> tuple[float, float]:
    """Return the size in inches at which the numbers in all cells are readable."""
    return 3.4 + 0.52 * max(4, len(data.iterations)), 1.3 + 0.27 * max(3, len(data.rules))


def plot_firing(
    trace: Trace, ax: Axes | None = None, *, measure: Measure = "e_nodes", most: int = 16
) -> Axes:
    """Draw a heat map of rules by iterations with numbers; darker is more, on a logarithmic scale.

    Args:
        trace: The trace of a saturation.
        ax: The axes; by default those of a new figure.
        measure: ``"matches"`` or ``"e_nodes"``.
        most: Limit on the number of rules.
    """
    data = firing_data(trace, measure, most)
    with paper_style():
        ax = axes_for(ax, firing_size(data))
        ax.grid(visible=False)
        made = sizes(trace)[0]
        what = "matches" if measure == "matches" else f"{made} made" if made == "e-nodes" else made
        set_title(ax, f"Rule firing: {what} by iteration")
        if not data.rules:
            return say(ax, "no rule fired")
        shade = np.log1p(data.counts.astype(float))
        shade = np.ma.masked_equal(shade, 0) / max(float(shade.max()), 1e-9)
        ax.imshow(shade, cmap="Blues", vmin=-0.12, vmax=1.15, aspect="auto", interpolation="nearest")
        for (i, j), count in np.ndenumerate(data.counts):
            if count:
                colour = "white" if shade[i, j] > 0.62 else INK_ON_COLOUR
                ax.text(j, i, _short(int(count)), ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(data.iterations)), [str(i) for i in data.iterations])
        ax.set_yticks(range(len(data.rules)), data.rules, fontsize=9)
        ax.tick_params(length=0)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.set_xticks(np.arange(-0.5, len(data.iterations)), minor=True)
        ax.set_yticks(np.arange(-0.5, len(data.rules)), minor=True)
        ax.grid(which="minor", axis="both", color="white", linewidth=2)
        ax.tick_params(which="minor", length=0)
        left_out = ""
        if data.left_out:
            left_out = f"  ({data.left_out} more rules: {thousands(data.left_out_count)})"
        blocks = f", {data.block} at a time" if data.block > 1 else ""
        ax.set_xlabel("iteration" + blocks + left_out)
    return ax


def _short(count: int) -> str:
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.1f}M"
