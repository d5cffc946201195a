"""The tables of a study of any kind, made from its existing records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.studies.experiments.plan import Plan
from workbench.studies.experiments.registry import part_of
from workbench.support.files import UnwritableOutput, write_atomic

if TYPE_CHECKING:
    import pandas as pd


def render(plan: Plan) -> tuple[pd.DataFrame, str]:
    """Return a study's figures as a frame and its tables as text."""
    records = plan.records()
    kind = part_of(plan.study, "tables")
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
