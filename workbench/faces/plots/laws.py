"""Figures of the laws wing: the funnel of a synthesis, seconds and cases of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.plots.style import (
    BLUE,
    FAINT,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    drawing,
    name_axes,
    note,
    say,
    whole_ticks,
)
from workbench.run.trace import StepKind, Trace
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The stages of the funnel: name, colour.
STAGES: Final = (
    ("terms", GREY),
    ("classes", SKY),
    ("candidates", BLUE),
    ("verified", ORANGE),
    ("laws", VERMILION),
)
_LABEL: Final[Mapping[str, Any]] = {"ha": "center", "va": "bottom", "fontsize": 6, "rotation": 90}


@dataclass(frozen=True, slots=True)
class Funnel:
    """The numbers of one size of terms.

    ``verified`` candidates are those that the laws found so far did not imply. ``laws`` are those kept.
    """

    size: int
    terms: int
    classes: int
    candidates: int
    verified: int
    laws: int

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers in the order of :data:`STAGES`."""
        return self.terms, self.classes, self.candidates, self.verified, self.laws


def funnel_data(trace: Trace) -> list[Funnel]:
    """Return the numbers by size from a synthesis' trace."""
    found: list[Funnel] = []
    for step in trace:
        counts = step.counts
        if step.kind is StepKind.ENUMERATION:
            found.append(
                Funnel(counts["size"], counts["terms"], counts["classes"], counts["candidates"], 0, 0)
            )
        elif step.kind is StepKind.CHOICE and found:
            last = found[-1]
            kept = last.laws + counts["kept"]
            verified = last.verified + counts["kept"] + counts["refuted"]
            found[-1] = Funnel(last.size, last.terms, last.classes, last.candidates, verified, kept)
    return found


def plot_funnel(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw terms, classes, candidates and laws for each size of terms, on a logarithmic axis."""
    sizes = funnel_data(trace)
    with drawing(ax, (6.0, 3.4)) as ax:
        if not sizes:
            return say(ax, "no terms enumerated yet")
        width = 0.8 / len(STAGES)
        for place, (name, colour) in enumerate(STAGES):
            at = [f.size + (place - (len(STAGES) - 1) / 2) * width for f in sizes]
            numbers = [f.numbers()[place] for f in sizes]
            ax.bar(at, [max(n, 0.5) for n in numbers], width * 0.95, color=colour, label=name)
            for x, number in zip(at, numbers, strict=True):
                note(ax, thousands(number), (x, max(number, 0.5)), (0, 2), **_LABEL)
        ax.set_yscale("log")
        ax.set_ylim(0.5, 30 * max(f.terms for f in sizes))
        ax.set_xticks([f.size for f in sizes])
        ax.set_xlabel("operators in a term")
        ax.set_ylabel("number")
        ax.legend(ncols=len(STAGES), loc="upper center", fontsize=7, frameon=False)
        name, laws = trace.meta.get("grammar", "a grammar"), sum(f.laws for f in sizes)
        ax.set_title(f"Synthesis from {name}: {laws} laws verified")
    return ax


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
    with drawing(ax, (6.0, 3.8)) as ax:
        if not steps:
            return say(ax, "no steps recorded")
        for kinds, colour, label in PHASES:
            of_phase = [step for step in steps if step.kind in kinds]
            ax.bar([s.index for s in of_phase], [s.seconds for s in of_phase], color=colour, label=label)
        total = sum(s.seconds for s in steps)
        name_axes(ax, f"Seconds by step: {total:.1f} in all", "step", "seconds", columns=0)
        whole_ticks(ax)
        ax.set_ylim(0, 1.45 * max(s.seconds for s in steps) or 1.0)
        ax.legend(ncols=2, loc="upper left", fontsize=9)
    return ax


def plot_verification_rounds(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the cases that each round of axioms proves; below each round are the e-nodes after it."""
    rounds = rounds_data(trace)
    with drawing(ax, (6.0, 3.8)) as ax:
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
        below = "round of axioms, and e-nodes after it"
        name_axes(ax, f"Cases proved by round, of {total}", below, "cases", columns=0)
        ax.set_ylim(0, 1.3 * total)
        ax.grid(visible=False)
        ax.legend(ncols=3, loc="upper left", fontsize=9)
    return ax
