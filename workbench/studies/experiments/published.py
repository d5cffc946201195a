"""Published extractions of Tensat's e-graphs in the extraction gym, for comparison with workbench runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One published extraction; a gap in the notes follows the solver's own definition."""

    source: str
    cost: float
    status: str
    seconds: float | None = None
    notes: str = ""


SOURCE: Final = (
    "logs that come with SmoothE's artifact (ASPLOS 2025): 900 s and 36 000 s are time limits; HeuriGym's "
    "best known costs (baseline.json of its e-graph extraction)"
)

#: Where HeuriGym records the costs.
HEURIGYM: Final = "HeuriGym's best known"
_UNREACHED: Final = "counts e-nodes that no root reaches"

#: The published runs by instance. The status is "optimal" only if the solver ended before its limit.
PUBLISHED: Final[dict[str, tuple[PublishedRun, ...]]] = {
    "extraction-gym/bert": (
        PublishedRun("CPLEX 900 s", 0.704720, "feasible", notes="gap 9.65 %"),
        PublishedRun("CPLEX 36 000 s", 0.704720, "optimal", 4243.0),
        PublishedRun("SCIP 900 s", 0.766555, "feasible", notes="gap 28 %"),
        PublishedRun("CBC 900 s", 4.138542, "feasible"),
        PublishedRun("SmoothE (A100)", 0.824704, "feasible", notes="reached after 1.2 s"),
    ),
    "rover/box_filter_3iteration_egraph": (PublishedRun(HEURIGYM, 1701.0, "feasible"),),
    "rover/box_filter_5iteration_egraph": (PublishedRun(HEURIGYM, 1819.0, "feasible"),),
    "rover/fir_8_tap_5iteration_egraph": (PublishedRun(HEURIGYM, 5936.0, "feasible"),),
    "rover/mcm_3_7_21_original_8iteration_egraph": (PublishedRun(HEURIGYM, 1050.0, "feasible"),),
    "rover/mcm_3_7_21_original_9iteration_egraph": (PublishedRun(HEURIGYM, 1050.0, "feasible"),),
    "maxsat/hamming6-2.clq": (PublishedRun(HEURIGYM, -3648.0, "feasible", notes=_UNREACHED),),
    "maxsat/johnson8-4-4.clq": (PublishedRun(HEURIGYM, -3710.0, "feasible", notes=_UNREACHED),),
    "tensat/bert": (PublishedRun(HEURIGYM, 0.7047199768, "feasible"),),
    "extraction-gym/resnet50": (
        PublishedRun("CPLEX 900 s", 4.385795, "feasible", notes="gap 0.04 %"),
        PublishedRun("CPLEX 36 000 s", 4.385795, "optimal", 23.3),
        PublishedRun("SCIP 900 s", 4.385795, "feasible", notes="gap 0.21 %"),
        PublishedRun("CBC 900 s", 4.485784, "feasible"),
        PublishedRun("SmoothE (A100)", 4.385795, "feasible", notes="worst of 3 seeds 4.386291; 3 to 10 s"),
    ),
    "extraction-gym/vgg": (
        PublishedRun("CPLEX 900 s", 4.850757, "feasible", notes="gap 68 %"),
        PublishedRun("CPLEX 36 000 s", 4.850757, "feasible", 36_027.0, "not proven"),
        PublishedRun("SCIP 900 s", 4.893893, "feasible", notes="gap 243 %"),
        PublishedRun("CBC 900 s", 8.262464, "feasible"),
        PublishedRun("SmoothE (A100)", 4.850757, "feasible"),
    ),
}
