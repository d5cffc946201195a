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
    together = _together(done)
    parts += ["## Rules that the laws of all grammars imply", *together] if together else []
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


def _together(records: Sequence[Record]) -> list[str]:
    """Return for each file the rules with the grammars whose laws imply them; none for one run."""
    if len(records) < 2:
        return []
    found = []
    for name in dict.fromkeys(n for record in records for n in record["result"]["covers"]):
        by_rule: dict[str, list[str]] = {}
        for record in records:
            names = record["result"]["covers"].get(name, {}).get("names", {})
            for outcome in ("derived", "not derived", "refuted"):
                for rule in names.get(outcome, ()):
                    by_rule.setdefault(rule, [])
            for rule in names.get("derived", ()):
                by_rule[rule].append(_source(record, name, rule))
        derived = sum(map(bool, by_rule.values()))
        rows = [[rule, ", ".join(dict.fromkeys(by_rule[rule]))] for rule in sorted(by_rule)]
        found += [f"{name}: {derived} of {len(by_rule)} derived.", lines(["rule", "derived by"], rows)]
    return found


def _source(record: Record, name: str, rule: str) -> str:
    covered, grammar = record["result"]["covers"][name], str(record["row"]["grammar"])
    if rule in covered.get("known", ()):
        return "known laws alone"
    count = covered.get("sampled", {}).get(rule)
    return f"{grammar} (at {count} drawn instances)" if count else grammar


def _laws(record: Record) -> str:
    row = record["row"]
    rows = [[name, f"`{law}`", verdict] for name, (verdict, law) in record["result"]["laws"].items()]
    return f"### {row['grammar']}, {row['method']}\n\n" + lines(["law", "equation", "verdict"], rows)
