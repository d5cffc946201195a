"""The tables of a study of any kind, made from its existing records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from workbench.studies.experiments.plan import Plan, Record
from workbench.studies.experiments.registry import module_of
from workbench.support.files import UnwritableOutput, write_atomic

if TYPE_CHECKING:
    import pandas as pd


def render(plan: Plan) -> tuple[pd.DataFrame, str]:
    """Return a study's figures as a frame and its tables as text."""
    records = plan.records()
    kind = module_of(plan.study.KIND)
    frame = kind.table(records)
    return frame, kind.markdown(plan, frame, records)


def write_tables(plan: Plan) -> None:
    """Write ``table.csv`` and ``table.md`` from the existing records."""
    frame, text = render(plan)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(plan.folder / "table.csv", frame.to_csv(index=False, lineterminator="\n"))
        write_atomic(plan.folder / "table.md", text)
    except OSError as error:
        raise UnwritableOutput(f"{plan.folder}: {error.strerror or error}") from error


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def run_table(records: Iterable[Record], columns: Sequence[str], whole: Iterable[str]) -> pd.DataFrame:
    """Return one row per run; the columns ``whole`` are whole numbers."""
    import pandas as pd

    own = ("stop_reason", "failed")
    rows = [{**record["row"], **{key: record.get(key) for key in own}} for record in records]
    return pd.DataFrame(rows, columns=list(columns)).astype(dict.fromkeys(whole, "Int64"))


def about(records: Sequence[Record], first: str, *more: str) -> str:
    """Return the lines below a title: the origin of the tables, descriptions, and the machines."""
    made = "Made by `workbench run` from the records in `runs/`; `table.csv` has the same figures"
    return "\n".join([made + first, *more, *machines(records)])


def repeat_text(repeat: int) -> str:
    """Return the number of a repeat as an addition to a method's name, or an empty text for the first."""
    return f" (repeat {repeat + 1})" if repeat else ""


def cell(value: object, form: str = "{}") -> str:
    """Return a figure as the text of a cell, or an empty text if it is missing.

    >>> cell(None), cell(True), cell(0.25, "{:.1%}"), cell(12.0, "{:d}")
    ('', 'yes', '25.0%', '12')
    """
    import pandas as pd

    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return form.format(int(value) if form == "{:d}" and isinstance(value, float) else value)


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
