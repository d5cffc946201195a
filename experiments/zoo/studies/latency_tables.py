"""What the tables of studies share that time several forms of a network: ratios, medians, rivals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from workbench.studies.experiments.plan import Record
from workbench.studies.experiments.results import NOTHING, latency_frame
from workbench.studies.experiments.tables import distinct

if TYPE_CHECKING:
    import pandas as pd


def ratio_cell(row: Record | None, places: int = 2, slower: float = 0.0) -> str:
    """Return the cell of a measured ratio with its interval; bold if the whole interval is above 1.

    Args:
        row: The row of a form in :func:`workbench.results.latency`, or None.
        places: The number of decimal places of the ratio.
        slower: A ratio is marked if its whole interval is below this.
    """
    if row is None or row["speedup"] != row["speedup"]:
        return NOTHING
    text = f"{row['speedup']:.{places}f}×"
    text = f"**{text}**" if row["speedup_low"] > 1 else text
    text = f"✗ {text}" if row["speedup_high"] < slower else text
    return f"{text} ({row['speedup_low']:.2f}–{row['speedup_high']:.2f})"


def timed_columns(records: Iterable[Record], index: pd.Index[Any]) -> pd.DataFrame:
    """Return the medians of every form on every target, in µs, one row per record."""
    import pandas as pd

    timed = [
        {f"{row.target}: {row.form} µs": row.median for row in latency_frame([record]).itertuples()}
        for record in records
    ]
    return pd.DataFrame(timed, index=index)


def rival_lines(records: Iterable[Record]) -> list[str]:
    """Return a line with the rivals and their versions, or an empty list without any."""
    found = distinct(
        f"{name} {about['version']}"
        for record in records
        for name, about in record.get("latency", {}).get("rivals", {}).items()
        if about.get("version")
    )
    return [f"Rivals: {', '.join(found)}, with their default settings."] if found else []
