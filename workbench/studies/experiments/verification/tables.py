"""Tables of the verification study: seconds and verdicts of batch against one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from workbench.studies.experiments.markdown import (
    about,
    cell,
    frame_of,
    lines,
    missing,
    repeat_text,
    seconds_text,
)
from workbench.studies.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "rules", "method", "repeat", "count", "proved", "tested", "refuted", "unknown", "rejected",
    "contradictions", "e_graph_seconds", "proving_seconds", "seconds", "e_nodes", "status", "failed", "notes",
)  # fmt: skip

#: The figure in Tensat's README for its verifier, which proves in batch.
PUBLISHED: Final = "Tensat's README reports about 30 times faster for its own verifier, on unnamed hardware"


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return frame_of(records, COLUMNS, [*COLUMNS[2:10], "e_nodes"])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: seconds side by side, verdicts, and rules with differing verdicts."""
    parts = ["# Verification: all rules in one e-graph, or each in its own", _about(records)]
    parts += ["## Seconds", _seconds(frame), "## Verdicts", _verdicts(frame)]
    differing = _differing(records)
    said = "\n".join(differing) if differing else "None: every rule has the same verdict in both modes."
    parts += ["## Rules whose verdict depends on the mode", said, *missing(plan)]
    return "\n\n".join(parts) + "\n"


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        ", one row per run.",
        "*In the e-graph*: the seconds of loading terms and applying axioms, in which the two modes differ. "
        "*Proving* adds the generic instances of every rule, which both modes need. *Whole* adds the search "
        "for counterexamples and the explanations.",
    )


def _seconds(frame: pd.DataFrame) -> str:
    rows = []
    for rules, group in frame.groupby("rules", sort=False):
        means = group.groupby("method", sort=False)[["e_graph_seconds", "proving_seconds", "seconds"]].mean()
        cells: list[str] = []
        for column in means.columns:
            batch, single = (float(means[column].get(mode, float("nan"))) for mode in ("batch", "one-by-one"))
            ratio = f"{single / batch:.1f}×" if batch > 0 and single == single else ""
            cells += [seconds_text(batch), seconds_text(single), ratio]
        count = group["count"].dropna()
        rows.append([str(rules), str(count.iloc[0]) if len(count) else "", *cells])
    head = ["rules", "number"]
    for stage in ("in the e-graph", "proving", "whole"):
        head += [f"{stage}: batch", "one by one", "ratio"]
    return lines(head, rows) + f"\n\nPublished, for orientation: {PUBLISHED}."


def _verdicts(frame: pd.DataFrame) -> str:
    names = ["proved", "tested", "refuted", "unknown", "rejected", "contradictions"]
    rows = []
    for row in frame.to_dict("records"):
        counts = [cell(row[name]) for name in [*names, "e_nodes"]]
        method = str(row["method"]) + repeat_text(row["repeat"])
        rows.append([str(row["rules"]), method, *counts, str(row["status"])])
    return lines(["rules", "mode", *names, "largest e-graph (e-nodes)", "ended by"], rows)


def _differing(records: Sequence[Record]) -> list[str]:
    """Return one line per rule whose verdict differs between runs on its file."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for record in records:
        row = record["row"]
        if not record["failed"]:
            found.setdefault(row["rules"], {})[f"{row['method']} {row['repeat']}"] = record["result"][
                "verdicts"
            ]
    said = []
    for rules, ways in found.items():
        for name in dict.fromkeys(name for verdicts in ways.values() for name in verdicts):
            judged = {way.rpartition(" ")[0]: verdicts.get(name, "–") for way, verdicts in ways.items()}
            if len(set(judged.values())) > 1:
                said.append(f"- {rules}, {name}: " + ", ".join(f"{v} ({way})" for way, v in judged.items()))
    return said
