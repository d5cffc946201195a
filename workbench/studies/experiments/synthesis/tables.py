"""Tables of the synthesis study: the funnel of each grammar, the laws, and the rules that they imply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.markdown import about, frame_of, lines, missing, seconds_text
from workbench.studies.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "grammar", "method", "repeat", "terms", "classes", "candidates", "open", "laws", "proved", "tested",
    "joint", "refuted", "memory", "processor", "seconds", "status", "failed", "notes",
)  # fmt: skip

#: The figures in TASO's paper for its generator, and those of its released file of rules.
PUBLISHED: Final = (
    "TASO's paper, for orientation: graphs of at most 4 operators of 26 settings, 28 744 candidates, 17 346 "
    "after renaming, 743 after common subgraphs are left out, about 5 minutes and less than 10 more to "
    "verify; graphs of 5 operators exceeded its memory. Its released generator stops at 3 operators, its "
    "released file has 133 rules, 11 of them wrong"
)


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return frame_of(records, COLUMNS, COLUMNS[2:13])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: the funnel, coverage, and the laws of each run."""
    done = [record for record in records if not record["failed"]]
    parts = ["# Synthesis: laws of operators from nothing", _about(records)]
    parts += ["## Terms, classes, candidates, laws", _funnel(done), f"{PUBLISHED}."]
    parts += ["## By number of operators", _levels(done)]
    parts += ["## Rules that the laws imply", _covered(done)]
    together = _together(done)
    parts += ["## Rules that the laws of all grammars imply", *together] if together else []
    parts += ["## Laws", *map(_laws, done), *missing(plan)]
    return "\n\n".join(parts) + "\n"


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        ", one row per run.",
        "*Terms* are evaluated, *classes* are those with a fingerprint of their own, *candidates* are equal "
        "pairs up to renaming, *laws* are those that the others do not imply. Each law was verified. "
        "*Joint* laws have several outputs; the laws imply each of their equations. *Memory* is the largest "
        "of the process plus the largest of the engine's. *Processor* time is that of both, without the "
        "steps after a synthesis.",
    )


def _funnel(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row: dict[str, Any] = record["row"]
        numbers = [
            str(row[c]) for c in ("terms", "classes", "candidates", "open", "laws", "proved", "tested")
        ]
        numbers.append(str(row.get("joint", "")))
        cost = [
            f"{row['memory']} MiB",
            seconds_text(float(row.get("processor", float("nan")))),
            seconds_text(float(row["seconds"])),
            str(row["status"]),
        ]
        rows.append([str(row["grammar"]), str(row["method"]), *numbers, *cost])
    head = ["grammar", "terms of", "terms", "classes", "candidates", "open", "laws", "proved", "tested"]
    return lines([*head, "joint", "memory", "processor", "seconds", "ended by"], rows)


def _levels(records: Sequence[Record]) -> str:
    columns = [
        "size",
        "terms",
        "classes",
        "pairs",
        "candidates",
        "derived",
        "special",
        "refuted",
        "laws",
        "open",
    ]
    rows = []
    for record in records:
        for level in record["result"]["levels"]:
            cut = "" if level["complete"] else ", cut by a limit"
            counts = [f"{level['size']}{cut}", *(str(level[c]) for c in columns[1:])]
            rows.append([str(record["row"]["grammar"]), str(record["row"]["method"]), *counts])
    return lines(["grammar", "terms of", *columns], rows)


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
    row, result = record["row"], record["result"]
    rows = [[name, f"`{law}`", verdict] for name, (verdict, law) in result["laws"].items()]
    parts = [f"### {row['grammar']}, {row['method']}", lines(["law", "equation", "verdict"], rows)]
    joint = [[name, f"`{law}`", verdict] for name, (verdict, law) in result.get("joint", {}).items()]
    if joint:
        parts += ["Laws of several outputs:", lines(["law", "equations", "verdict"], joint)]
    checks = result.get("rechecks", {})
    if checks:
        refuted = sorted(name for name, (_, wrong, _) in checks.items() if wrong)
        fewest = min(passed for passed, _, _ in checks.values())
        said = f"refuted: {', '.join(refuted)}" if refuted else "none is refuted"
        parts.append(
            f"The {len(checks)} laws that are tested and not proved were evaluated once more, each on at "
            f"least {fewest} further instances: {said}."
        )
    return "\n\n".join(parts)
