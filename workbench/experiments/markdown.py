"""Markdown that the tables of all kinds of studies share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from workbench.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def frame_of(records: Iterable[Record], columns: Sequence[str], whole: Iterable[str]) -> pd.DataFrame:
    """Return one row per run; the columns ``whole`` are whole numbers."""
    import pandas as pd

    own = ("stop_reason", "failed")
    rows = [{**record["row"], **{key: record.get(key) for key in own}} for record in records]
    return pd.DataFrame(rows, columns=list(columns)).astype(dict.fromkeys(whole, "Int64"))


def rival_lines(records: Iterable[Record]) -> list[str]:
    """Return a line with the rivals and their versions, or an empty list without any."""
    found = distinct(
        f"{name} {about['version']}"
        for record in records
        for name, about in record.get("latency", {}).get("rivals", {}).items()
        if about.get("version")
    )
    return [f"Rivals: {', '.join(found)}, with their default settings."] if found else []


def machines(records: Sequence[Record]) -> list[str]:
    """Return lines with the machines, versions, commits and load under which records were made."""
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
            f"Load of the machine when runs began: {min(loads):.1f} to {max(loads):.1f}, including the "
            "study's own solvers; other programs that ran at the time make the seconds longer."
        )
    return said


def missing(plan: Plan) -> list[str]:
    """Return the section on runs without a record and the reasons, or an empty list if there are none."""
    found = [
        f"- {subject}: {', '.join(distinct(run.method for run in runs))}"
        for subject, runs in groupby(plan.missing(), key=lambda run: run.subject)
    ]
    found += [
        f"- {reason}; rows of such files, if any, were recorded on another machine" for reason in plan.skipped
    ]
    return ["## Missing", "\n".join(found)] if found else []


def seconds_text(value: float | None) -> str:
    """Return seconds with the significant digits only, or an empty text for None and NaN."""
    if value is None or value != value:
        return ""
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.3f} s"


def distinct(texts: Iterable[str]) -> list[str]:
    """Return the texts without duplicates, in order."""
    return list(dict.fromkeys(texts))
