"""Figures of the laws wing: the funnel of a synthesis, seconds and cases of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.plots import style
from workbench.run.trace import StepKind, Trace
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


#: The stages of the funnel: name, colour.
STAGES: Final = (
    ("terms", style.GREY),
    ("classes", style.SKY),
    ("candidates", style.BLUE),
    ("judged", style.ORANGE),
    ("laws", style.VERMILION),
)
_LABEL: Final[Mapping[str, Any]] = {"ha": "center", "va": "bottom", "fontsize": 6, "rotation": 90}


def funnel_data(trace: Trace) -> pd.DataFrame:
    """Return the numbers of a synthesis' trace, one row per size of terms.

    ``judged`` candidates are those that the laws found so far did not imply. ``laws`` are those that hold; some
    follow from laws found later, and are not kept.
    """
    import pandas as pd

    found: list[dict[str, int]] = []
    for step in trace:
        counts = step.counts
        if step.kind is StepKind.ENUMERATION:
            found.append({**counts, "judged": 0, "laws": 0})
        elif step.kind is StepKind.CHOICE and found:
            found[-1]["laws"] += counts["kept"]
            found[-1]["judged"] += counts["kept"] + counts["refuted"]
    return pd.DataFrame(found, columns=["size", *(name for name, _ in STAGES)])


def plot_funnel(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw terms, classes, candidates and laws for each size of terms, on a logarithmic axis."""
    data = funnel_data(trace)
    with style.drawing(ax, (6.0, 3.4)) as ax:
        if data.empty:
            return style.say(ax, "no terms enumerated yet")
        width = 0.8 / len(STAGES)
        for place, (name, colour) in enumerate(STAGES):
            at = data["size"] + (place - (len(STAGES) - 1) / 2) * width
            ax.bar(at, data[name].clip(lower=0.5), width * 0.95, color=colour, label=name)
            for x, number in zip(at, data[name], strict=True):
                style.note(ax, thousands(number), (x, max(number, 0.5)), (0, 2), **_LABEL)
        ax.set_yscale("log")
        ax.set_ylim(0.5, 30 * data["terms"].max())
        ax.set_xticks(data["size"])
        ax.set_xlabel("operators in a term")
        ax.set_ylabel("number")
        ax.legend(ncols=len(STAGES), loc="upper center", fontsize=7, frameon=False)
        name = trace.meta.get("grammar", "a grammar")
        kept = [s.counts["kept"] for s in trace if s.kind is StepKind.REDUCTION and "dropped" in s.counts]
        rest = f", {kept[-1]} kept" if kept else ""
        ax.set_title(f"Synthesis from {name}: {data['laws'].sum()} laws found{rest}")
    return ax


#: The phases of a verification: kinds of steps, colour, name. The rounds end with a step of their own.
PHASES: Final = (
    ((StepKind.SCREENING,), style.GREY, "search for counterexamples"),
    ((StepKind.PASS,), style.SKY, "making the cases"),
    ((StepKind.ROUND, StepKind.UNPROVED), style.BLUE, "a round of axioms"),
    ((StepKind.DECISION,), style.ORANGE, "more instances, chains, regions"),
)
_OPEN: Final = "#F3CF80"


def rounds_data(trace: Trace) -> pd.DataFrame:
    """Return the cases after each round of axioms, beginning with the start; no rows without cases.

    Cases were proved in rounds ``before``, are proved ``now``, or stay ``open``.
    """
    import pandas as pd

    start = next((step for step in trace if step.kind is StepKind.PASS and "open" in step.counts), None)
    steps = [] if start is None else [start, *(step for step in trace if step.kind is StepKind.ROUND)]
    rows = [(step.counts.get("proved", 0), step.counts["open"], step.e_nodes) for step in steps]
    found = pd.DataFrame(rows, columns=["now", "open", "e_nodes"])
    found.insert(0, "before", found["open"].max() - found["open"] - found["now"])
    return found


def plot_verification_seconds(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the seconds of each step, with the phase as colour."""
    steps = list(trace)
    with style.drawing(ax, (6.0, 3.8)) as ax:
        if not steps:
            return style.say(ax, "no steps recorded")
        for kinds, colour, label in PHASES:
            of_phase = [step for step in steps if step.kind in kinds]
            ax.bar([s.index for s in of_phase], [s.seconds for s in of_phase], color=colour, label=label)
        total = sum(s.seconds for s in steps)
        style.name_axes(ax, f"Seconds by step: {total:.1f} in all", "step", "seconds", columns=0)
        style.whole_ticks(ax)
        ax.set_ylim(0, 1.45 * max(s.seconds for s in steps) or 1.0)
        ax.legend(ncols=2, loc="upper left", fontsize=9)
    return ax


def plot_verification_rounds(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cases that each round of axioms proves; below each round are the e-nodes after it."""
    rounds = rounds_data(trace)
    with style.drawing(ax, (6.0, 3.8)) as ax:
        if rounds.empty:
            return style.say(ax, "no cases recorded")
        total = rounds["open"].iloc[0]
        before, proved, places = rounds["before"], rounds["before"] + rounds["now"], range(len(rounds))
        ax.bar(places, before, color=style.FAINT, label="proved before")
        ax.bar(places, rounds["now"], bottom=before, color=style.BLUE, label="proved in this round")
        ax.bar(places, rounds["open"], bottom=proved, color=_OPEN, label="open")
        for n, count in enumerate(proved):
            ax.text(n, 1.02 * total, str(count), ha="center", fontsize=9)
        ax.set_xticks(places, [f"{n or 'start'}\n{thousands(m)}" for n, m in enumerate(rounds["e_nodes"])])
        below = "round of axioms, and e-nodes after it"
        style.name_axes(ax, f"Cases proved by round, of {total}", below, "cases", columns=0)
        ax.set_ylim(0, 1.3 * total)
        ax.grid(visible=False)
        ax.legend(ncols=3, loc="upper left", fontsize=9)
    return ax
