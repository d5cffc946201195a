"""Tables of the synthesis study: the funnel of each grammar, the laws, and the rules that they imply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.experiments.markdown import frame_of, lines, machines, missing, seconds_text
from workbench.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "grammar", "method", "repeat", "terms", "classes", "candidates", "open", "laws", "proved", "tested",
    "refuted", "memory", "seconds", "status", "failed", "notes",
)  # fmt: skip

#: The figures in TASO's paper for its generator: terms are graphs of at most 4 operators.
PUBLISHED: Final = (
    "TASO's generator, for orientation: graphs of at most 4 operators, 28 744 candidates, 743 after its "
    "filters; its released file has 133 rules, 11 of them wrong; 5 operators exceeded its memory"
)


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return frame_of(records, COLUMNS, COLUMNS[2:12])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: the funnel, coverage, and the laws of each run."""
    done = [record for record in records if not record["failed"]]
    parts = ["# Synthesis: laws of operators from nothing", _about(records)]
    parts += ["## Terms, classes, candidates, laws", _funnel(done), f"{PUBLISHED}."]
    parts += ["## Rules that the laws imply", _covered(done)]
    parts += ["## Laws", *map(_laws, done), *missing(plan)]
    return "\n\n".join(parts) + "\n"


def _about(records: Sequence[Record]) -> str:
    text = [
        "Made by `workbench run` from the records in `runs/`; `table.csv` has the same figures, one row per "
        "run.",
        "*Terms* are evaluated, *classes* are those with a fingerprint of their own, *candidates* are equal "
        "pairs up to renaming, *laws* are those that the others do not imply. Each law was verified. "
        "*Memory* is the largest of the process, without the engine's.",
    ]
    return "\n".join([*text, *machines(records)])


def _funnel(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row: dict[str, Any] = record["row"]
        numbers = [
            str(row[c]) for c in ("terms", "classes", "candidates", "open", "laws", "proved", "tested")
        ]
        cost = [f"{row['memory']} MiB", seconds_text(float(row["seconds"])), str(row["status"])]
        rows.append([str(row["grammar"]), str(row["method"]), *numbers, *cost])
    head = ["grammar", "terms of", "terms", "classes", "candidates", "open", "laws", "proved", "tested"]
    return lines([*head, "memory", "seconds", "ended by"], rows)


def _covered(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        for name, found in record["result"]["covers"].items():
            names = found["names"]
            cells = [str(found[o]) for o in ("derived", "not derived", "refuted")]
            where = [str(record["row"]["grammar"]), str(record["row"]["method"]), name]
            rows.append([*where, *cells, ", ".join(names["not derived"])])
    if not rows:
        return "No files of rules to compare with."
    return lines(
        ["grammar", "terms of", "rules", "derived", "not derived", "refuted", "not derived are"], rows
    )


def _laws(record: Record) -> str:
    row = record["row"]
    rows = [[name, f"`{law}`", verdict] for name, (verdict, law) in record["result"]["laws"].items()]
    return f"### {row['grammar']}, {row['method']}\n\n" + lines(["law", "equation", "verdict"], rows)
