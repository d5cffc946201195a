"""What the tables of all kinds of studies share, as markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from workbench.experiments.plan import Plan, Record


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def machines(records: Sequence[Record]) -> list[str]:
    """Return lines that say on which machines, with which versions and under which load records were made."""
    found = [r["provenance"] for r in records]
    places = distinct(
        f"{p['machine']['cpus']} CPUs ({p['machine']['processor']}), {p['machine']['platform']}"
        for p in found
    )
    versions = distinct(", ".join(f"{k} {v}" for k, v in p["versions"].items()) for p in found)
    commits = distinct(p["commit"] or "no git" for p in found)
    changed = " (+ with changes not committed)" if any(c.endswith("+") for c in commits) else ""
    loads = [p["load"] for p in found if p["load"] is not None]
    said = [
        f"Machine: {'; '.join(places) or 'none yet'}.",
        f"Versions: {'; '.join(versions) or 'none yet'}. "
        f"Commits: {', '.join(commits) or 'none yet'}{changed}.",
    ]
    if loads:
        said.append(
            f"Load of the machine when runs began: {min(loads):.1f} to {max(loads):.1f}, the study's own "
            "solvers included; what others ran at the time makes seconds longer."
        )
    return said


def missing(plan: Plan) -> list[str]:
    """Return the section that says which runs have no record and why, nothing where all have one."""
    found = [
        f"- {subject}: {', '.join(distinct(run.method for run in runs))}"
        for subject, runs in groupby(plan.missing(), key=lambda run: run.subject)
    ]
    found += [
        f"- {reason}; if there are rows of such files, they come from elsewhere" for reason in plan.skipped
    ]
    return ["## Missing", "\n".join(found)] if found else []


def seconds_text(value: Any) -> str:
    """Return seconds with as many digits as say something, nothing for none."""
    if value is None or value != value:
        return ""
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.3f} s"


def distinct(texts: Iterable[str]) -> list[str]:
    """Return texts once each, in order."""
    return list(dict.fromkeys(texts))
