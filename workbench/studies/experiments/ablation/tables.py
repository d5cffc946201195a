"""Tables of the ablation study: the increase in cost of each network without each rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from workbench.studies.experiments.markdown import about, distinct, lines, missing, seconds_text
from workbench.studies.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "method", "rule", "original", "with_all", "cost", "loss", "bound", "instead", "e_nodes",
    "stop_reason", "complete", "seconds",
)  # fmt: skip

#: Loss in percent up to which a rule is not needed.
SAME: Final = 1e-3


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per rule left out, and one row without a rule for a run that left none out."""
    import pandas as pd

    rows = []
    for record in records:
        row = record["row"]
        whole = {
            "network": row["network"],
            "method": row["method"],
            "original": row.get("original"),
            "with_all": row.get("optimized"),
        }
        without = record["result"].get("without", [])
        rows += [{**without_one, **whole} for without_one in without] or [
            {**whole, "stop_reason": row["status"]}
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"e_nodes": "Int64"})


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: rules by networks at a glance, then every network."""
    parts = ["# Ablation: the best graph without each rule", _about(records)]
    for method in distinct(r["row"]["method"] for r in records):
        done = [r for r in records if r["row"]["method"] == method and not r["failed"]]
        parts += [f"## At a glance: {method}", _overview(done)]
    parts += [text for record in records for text in _detail(record)]
    return "\n\n".join(parts + missing(plan)) + "\n"


def _about(records: Sequence[Record]) -> str:
    sources = distinct(str(r["row"]["cost_source"]) for r in records if r["row"].get("cost_source"))
    return about(
        records,
        ".",
        f"Costs: {'; '.join(sources) or 'none yet'}; sums over operators in µs, not measured run times. A "
        "law and its reverse (`NAME-back`) are two rules. A rule that is not needed may still be useful: if "
        "two rules lead to the same graph, either one can be left out.",
    )


def _overview(records: Sequence[Record]) -> str:
    """Return the table of losses, rules by networks, with the most needed rules first."""
    networks = distinct(r["row"]["network"] for r in records)
    losses: dict[str, dict[str, float]] = {}
    for record in records:
        for row in record["result"]["without"]:
            losses.setdefault(row["rule"], {})[record["row"]["network"]] = row["loss"]
    if not losses:
        return "No rule was left out."
    rules = sorted(losses, key=lambda rule: -max(losses[rule].values()))
    gains = {r["row"]["network"]: r["row"]["original"] / r["row"]["optimized"] - 1 for r in records}
    rows = [[rule, *(_loss(losses[rule].get(network)) for network in networks)] for rule in rules]
    rows.insert(0, ["*none: gain of all rules*", *(f"{gains[network]:+.1%}" for network in networks)])
    key = (
        "Each cell: the cost without the rule / the cost with all rules − 1. **=**: the same cost without "
        "it. Empty: the rule was not left out, as it had no part in the result."
    )
    return lines(["without", *networks], rows) + "\n\n" + key


def _loss(value: float | None) -> str:
    if value is None:
        return ""
    return "=" if abs(value) <= SAME else f"{value:+.2f}%"


def _detail(record: Record) -> list[str]:
    row = record["row"]
    head = f"## {row['network']}, {row['method']}"
    if record["failed"]:
        return [head, f"{row['status']}: {row['notes']}"]
    said = (
        f"{row['original']:.3f} → {row['optimized']:.3f} µs with all rules; {row['nodes']} e-nodes; "
        f"{row['needed']} of {row['left_out']} rules needed; {seconds_text(row['seconds'])}."
    )
    left = record["result"]["not_left_out"]
    if left:
        said += f" The time was up before {', '.join(left)}."
    if row["notes"]:
        said += f" Note: {row['notes']}."
    rows = [
        [
            str(without["rule"]),
            f"{without['cost']:.3f}",
            _loss(without["loss"]),
            str(without["instead"]),
            str(without["e_nodes"]),
            str(without["stop_reason"]) + ("" if without["complete"] else " *"),
            seconds_text(without["seconds"]),
        ]
        for without in record["result"]["without"]
    ]
    if not rows:
        return [head, said]
    key = "\n\n\\* A limit affected this result." if any(r[5].endswith("*") for r in rows) else ""
    columns = ["without", "cost", "increase", "rules used instead", "e-nodes", "ended by", "seconds"]
    return [head, said, lines(columns, rows) + key]
