"""The funnel of a synthesis: terms, classes, candidates and laws by size of term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.plots.style import BLUE, GREY, ORANGE, SKY, VERMILION, axes_for, paper_style, say
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
    with paper_style():
        ax = axes_for(ax, (6.0, 3.4))
        if not sizes:
            return say(ax, "no terms enumerated yet")
        width = 0.8 / len(STAGES)
        for place, (name, colour) in enumerate(STAGES):
            at = [f.size + (place - (len(STAGES) - 1) / 2) * width for f in sizes]
            numbers = [f.numbers()[place] for f in sizes]
            ax.bar(at, [max(n, 0.5) for n in numbers], width * 0.95, color=colour, label=name)
            for x, number in zip(at, numbers, strict=True):
                place_of = (x, max(number, 0.5))
                ax.annotate(thousands(number), place_of, (0, 2), textcoords="offset points", **_LABEL)
        ax.set_yscale("log")
        ax.set_ylim(0.5, 30 * max(f.terms for f in sizes))
        ax.set_xticks([f.size for f in sizes])
        ax.set_xlabel("operators in a term")
        ax.set_ylabel("number")
        ax.legend(ncols=len(STAGES), loc="upper center", fontsize=7, frameon=False)
        name, laws = trace.meta.get("grammar", "a grammar"), sum(f.laws for f in sizes)
        ax.set_title(f"Synthesis from {name}: {laws} laws verified")
    return ax
