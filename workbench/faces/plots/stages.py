"""The time of an optimisation by stage, as stacked bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workbench.faces.plots.records import Records, estimate, records_frame, refuse_mixed
from workbench.faces.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RIM,
    SKY,
    VERMILION,
    drawing,
    name_axes,
    name_rows,
    note,
    say,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Stages in order, named as in :attr:`workbench.Optimized.seconds`, with colour and hatch.
STAGES: Final[dict[str, tuple[str, str]]] = {
    "import": (FAINT, ""),
    "engine": (GREY, ""),
    "saturation": (BLUE, ""),
    "snapshot": (SKY, "////"),
    "pricing": (GREEN, ""),
    "extraction": (VERMILION, ""),
    "history": (PURPLE, "...."),
    "certificate": (ORANGE, "xxx"),
}


@dataclass(frozen=True, slots=True)
class Stages:
    """Mean seconds: ``seconds[i][j]`` is of ``runs[i]`` in ``stages[j]``, over ``counts[i]`` repeats."""

    runs: tuple[str, ...]
    stages: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]

    @property
    def totals(self) -> tuple[float, ...]:
        """Return the sum of each run's stages."""
        return tuple(sum(row) for row in self.seconds)


def stages_data(records: Records, stages: tuple[str, ...] = tuple(STAGES)) -> Stages:
    """Return the seconds by stage of results, or of records with columns named like stages.

    Stages that no run has are left out; ``stages`` selects among them (Tensat's time covers
    ``("saturation", "extraction")``). Runs of the same network, method and k_multi are averaged. Raise
    ValueError for an unknown stage, or if no record has seconds of a stage.
    """
    unknown = [s for s in stages if s not in STAGES]
    if unknown:
        raise ValueError(f"stages must be among {', '.join(STAGES)}, got {unknown[0]!r}")
    frame = records_frame(records, "network")
    there = [s for s in stages if s in frame.columns and frame[s].notna().any()]
    if len(frame) and not there:
        raise ValueError(f"the records must have seconds of a stage ({', '.join(stages)}), got none")
    frame = frame.dropna(subset=there, how="all") if there else frame
    several = {
        "method": frame["method"].nunique() > 1,
        "k_multi": frame["k_multi"].nunique() > 1,
    }
    runs, rows, counts = [], [], []
    groups = frame.groupby(["network", "method", "k_multi", "published"], sort=False, dropna=False)
    for (network, method, k, published), part in groups:
        refuse_mixed(part, f"{method} on {network}")
        names = [str(network)]
        names += [str(method)] if several["method"] else []
        names += [f"k={k:g}"] if several["k_multi"] and k == k else []
        runs.append(", ".join(names) + (" (published)" if published else ""))
        means = [estimate(part[s]) for s in there]
        rows.append(tuple(m.mean if m.count else 0.0 for m in means))
        counts.append(len(part))
    return Stages(tuple(runs), tuple(there), tuple(rows), tuple(counts))


def plot_stages(
    records: Records,
    ax: Axes | None = None,
    *,
    stages: tuple[str, ...] = tuple(STAGES),
    share: bool = False,
) -> Axes:
    """Draw the seconds by stage as stacked bars, one bar per run.

    Args:
        records: The records.
        ax: The axes; by default those of a new figure.
        stages: The stages to draw.
        share: Whether to draw percentages of each run's time instead of seconds.
    """
    data = stages_data(records, stages)
    with drawing(ax, (7.0, 1.5 + 0.42 * max(1, len(data.runs)))) as ax:
        if not data.runs:
            return say(ax, "no records")
        ax.grid(visible=False)
        ax.grid(axis="x")
        left = [0.0] * len(data.runs)
        scale = [100 / total if share and total > 0 else 1.0 for total in data.totals]
        longest = max(100.0 if share else max(data.totals), 1e-9)
        for j, stage in enumerate(data.stages):
            colour, hatch = STAGES[stage]
            widths = [row[j] * s for row, s in zip(data.seconds, scale, strict=True)]
            places, look = range(len(data.runs)), {"color": colour, "hatch": hatch, **RIM}
            ax.barh(places, widths, 0.62, left=left, label=stage, **look)
            for i, width in enumerate(widths):
                if width > 0.085 * longest:
                    ax.text(
                        left[i] + width / 2,
                        i,
                        f"{width:.0f} %" if share else f"{width:.2g}",
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=INK,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85},
                    )
                left[i] += width
        for i, total in enumerate(data.totals):
            said = f"{total:.3g} s" + (f", {data.counts[i]} repeats" if data.counts[i] > 1 else "")
            note(ax, said, (left[i], i), (4, 0), va="center", fontsize=8)
        name_rows(ax, data.runs)
        ax.set_xlim(0, longest * 1.18)
        name_axes(ax, "Time by stage", "share of the run's time in %" if share else "seconds")
    return ax
