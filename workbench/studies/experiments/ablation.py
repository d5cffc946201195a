"""The ablation study: the cost of a network's best graph without each of the rules that made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import PositiveFloat

from workbench.studies.experiments.config import Distinct, NetworkStudy, SaturationMethod, Some
from workbench.studies.experiments.plan import Plan, Record, Run, cells, network_of
from workbench.studies.experiments.tables import about, distinct, lines, missing, seconds_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationStudy(NetworkStudy):
    """A study that optimises every network by every method, then again without each rule in turn.

    The rules left out are the ``candidates`` if any are named, otherwise the rules that made the result. One
    run covers a network with all its rules; after ``seconds`` it stops before the next rule and keeps the
    figures so far. Files are as in a study of optimisation.
    """

    KIND: ClassVar[str] = "ablation"

    methods: Annotated[Mapping[str, SaturationMethod], Some]
    candidates: Distinct = ()
    seconds: PositiveFloat = 600.0

    def __post_init__(self) -> None:
        self.check_networks()


def make_plan(study: AblationStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; paths in the study are relative to ``home``."""
    own = {"candidates": list(study.candidates), "seconds": study.seconds}
    runs = (
        replace(
            run,
            config={**run.config, **own},
            columns={**run.columns, "by": "ablation"},
            seconds=study.seconds,
            # When the time is up, the optimisation without the current rule is still finished.
            grace=run.seconds + study.grace,
        )
        for run in cells(study, home)
    )
    return Plan.of(study, folder, ablate_one, runs)


def outcome(record: Record) -> str:
    """Return the outcome of an ablation in one line."""
    row = record["row"]
    return f"{row['optimized']:.6g} µs, {row['needed']} of {row['left_out']} rules needed"


# -- in the process of a run ---------------------------------------------------------------------------
def ablate_one(study: AblationStudy, given: Run) -> Record:
    """Optimise a network with all rules and without each in turn; return the figures with the trace."""
    from workbench.costs.registry import cost_model
    from workbench.studies.analysis.ablation import Ablation

    model, method, rules, cost = given.order
    run = Ablation(
        network_of(model),
        candidates=study.candidates or None,
        cost=cost_model(cost),
        certify=False,
        **(method.arguments(study.grace) | {"rules": rules}),
    )
    spent = 0.0
    for step in run:
        spent += step.seconds
        if spent > study.seconds:
            break
    best, rows = run.best, run.frame().to_dict("records")
    assert best is not None
    return {
        "stop_reason": "time limit" if run.left else "finished",
        "trace": run.trace,
        "status": best.solution.status.value,
        "notes": [run.caution],
        "row": {
            "original": best.cost_before,
            "optimized": best.cost_after,
            "bound": best.solution.bound,
            "nodes": best.e_nodes,
            "classes": best.e_classes,
            "seconds": round(spent, 4),
            "cost_source": best.cost_source,
            "left_out": len(rows),
            "needed": sum(row["loss"] > SAME for row in rows),
        },
        "result": {"without": rows, "not_left_out": list(run.left)},
    }


#: Loss in percent up to which a rule is not needed: a thousandth is rounding.
SAME: Final = 1e-3

COLUMNS: Final = (
    "network", "method", "rule", "original", "with_all", "cost", "loss", "bound", "instead", "e_nodes",
    "stop_reason", "complete", "seconds",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per rule left out, and one row without a rule for a run that left none out."""
    import pandas as pd

    rows = []
    for record in records:
        row = record["row"]
        whole = {"network": row["network"], "method": row["method"]}
        whole |= {"original": row.get("original"), "with_all": row.get("optimized")}
        left_out = record["result"].get("without", []) or [{"stop_reason": row["status"]}]
        rows += [{**without, **whole} for without in left_out]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"e_nodes": "Int64"})


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: rules by networks at a glance, then every network."""
    sources = distinct(str(r["row"]["cost_source"]) for r in records if r["row"].get("cost_source"))
    described = about(
        records,
        ".",
        f"Costs: {'; '.join(sources) or 'none yet'}; sums over operators in µs, not measured run times. A "
        "law and its reverse (`NAME-back`) are two rules. A rule that is not needed may still be useful: if "
        "two rules lead to the same graph, either one can be left out.",
    )
    parts = ["# Ablation: the best graph without each rule", described]
    for method in distinct(r["row"]["method"] for r in records):
        done = [r for r in records if r["row"]["method"] == method and not r["failed"]]
        parts += [f"## At a glance: {method}", _overview(done)]
    parts += [text for record in records for text in _detail(record)]
    return "\n\n".join(parts + missing(plan)) + "\n"


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
    rows = []
    for one in record["result"]["without"]:
        found = [str(one["rule"]), f"{one['cost']:.3f}", _loss(one["loss"]), str(one["instead"])]
        ended = str(one["stop_reason"]) + ("" if one["complete"] else " *")
        rows.append([*found, str(one["e_nodes"]), ended, seconds_text(one["seconds"])])
    if not rows:
        return [head, said]
    key = "\n\n\\* A limit affected this result." if any(r[5].endswith("*") for r in rows) else ""
    columns = ["without", "cost", "increase", "rules used instead", "e-nodes", "ended by", "seconds"]
    return [head, said, lines(columns, rows) + key]
