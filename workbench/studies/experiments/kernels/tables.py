"""Tables of the study of kernels: times of mixed programs against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.markdown import about, cell, frame_of, lines, missing
from workbench.studies.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "kind", "threads", "repeat", "kernels", "operators", "others", "before", "after", "speedup",
    "low", "high", "noise", "rounds", "certified", "error", "arithmetic", "flags", "status", "stop_reason",
    "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return frame_of(records, COLUMNS, ["kernels", "operators", "others", "rounds"])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text."""
    head = ["network", "threads", "kernels", "operators in them", "other operators", "ONNX Runtime µs",
            "mixed µs", "speed-up", "noise", "certified", "error", "result"]  # fmt: skip
    rows = [
        [
            str(row["network"]), str(row["threads"]), cell(row["kernels"], "{:d}"),
            cell(row["operators"], "{:d}"), cell(row["others"], "{:d}"), cell(row["before"], "{:.0f}"),
            cell(row["after"], "{:.0f}"), _speedup(row), cell(row["noise"], "{:.1%}"),
            cell(row["certified"]), cell(row["error"], "{:.1e}"),
            "the original stays" if row["status"] == "kept" else str(row["status"]),
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    parts = ["# Kernels: clusters of operators as C, next to ONNX Runtime", _about(frame, records)]
    return "\n\n".join([*parts, lines(head, rows), *missing(plan)]) + "\n"


def _about(frame: pd.DataFrame, records: Sequence[Record]) -> str:
    import pandas as pd

    chains = frame[frame["kind"] == "chain"]
    counts = [
        f"{(part['speedup'] >= 2).sum()} of {len(part)} chains at {count} "
        f"thread{'s' if count != 1 else ''} are at least 2 times as fast."
        for count, part in chains.groupby("threads")
    ]
    models = frame[frame["kind"] == "model"]
    for count, part in models.groupby("threads"):
        taken = part[part["status"] == "mixed"]
        lowest = taken["low"].min()  # no number if no model that runs with kernels was timed
        counts.append(
            f"{(taken['speedup'] >= 1.05).sum()} of {len(part)} models at {count} "
            f"thread{'s' if count != 1 else ''} are at least 1.05 times as fast"
            + (
                "."
                if pd.isna(lowest)
                else f"; the lowest interval of a model that runs with kernels begins at {lowest:.2f}."
            )
        )
    used = sorted({str(a) for a in frame["arithmetic"].dropna()})
    flags = sorted({str(f) for f in frame["flags"].dropna()})
    return about(
        records,
        ".",
        "A mixed program runs clusters of operators as C kernels, which are operators of ONNX Runtime in one "
        "session with the others; a program of kernels alone has no session. In chains, clusters compete "
        "with rewrites in one saturated e-graph. The program and the original "
        "in ONNX Runtime (its optimiser on) run in alternation, whole, on the same inputs: medians, "
        "and the 95 % interval of the ratio. If the program is not faster beyond the noise, the "
        "original stays.",
        *([f"Kernels: {', '.join(used)} (`{'`, `'.join(flags)}`)."] if used else []),
        *counts,
    )


def _speedup(row: Any) -> str:
    interval = f" ({cell(row['low'], '{:.2f}')}–{cell(row['high'], '{:.2f}')})"
    return cell(row["speedup"], "{:.2f}" + interval)
