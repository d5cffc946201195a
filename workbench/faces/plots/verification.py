"""A verification: seconds by step, and the cases proved by each round of axioms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.ticker import MaxNLocator

from workbench.faces.plots.style import BLUE, FAINT, GREY, ORANGE, SKY, axes_for, paper_style, say, set_title
from workbench.run.trace import StepKind, Trace
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The phases of a verification: kinds of steps, colour, name. The rounds end with a step of their own.
PHASES: Final = (
    ((StepKind.SCREENING,), GREY, "search for counterexamples"),
    ((StepKind.PASS,), SKY, "making the cases"),
    ((StepKind.ROUND, StepKind.UNPROVED), BLUE, "a round of axioms"),
    ((StepKind.DECISION,), ORANGE, "more instances, chains, regions"),
)
_OPEN: Final = "#F3CF80"


@dataclass(frozen=True, slots=True)
class Round:
    """The cases after one round of axioms: proved in rounds before, proved in this one, still open."""

    before: int
    now: int
    open: int
    e_nodes: int

    @property
    def cases(self) -> int:
        """Return the number of all cases."""
        return self.before + self.now + self.open


def rounds_data(trace: Trace) -> list[Round]:
    """Return the cases by round, beginning with the start; an empty list if no case was made."""
    start = next((step for step in trace if step.kind is StepKind.PASS and "open" in step.counts), None)
    if start is None:
        return []
    steps = [start, *(step for step in trace if step.kind is StepKind.ROUND)]
    total = start.counts["open"]
    rounds = []
    for step in steps:
        now, still = step.counts.get("proved", 0), step.counts["open"]
        rounds.append(Round(total - still - now, now, still, step.e_nodes))
    return rounds


def plot_verification_seconds(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the seconds of each step, with the phase as colour."""
    steps = list(trace)
    with paper_style():
        ax = axes_for(ax, (6.0, 3.8))
        if not steps:
            return say(ax, "no steps recorded")
        for kinds, colour, label in PHASES:
            of_phase = [step for step in steps if step.kind in kinds]
            ax.bar([s.index for s in of_phase], [s.seconds for s in of_phase], color=colour, label=label)
        set_title(ax, f"Seconds by step: {sum(s.seconds for s in steps):.1f} in all")
        ax.set_xlabel("step")
        ax.set_ylabel("seconds")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylim(0, 1.45 * max(s.seconds for s in steps) or 1.0)
        ax.legend(ncols=2, loc="upper left", fontsize=9)
    return ax


def plot_verification_rounds(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cases that each round of axioms proves; below each round are the e-nodes after it."""
    rounds = rounds_data(trace)
    with paper_style():
        ax = axes_for(ax, (6.0, 3.8))
        if not rounds:
            return say(ax, "no cases recorded")
        total = rounds[0].cases
        for n, r in enumerate(rounds):
            ax.bar(n, r.before, color=FAINT, label="" if n else "proved before")
            ax.bar(n, r.now, bottom=r.before, color=BLUE, label="" if n else "proved in this round")
            ax.bar(n, r.open, bottom=r.before + r.now, color=_OPEN, label="" if n else "open")
            ax.text(n, 1.02 * total, str(r.before + r.now), ha="center", fontsize=9)
        names = [f"{n or 'start'}\n{thousands(r.e_nodes)}" for n, r in enumerate(rounds)]
        ax.set_xticks(range(len(rounds)), names)
        set_title(ax, f"Cases proved by round, of {total}")
        ax.set_xlabel("round of axioms, and e-nodes after it")
        ax.set_ylabel("cases")
        ax.set_ylim(0, 1.3 * total)
        ax.grid(visible=False)
        ax.legend(ncols=3, loc="upper left", fontsize=9)
    return ax
