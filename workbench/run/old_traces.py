"""Reader of the facts in old traces, whose steps were stored without a kind and without counts.

Traces that were stored before steps had a kind (:class:`~workbench.run.step_kind.StepKind`) have it in the
notes of their steps alone. :meth:`~workbench.run.trace.Trace.load` asks for a step without a kind: no other
place reads facts from notes. The format is closed, so the texts below never change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from workbench.run.step_kind import StepKind

#: By the kind of run: the patterns of whole notes, each with the kind of its step. The named groups are
#: the counts. The first pattern that fits decides; an empty pattern fits a step without a note.
_NOTES: Final[Mapping[str, tuple[tuple[str, StepKind], ...]]] = {
    "saturation": (
        ("", StepKind.ITERATION),
        ("start graph", StepKind.START),
        ("merges among what was extracted", StepKind.MERGE),
        (".*", StepKind.CUT),
    ),
    "extraction": (
        ("original", StepKind.ORIGINAL),
        ("tree", StepKind.TREE),
        ("dag", StepKind.DAG),
        ("local search", StepKind.LOCAL_SEARCH),
        (r"presolve: (?P<before>\d+) → (?P<after>\d+) candidates", StepKind.PRESOLVE),
        ("(optimal|feasible|greedy)(; .*)?", StepKind.SETTLED),
        (".*", StepKind.INCUMBENT),
    ),
    "search": (
        ("start graph: .*", StepKind.START),
        (".*, only compared, .*", StepKind.COMPARISON),
        (".*, cut short: .*", StepKind.CUT),
        (".*", StepKind.EXPANSION),
    ),
    "verification": (
        (
            r"screened (?P<screened>\d+) of (?P<rules>\d+): (?P<refuted>\d+) counterexamples in this step",
            StepKind.SCREENING,
        ),
        (r"pass (?P<pass>\d+): (?P<open>\d+) cases to prove", StepKind.PASS),
        (r"(?P<proved>\d+) cases proved, (?P<open>\d+) open", StepKind.ROUND),
        (r"(?P<open>\d+) cases stay unproved", StepKind.UNPROVED),
        ("each rule in an e-graph of its own", StepKind.SEPARATE),
        (r"decided (?P<decided>\d+) of (?P<rules>\d+)", StepKind.DECISION),
    ),
    "ablation": (
        ("all rules", StepKind.REFERENCE),
        (".*", StepKind.WITHOUT),
    ),
}


def facts_of(note: str, run: str) -> tuple[StepKind, dict[str, int]]:
    """Return the kind and the counts of a step that was stored without them.

    ``note`` is the step's note, ``run`` the kind of the run, as in the ``kind`` of a trace's ``meta``. A step
    of a run that is not known here is an iteration.
    """
    for pattern, kind in _NOTES.get(run, ()):
        found = re.fullmatch(pattern, note, re.DOTALL)
        if found is not None:
            return kind, {name: int(number) for name, number in found.groupdict().items()}
    return StepKind.ITERATION, {}
